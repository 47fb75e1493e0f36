package ruby

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// churnFibers is a program with two threads. Each has 12 fibers that serve requests. Each request waits several times
// for up to 20 ms, and some of its waits are within a rescue. In mode "new", each request has a fiber of its own, and
// some fibers are dropped in the middle of their request. In mode "kept", a fiber serves one request after another. In
// mode "scheduler", the fibers wait by Ruby's own Fiber.scheduler. The program logs when each request began and ended,
// in ns.
const churnFibers = `
require "json"
class Tagged < StandardError; end
Log = {}
def now; Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond); end
def pause(s); MODE == "scheduler" ? sleep(s) : Fiber.yield(s); end
def work(env, n)
  (1 + n % 3).times { |i| env["x#{i}"] = i.to_s; pause(0.001 * (n * 7 + i * 5) .modulo(20)) }
end
def call(env, n)
  return work(env, n) if n % 4 > 0
  begin raise Tagged, env["PATH_INFO"]; rescue Tagged; work(env, n); end
end
def serve(k, n)
  entry = Log["/#{k}/#{n}"] = [now, 0]
  env = {"REQUEST_METHOD" => "GET", "PATH_INFO" => "/#{k}/#{n}", "REQUEST_URI" => "/#{k}/#{n}", "HTTP_HOST" => "host"}
  if n % 7 == 0 && MODE == "new" && n % 2 == 0 then e = Enumerator.new { |y| helper(env, y) }; e.next end
  call(env, n)
  env = nil
  entry[1] = now
end
def helper(env, y); 3.times { |i| y << env["PATH_INFO"] + i.to_s }; end
class Sched
  def initialize; @wake = {}; @ready = []; end
  def fiber(&b); Fiber.new(blocking: false, &b).tap(&:resume); end
  def kernel_sleep(s = nil); (@wake[Fiber.current] = now + (s * 1e9).to_i; Fiber.yield); end
  def block(*); raise; end
  def unblock(*); raise; end
  def io_wait(*); raise; end
  def close; run; end
  def fiber_interrupt(*); nil; end
  def run
    until $over || @wake.empty?
      due = @wake.select { |_, at| at <= now }.keys
      due.each { |f| @wake.delete(f); f.resume }
      IO.select(nil, nil, nil, 0.0005) if due.empty?
    end
  end
end
MODE = ARGV[0]
n = [0, 0]
servers = 2.times.map do |k|
  Thread.new do
    Thread.current.name = "server #{k}"
    if MODE == "scheduler"
      s = Sched.new
      Fiber.set_scheduler(s)
      12.times { s.fiber { serve(k, n[k] += 1) until $over } }
      s.run
    else
      make = -> { MODE == "new" ? Fiber.new { serve(k, n[k] += 1); nil } : Fiber.new { serve(k, n[k] += 1) until $over; nil } }
      wake = {}
      until $over
        wake[make.()] = 0 while wake.size < 12
        due = wake.select { |_, at| at <= now }.keys
        due.each do |f|
          s = f.resume
          if s.nil? || MODE == "new" && rand < 0.05 then wake.delete(f) else wake[f] = now + (s * 1e9).to_i end
        end
        sleep 0.0005 if due.empty?
      end
    end
  end
end
Thread.new { loop { sleep 0.004; GC.start } }
puts "ready"; $stdout.flush
$stdin.gets
$over = true
servers.each { |t| t.join(120) or raise "#{t.name} goes on" }
puts JSON.generate(Log); $stdout.flush
$stdin.gets
exit!`

// churned collects and checks the requests that ddtop reports for waiting fibers.
type churned struct {
	claims []claim
	paths  map[sampler.WorkNumber]string
	// numbers has the number that ddtop gave to the request with each path. Each path must always have the same number.
	numbers map[string]sampler.WorkNumber
	names   map[sampler.FiberNumber]sampler.ThreadID
	at      map[attach.Address]sampler.FiberNumber
	reborn  int
}

// A claim is ddtop's report that a request was in progress at some time between fromNS and toNS.
type claim struct {
	path         string
	fromNS, toNS int64
}

