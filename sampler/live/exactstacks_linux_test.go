package live_test

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// loggedCalls is a program whose threads call their own methods one after the other. In each call the thread gives up
// the GVL and waits for it several times, within C functions, blocks and other methods. The program logs each call.
// When it gets a line, it prints its log: for each call the method's name with the thread's number, the beginning, and
// the end.
const loggedCalls = `$stdout.sync = true
require "json"
io = IO.pipe
mutex, queue, stop = Mutex.new, Queue.new, false
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
deep = ->(n, &b) { n > 0 ? deep.(n - 1, &b) : b.call }
logs = []
threads = 5.times.map do |i|
  target = Object.new
  names = %w[pipes sleeps locks passes queues].map { |n| "#{n}_#{i}" }
  bodies = [
    -> { io[1].syswrite("x"); io[0].sysread(1) },
    -> { sleep 0.0002 },
    -> { mutex.synchronize { 50.times { |x| x.to_s } } },
    -> { 5.times { Thread.pass } },
    -> { queue << 1; queue.pop }
  ]
  log = []
  logs << log
  names.each_with_index do |name, k|
    body = bodies[k]
    target.instance_eval "def #{name}(deep, now, body, log)\n  from = now.()\n  deep.(rand(20)) { [1].each { body.() } }\n  log << ['#{name}', from, now.()]\nend"
  end
  Thread.new do
    sleep 0.001 until Thread.current[:go]
    until stop
      target.send(names.sample, deep, now, bodies.sample, log)
      log.shift(10_000) if log.size > 40_000
    end
  end
end
threads.each { |t| t[:go] = true }
puts "ready"
$stdin.gets
stop = true
threads.each(&:join)
puts JSON.generate(logs.flatten(1).map { |n, f, t| {name: n, from: f, to: t} })
$stdin.gets`

var ofLog = regexp.MustCompile(`^[a-z]+_\d$`)

// TestExactStacks: if a wait for the GVL has a stack, the stack's method must be the same as in the program's log. This
// must hold for short waits too, and for any order of threads. A wait without a stack gets the method of a nearby
// sample. For these waits, the test only counts how many methods are wrong.
func TestExactStacks(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		p, s := openExact(t, r, loggedCalls, rubytest.Options{})
		if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		told := &exactTimes{tids: make(map[sampler.ThreadID]int32)}
		m := measure.New(s.Process(), s.Dictionary(), nil)
		m.Stream().Attach(told)
		ctx, cancel := context.WithTimeout(t.Context(), r.Timeout())
		defer cancel()
		const enough = 1000
		with := 0
		if err := s.Run(ctx, func(x *sampler.Sample) {
			before := len(told.waits)
			m.Feed(x)
			for i := before; i < len(told.waits); i++ {
				if told.waits[i].Stack != 0 {
					with++
				}
			}
			if with >= enough {
				cancel()
			}
		}); err != nil {
			t.Fatal(err)
		}
		if report, err := s.EndExact(); err != nil || report.Wrong {
			t.Errorf("%+v, %v", report, err)
		}
		var calls []struct {
			Name     string
			From, To int64
		}
		p.Send(t, "")
		p.JSON(t, &calls)
		byThread := make(map[byte][]int) // indexes of a thread's calls, ordered by their begin
		for i := range calls {
			n := calls[i].Name[len(calls[i].Name)-1]
			byThread[n] = append(byThread[n], i)
		}
		frames := func(id sampler.StackID) (own string) {
			d := s.Dictionary()
			for id != 0 {
				caller, frame := d.Stack(id)
				if f := d.Frame(frame); ofLog.MatchString(f.Name) {
					return f.Name
				}
				id = caller
			}
			return ""
		}
		// The names of a thread's methods end with the thread's number. So a method's name shows which thread ran it.
		numbers := make(map[sampler.ThreadID]byte)
		exact, sampled, wrong, kinds := 0, 0, 0, make(map[string]int)
		for i := range told.waits {
			w := &told.waits[i]
			own := frames(w.Before.Stack)
			if own == "" || !w.Exact {
				continue
			}
			n := own[len(own)-1]
			if was, ok := numbers[w.Thread]; ok && was != n {
				t.Errorf("a thread of %c waits in %s", was, own)
			}
			numbers[w.Thread] = n
			list := byThread[n]
			k, _ := slices.BinarySearchFunc(list, w.FromNS, func(c int, at int64) int {
				if calls[c].From <= at {
					return -1
				}
				return 1
			})
			if k == 0 {
				continue
			}
			c := &calls[list[k-1]]
			if w.FromNS <= c.From || w.ToNS >= c.To {
				continue // between two calls
			}
			switch {
			case w.Stack == 0:
				if sampled++; own != c.Name {
					wrong++
				}
			case own != c.Name:
				t.Errorf("the program was in %s from %d to %d, the wait from %d to %d says %s", c.Name, c.From, c.To, w.FromNS, w.ToNS, own)
			default:
				exact++
				kinds[own[:len(own)-2]]++
			}
		}
		if exact < enough/4 || len(kinds) < 5 || len(numbers) < 5 {
			rubytest.TooSeldom(t, "%d waits of %d with a stack compared, in %v, of %d threads", exact, with, kinds, len(numbers))
		}
		rubytest.Report(t, "%d waits with the stack they ended with, in %v: all in the call that the program logged; by sampling %d of %d others are not", exact, kinds, wrong, sampled)
	})
}
