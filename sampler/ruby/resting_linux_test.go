package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// restingPlaces is a program whose threads wait at two places in turn, at the same depth, and compute in between. Each
// place has one caller.
const restingPlaces = `
$q = Queue.new
def compute; 3000.times { |i| i * 3 }; end
def nap; sleep 0.002; end
def take; $q.pop; end
def left; nap; end
def right; take; end
6.times { Thread.new { loop { left; compute; right; compute } } }
Thread.new { loop { sleep 0.001; $q << 1 if $q.num_waiting > 0 } }
puts "ready"; $stdout.flush; $stdin.gets`

// TestRestingStacks: threads come back to places where they have waited before, and ddtop recognizes the stack. Such a
// stack must be one that the program can have. ddtop must recognize at least 100 stacks.
func TestRestingStacks(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, restingPlaces, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		seen := make(map[string]int)
		calledBy := map[string]string{"nap": "left", "take": "right"}
		var ids []sampler.FrameID
		again := 0
		const wanted = 100 // how often each place must be seen, and how many stacks must be recognized
		deadline := time.Now().Add(rubytest.Timeout)
		for n := 0; (seen["nap"] < wanted || seen["take"] < wanted || again < wanted) && time.Now().Before(deadline); n++ {
			depth := sampler.LockTick
			if n%10 == 0 {
				depth = sampler.StackTick
			}
			before := make(map[*thread]sampler.StackID)
			for _, th := range rd.list.order {
				if th.stack.resting.rests {
					before[th] = th.stack.resting.id
				}
			}
			if rd.Read(depth, &s) != nil {
				continue // the list of threads has changed; the next read takes the new list
			}
			for i, th := range rd.list.order {
				st := &s.Threads[i]
				if st.Quality&(sampler.StackFresh|sampler.StackFailed|sampler.StackPartial) != sampler.StackFresh || rd.active(th) {
					continue
				}
				if id, ok := before[th]; ok && th.stack.rests && th.stack.id == id && !th.stack.resting.rests {
					again++ // the stack was recognized as the resting stack
				}
				ids = rd.dict.Frames(st.Stack, ids[:0])
				for k, id := range ids {
					name := rd.dict.Frame(id).Name
					caller, ok := calledBy[name]
					if !ok {
						continue
					}
					if k+1 >= len(ids) || rd.dict.Frame(ids[k+1]).Name != caller {
						t.Fatalf("%s has another caller than %s", name, caller)
					}
					seen[name]++
				}
			}
			time.Sleep(200 * time.Microsecond) // the interval of the reads
		}
		if seen["nap"] < wanted || seen["take"] < wanted || again < wanted {
			rubytest.TooSeldom(t, "seen in their places: %v; told by a stack that rested: %d", seen, again)
		}
	})
}