func (c *churned) see(rd *Reader, look *sampler.Fibers, toNS int64) error {
	inLook := map[sampler.WorkNumber]bool{}
	for i := range look.List {
		f := &look.List[i]
		if i > 0 && look.List[i-1].Number >= f.Number {
			return fmt.Errorf("fiber %d after %d", f.Number, look.List[i-1].Number)
		}
		if of, ok := c.names[f.Number]; ok && of != f.Thread {
			return fmt.Errorf("fiber %d was thread %d's and is %d's", f.Number, of, f.Thread)
		}
		c.names[f.Number] = f.Thread
		w, handled := rd.dict.Work(f.Serving.Work), rd.dict.Exception(f.Serving.Exception)
		if w.Number == 0 {
			continue
		}
		if inLook[w.Number] {
			return fmt.Errorf("%+v of two fibers", w)
		}
		inLook[w.Number] = true
		info, _ := rd.dict.Thread(f.Thread)
		if tag, ok := strings.CutPrefix(info.Name, "server "); !ok || !strings.HasPrefix(w.Values, "/"+tag+"/") {
			return fmt.Errorf("a fiber of %q serves %q", info.Name, w.Values)
		}
		if old, ok := c.paths[w.Number]; ok && old != w.Values {
			return fmt.Errorf("request %d was %q and is %q", w.Number, old, w.Values)
		}
		if old, ok := c.numbers[w.Values]; ok && old != w.Number {
			return fmt.Errorf("%q was request %d and is %d", w.Values, old, w.Number)
		}
		c.paths[w.Number], c.numbers[w.Values] = w.Values, w.Number
		if handled != "" && handled != "Tagged: "+w.Values {
			return fmt.Errorf("%q handles %q", w.Values, handled)
		}
		if f.AtNS < look.AtNS || f.AtNS > toNS || w.BeforeNS > w.SinceNS || w.SinceNS > f.AtNS {
			return fmt.Errorf("looked at %d, in [%d, %d]: %+v", f.AtNS, look.AtNS, toNS, w)
		}
		c.claims = append(c.claims, claim{w.Values, look.AtNS, toNS})
	}
	for addr, f := range rd.waiting.known {
		if old, ok := c.at[addr]; ok && old != f.number {
			c.reborn++
		}
		c.at[addr] = f.number
	}
	return nil
}

// TestFibersChurn: fibers begin, wait and end, and new fibers take the addresses of ended ones. For every request that
// ddtop reports, the program's log must show that it was in progress at that time.
func TestFibersChurn(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, mode := range []string{"new", "kept", "scheduler"} {
			t.Run(mode, func(t *testing.T) {
				if mode == "scheduler" && !r.AtLeast(3, 0) {
					rubytest.Skip(t, "Fiber.scheduler came with Ruby 3.0")
				}
				p := r.Start(t, churnFibers, rubytest.Options{Args: []string{mode}})
				p.Expect(t, "ready")
				churnOfFibers(t, p, mode, raceSamples(t)/10)
			})
		}
	})
}

func churnOfFibers(t *testing.T, p *rubytest.Process, mode string, want int) {
	monotonic := func() int64 {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		return ts.Nano()
	}
	rd := openReaderWith(t, p.PID, Options{Values: true, Now: monotonic})
	var s sampler.Sample
	c := churned{paths: map[sampler.WorkNumber]string{}, numbers: map[string]sampler.WorkNumber{}, names: map[sampler.FiberNumber]sampler.ThreadID{},
		at: map[attach.Address]sampler.FiberNumber{}}
	reborn := 0
	if mode == "new" {
		reborn = 20
	}
	var last *sampler.Fibers
	looks := 0
	for deadline := time.Now().Add(raceTime); (len(c.claims) < want || c.reborn < reborn) && time.Now().Before(deadline); {
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			if notNow(err) {
				continue
			}
			t.Fatal(err)
		}
		// The test does not check limits of time. So each kind of work may take the largest amount of time that can be
		// saved.
		rd.waiting.look.ns, rd.waiting.search.ns = waitingSavings, waitingSavings
		rd.waiting.nextNS = 0
		if look := rd.FollowFibers(monotonic()); look != last && look != nil {
			last = look
			looks++
			if err := c.see(rd, look, monotonic()); err != nil {
				t.Fatalf("after %d: %v", len(c.claims), err)
			}
		}
		time.Sleep(2 * time.Millisecond) // lets the program run
	}
	p.Send(t, "")
	var log map[string][2]int64
	p.JSON(t, &log)
	early, late := 0, 0
	for _, x := range c.claims {
		at, ok := log[x.path]
		switch {
		case !ok:
			t.Fatalf("%q is not in the log", x.path)
		case at[0] > x.toNS:
			early++
		case at[1] != 0 && at[1] < x.fromNS:
			late++
		}
	}
	rubytest.Report(t, "%d readings of fibers with a request in %d looks, of %d requests; %d at the address of another one", len(c.claims), looks,
		len(c.paths), c.reborn)
	if early+late > 0 {
		t.Errorf("%d of %d readings are of requests that had not begun, %d of such as had ended", early, len(c.claims), late)
	}
	if len(c.claims) < want || c.reborn < reborn || len(c.paths) < want/100 {
		rubytest.TooSeldom(t, "%d readings, %d requests, %d reborn: not enough", len(c.claims), len(c.paths), c.reborn)
	}
}

