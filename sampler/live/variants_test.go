package live_test

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// eachVariant runs test for each Ruby and each way to start it (rubytest.Variant), such as with a JIT. If others is
// true, it leaves out the start without options.
func eachVariant(t *testing.T, others bool, test func(t *testing.T, r rubytest.Ruby, v rubytest.Variant)) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		variants := r.Variants(t)
		if others {
			variants = variants[1:]
		}
		for _, v := range variants {
			t.Run(v.Name, func(t *testing.T) { test(t, r, v) })
		}
	})
}

// TestParkedVariants compares ddtop's stacks of parked threads with the stacks that Ruby itself reports. It runs with
// each JIT and with M:N threads.
func TestParkedVariants(t *testing.T) {
	eachVariant(t, true, func(t *testing.T, r rubytest.Ruby, v rubytest.Variant) {
		p, truth := r.StartParked(t, v.Apply(rubytest.Options{}))
		compareTruth(t, p, truth)
	})
}

// TestRactors compares ddtop's stacks of the threads in three ractors with the stacks that Ruby itself reports. From
// 3.3 on, such a thread has no native thread while it is parked, so ddtop must do without one.
func TestRactors(t *testing.T) {
	eachVariant(t, false, func(t *testing.T, r rubytest.Ruby, v rubytest.Variant) {
		if !r.AtLeast(3, 0) {
			return // has no ractors
		}
		p, truth := r.StartRactors(t, v.Apply(rubytest.Options{}))
		compareTruth(t, p, truth)
	})
}

// schedulerProgram has two threads with a fiber scheduler. In the thread named loop, no fiber runs, and the scheduler
// waits for its fibers. In the thread named inside, a fiber runs and blocks the thread.
const schedulerProgram = `
class Scheduler
  def initialize; @wakeups = {}; end
  def run
    until @wakeups.empty?
      fiber, at = @wakeups.min_by { |_, t| t }
      wait = at - now
      IO.select(nil, nil, nil, wait) if wait > 0
      @wakeups.delete(fiber)
      fiber.resume
    end
  end
  def now; Process.clock_gettime(Process::CLOCK_MONOTONIC); end
  def close; run; end
  def fiber(&block); Fiber.new(blocking: false, &block).tap(&:resume); end
  def kernel_sleep(duration = nil)
    @wakeups[Fiber.current] = now + (duration || 1_000_000)
    Fiber.yield
  end
  def block(blocker, timeout = nil); @wakeups[Fiber.current] = now + (timeout || 1_000_000); Fiber.yield; end
  def unblock(blocker, fiber); @wakeups[fiber] = now; end
  def io_wait(io, events, timeout); @wakeups[Fiber.current] = now + 1_000_000; Fiber.yield; events; end
  def fiber_interrupt(fiber, exception); end
end
def in_fiber(n); n == 0 ? sleep : in_fiber(n - 1); end
def blocks_thread(n); n == 0 ? Fiber.new(blocking: true) { [1].each { sleep } }.resume : blocks_thread(n - 1); end
threads = []
threads << Thread.new do
  Thread.current.name = "loop"
  Fiber.set_scheduler(Scheduler.new)
  3.times { |i| Fiber.schedule { in_fiber(i) } }
end
threads << Thread.new do
  Thread.current.name = "inside"
  Fiber.set_scheduler(Scheduler.new)
  Fiber.schedule { in_fiber(2) }
  Fiber.schedule { blocks_thread(2) }
end
Thread.new do
  Thread.current.name = "reporter"
  last, same = nil, 0
  until same == 20
    now = threads.map { |t| [t.status, t.backtrace] }
    same = now == last && now.all? { |s, _| s == "sleep" } ? same + 1 : 0
    last = now
    sleep 0.005
  end
  require "json"
  puts JSON.generate(ruby: RUBY_VERSION, pid: Process.pid, threads: threads.map { |t|
    { name: t.name, status: t.inspect[/ (\w+)>\z/, 1], main: false, frames: t.backtrace_locations.map { |l|
      { path: l.path, absolute_path: l.absolute_path, line: l.lineno, label: l.label, base_label: l.base_label } } } })
  $stdout.flush
end
Thread.main.name = "main"
STDIN.gets
exit!(0)
`

