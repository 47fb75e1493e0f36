package probe

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// stacksProgram has numbered threads, which wait for the GVL in their innermost calls. Each thread calls methods that
// have its number in their names, to a new depth each time. It gives the GVL away within a C function, or at the end of
// its time slice. One thread runs each round in a new fiber. The stack of one thread is sometimes deeper than ddtop
// copies. Threads begin and end.
const stacksProgram = `$stdout.sync = true
io = IO.pipe
6.times do |i|
  eval <<~RUBY
    class C#{i}
      def down_#{i}(n, io)
        n > 0 ? down_#{i}(n - 1, io) : [n].each { leaf_#{i}(io) }
      end
      def leaf_#{i}(io)
        case #{i} % 3
        when 0 then io[1].syswrite("x"); io[0].sysread(1)
        when 1 then sleep 0.0003
        else (rand(200) > 0 ? 500 : 3_000_000).times { |x| x + 1 }; sleep 0.0002
        end
      end
      def run_#{i}(io)
        case #{i}
        when 3 then loop { Fiber.new { down_3(rand(40), io) }.resume }
        when 4 then loop { down_4(rand(3) > 0 ? rand(40) : 500 + rand(3000), io) }
        else loop { down_#{i}(rand(40), io) }
        end
      end
    end
  RUBY
  c = Object.const_get("C#{i}").new
  Thread.new { c.send("run_#{i}", io) }
end
Thread.new { loop { Thread.new { sleep 0.001 }.join } }
puts "ready"
$stdin.gets`

// TestStacks: a record and its stack belong to the same thread. All methods in a thread's stack have the thread's
// number in their names, and are in the order of the calls. No method is missing in a chain of calls, although threads
// call and return meanwhile. A record may lack a stack, but each stack has a record.
func TestStacks(t *testing.T) {
	rubytest.OftenEnough(t)
	needBPF(t)
	number := regexp.MustCompile(`(down|leaf|run)_(\d)$`)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		w := watch(t, r, stacksProgram, false)
		if !w.target.Stacks {
			rubytest.Skip(t, "a part of this Ruby's control frames lies elsewhere (ZJIT)")
		}
		p, err := Attach(w.proc, w.code, w.target)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		type at struct {
			ns  int64
			tid int32
		}
		ends, came := make(map[at]bool), []at(nil)
		of := make(map[int32]string) // the number in the methods of each native thread
		named, unnamed, shapes, deepest := 0, make(map[int32]error), make(map[string]int), 0
		var sample sampler.Sample
		drain := func() {
			t.Helper()
			if err := p.Drain(func(r *exact.Record) {
				if r.Kind == exact.Unlocked && r.Owner == r.Thread {
					ends[at{r.NS, r.TID}] = true
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		const enough = 1000
		for deadline := time.Now().Add(r.Timeout()); named < enough && time.Now().Before(deadline); {
			// An error is no problem: the list of threads can change during the read. The names of the methods are
			// known even after an error.
			_ = w.reader.Read(sampler.StackTick, &sample)
			drain()
			if err := p.DrainStacks(func(s *Stack) {
				came = append(came, at{s.NS, s.TID})
				id, _, _, err := w.reader.NameCopied(&ruby.CopiedStack{Low: s.Low, End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Values})
				if err != nil {
					unnamed[s.TID] = err
					return
				}
				named++
				var names []string
				who := ""
				for id != 0 {
					caller, frame := w.dict.Stack(id)
					label := w.dict.Frame(frame).Label
					if m := number.FindStringSubmatch(strings.TrimPrefix(label, "block in ")); m != nil {
						if names = append(names, m[1]); who == "" {
							who = m[2]
						}
						if who != m[2] {
							t.Errorf("a stack has methods of %s and %s: %s", who, m[2], label)
						}
					}
					id = caller
				}
				if who == "" {
					return // the main thread, whose methods have no number
				}
				if was, ok := of[s.TID]; ok && was != who {
					t.Errorf("native thread %d runs the methods of %s and of %s", s.TID, was, who)
				}
				of[s.TID] = who
				deepest = max(deepest, len(names))
				shapes[strings.Join(dedup(names), " ")]++
			}); err != nil {
				t.Fatal(err)
			}
		}
		for shape := range shapes {
			switch shape {
			case "run", "down run", "leaf down run":
			default:
				t.Errorf("a chain of calls that there is not: %s (%d times)", shape, shapes[shape])
			}
		}
		drain()
		for _, x := range came {
			if !ends[x] {
				t.Errorf("a stack of thread %d at %d, where no record says that it has the GVL", x.tid, x.ns)
			}
		}
		for tid, err := range unnamed {
			// If a fiber or thread has ended, Ruby may have collected its methods as garbage. So the thread's stack may
			// have no name.
			if who := of[tid]; who != "3" && who != "" {
				t.Errorf("a stack of thread %s has no name: %v", who, err)
			}
		}
		if named < enough || deepest < 30 || shapes["leaf down run"] == 0 {
			rubytest.TooSeldom(t, "%d stacks named, %d calls deep, %v", named, deepest, shapes)
		}
		rubytest.Report(t, "%s", fmt.Sprintf("%d stacks of waits, up to %d calls deep", named, deepest))
	})
}

// dedup removes each name that equals the name before it.
func dedup(names []string) []string {
	var out []string
	for _, n := range names {
		if len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return out
}