// rebornMemory simulates that a fiber has ended, and that a fiber of another thread reuses its memory. When ddtop reads
// only the fiber's pointer to its thread, rebornMemory returns another pointer. The field reborn counts these reads.
type rebornMemory struct {
	attach.Memory
	threads map[attach.Address]bool
	reborn  int
}

func (m *rebornMemory) ReadBatch(ranges []attach.Range) (int, error) {
	calls, err := m.Memory.ReadBatch(ranges)
	for _, x := range ranges {
		if len(x.Buf) == 8 && m.threads[x.Addr] {
			x.Buf[0] ^= 8
			m.reborn++
		}
	}
	return calls, err
}

// TestRequestOfARebornFiber: after ddtop has read a fiber's stack, the fiber ends. Before ddtop reads the fiber's
// request, another thread's fiber begins at the same address, and waits at the same place. ddtop must not give the new
// fiber's request to the old fiber. With a real program this is rare, so the test's memory simulates it.
func TestRequestOfARebornFiber(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, churnFibers, rubytest.Options{Args: []string{"kept"}})
		p.Expect(t, "ready")
		rd := openReaderWith(t, p.PID, Options{Values: true})
		m := &rebornMemory{Memory: rd.mem, threads: map[attach.Address]bool{}}
		rd.mem, rd.serving.finder = m, work.NewFinder(m, rd.dec, rd.dict, true, 0, rd.now)
		var s sampler.Sample
		now := int64(0)
		var of map[sampler.FiberNumber]bool
		look := func() (fibers, requests int) {
			if err := rd.Read(sampler.StackTick, &s); err != nil && !notNow(err) {
				t.Fatal(err)
			}
			now += waitingEveryNS
			rd.waiting.look.ns, rd.waiting.search.ns, rd.waiting.nextNS = waitingSavings, waitingSavings, 0
			out := rd.FollowFibers(now)
			if out == nil {
				return 0, 0
			}
			for i := range out.List {
				if f := &out.List[i]; of == nil || of[f.Number] {
					fibers++
					if rd.dict.Work(f.Serving.Work).Number != 0 {
						requests++
					}
				}
			}
			return fibers, requests
		}
		until := func(done func() bool) {
			for deadline := time.Now().Add(r.Timeout()); !done(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d fibers are known, %d were another thread's", len(rd.waiting.known), m.reborn)
				}
			}
		}
		until(func() bool { _, n := look(); return n > 0 })
		of = map[sampler.FiberNumber]bool{}
		for addr, f := range rd.waiting.known {
			of[f.number] = true
			m.threads[rd.waiting.contextOf(addr)+attach.Address(rd.o.ECThread)] = true
			rd.serving.finder.Forget(&f.state)
		}
		rd.waiting.looking, rd.waiting.published = false, nil
		seen := 0
		until(func() bool {
			n, requests := look()
			if requests > 0 {
				t.Fatalf("%d of %d fibers have requests; %d were another thread's", requests, n, m.reborn)
			}
			seen += n
			return seen > 20 && m.reborn > 20
		})
	})
}