// TestFiberScheduler compares ddtop's stacks of threads that have a fiber scheduler with the stacks that Ruby itself
// reports.
func TestFiberScheduler(t *testing.T) {
	eachVariant(t, false, func(t *testing.T, r rubytest.Ruby, v rubytest.Variant) {
		if !r.AtLeast(3, 1) {
			return // 3.0's scheduler has other hooks
		}
		p := r.Start(t, schedulerProgram, v.Apply(rubytest.Options{}))
		var truth rubytest.Truth
		p.JSON(t, &truth)
		if th, _ := truth.Thread("loop"); !saysFrame(th, "select") || saysFrame(th, "in_fiber") {
			t.Errorf("the thread with the event loop is somewhere else: %+v", th.Frames)
		}
		compareTruth(t, p, truth)
	})
}

func saysFrame(th rubytest.TruthThread, name string) bool {
	for _, f := range th.Frames {
		if strings.HasSuffix(f.BaseLabel, name) {
			return true
		}
	}
	return false
}

// compareTruth compares one sample of a program with parked threads with what Ruby reports. Ruby's report does not
// contain the reporter thread, which writes it. It also lacks the main thread if this thread waits for the test.
func compareTruth(t *testing.T, p *rubytest.Process, truth rubytest.Truth) {
	t.Helper()
	r := p.Ruby
	s := open(t, p.PID, live.Options{MaxDepth: 20000})
	sample := once(t, s)
	dict := s.Dictionary()
	seen := map[string]bool{}
	compared := 0
	for i := range sample.Threads {
		th := &sample.Threads[i]
		info, ok := dict.Thread(th.ID)
		if !ok {
			t.Errorf("thread %d is not in the dictionary", th.ID)
			continue
		}
		want, ok := truth.Thread(info.Name)
		if !ok {
			if info.Name != rubytest.ReporterName && info.Name != "main" {
				t.Errorf("Ruby has no thread %q", info.Name)
			}
			continue
		}
		seen[info.Name] = true
		if want.TID != 0 && th.TID != want.TID {
			t.Errorf("%s: tid %d, Ruby says %d", info.Name, th.TID, want.TID)
		}
		if want.Ractor != 0 && th.Ractor != sampler.RactorID(want.Ractor) {
			t.Errorf("%s: ractor %d, Ruby says %d", info.Name, th.Ractor, want.Ractor)
		}
		if got := th.Status.String(); got != want.Status {
			t.Errorf("%s: status %s, Ruby says %s", info.Name, got, want.Status)
		}
		if info.Main != want.Main {
			t.Errorf("%s: main %v, Ruby says %v", info.Name, info.Main, want.Main)
		}
		got := frames(dict, th.Stack)
		compared += len(got)
		if diff := compareFrames(got, want.Frames, r.AtLeast(3, 4)); diff != "" {
			t.Errorf("%s: %s", info.Name, diff)
		}
		for j, f := range want.Fibers {
			if j >= len(th.Resumers) {
				t.Errorf("%s: %d resuming fibers, Ruby says %d", info.Name, len(th.Resumers), len(want.Fibers))
				break
			}
			if diff := compareFrames(frames(dict, th.Resumers[j]), f.Frames, r.AtLeast(3, 4)); diff != "" {
				t.Errorf("%s, resuming fiber %d: %s", info.Name, j, diff)
			}
		}
	}
	for _, w := range truth.Threads {
		if !seen[w.Name] {
			t.Errorf("thread %q of Ruby's was not read", w.Name)
		}
	}
	t.Logf("%s: %d threads, %d frames compared", r.Version, len(seen), compared)
}
