package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// loopFibers is a program with threads that have a fiber scheduler and threads that have none. Some run their first
// fiber, and some run another fiber. They wait in a way that bypasses the scheduler.
const loopFibers = `
class Loop
  def block(*); end
  def unblock(*); end
  def kernel_sleep(*); end
  def io_wait(*); end
  def close; end
  def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
end
$entered = Queue.new
def wait_here = ($entered << 1; select(nil, nil, nil, 1000))
def start(name, scheduler)
  Thread.new { Thread.current.name = name; Fiber.set_scheduler(Loop.new) if scheduler; yield }
end
start("loop", true) { wait_here }
start("fiber", true) { Fiber.schedule { wait_here } }
start("plain", false) { Fiber.new { wait_here }.resume }
start("none", false) { wait_here }
start("turns", true) { loop { Fiber.schedule { select(nil, nil, nil, 0.02) } } }
4.times { $entered.pop }
puts "ready"; $stdout.flush; $stdin.gets`

// TestLoopBits: a thread has BitLoopFiber while it runs a fiber of its scheduler. BitFiberTurn changes each time it
// runs another fiber.
func TestLoopBits(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		if !ruby.AtLeast(3, 0) {
			rubytest.Skip(t, "Ruby %s has no fiber scheduler", ruby.Version)
		}
		p := ruby.Start(t, loopFibers, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		loops, turns := make(map[string]int), make(map[string]map[sampler.ThreadBits]bool)
		read := 0
		both := func() bool { return len(turns["turns"]) == 2 }
		for deadline := time.Now().Add(rubytest.Timeout); (read < 20 || !both()) && time.Now().Before(deadline); {
			if rd.Read(sampler.StackTick, &s) != nil {
				continue // the list of threads changed during the read
			}
			read++
			for i := range s.Threads {
				th := &s.Threads[i]
				info, _ := rd.dict.Thread(th.ID)
				name := info.Name
				if turns[name] == nil {
					turns[name] = make(map[sampler.ThreadBits]bool)
				}
				turns[name][th.Bits&sampler.BitFiberTurn] = true
				if th.Bits&sampler.BitLoopFiber != 0 {
					loops[name]++
				}
			}
		}
		for _, name := range []string{"loop", "fiber", "plain", "none"} {
			want := 0
			if name == "fiber" {
				want = read
			}
			if loops[name] != want || len(turns[name]) != 1 {
				t.Errorf("%s: %d of %d samples in a fiber of its loop, turns %v", name, loops[name], read, turns[name])
			}
		}
		if !both() || loops["turns"] == 0 {
			t.Errorf("turns: %d of %d samples in a fiber of its loop, turns %v", loops["turns"], read, turns["turns"])
		}
	})
}
