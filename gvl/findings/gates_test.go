package findings

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// waitsIn returns a thread that waits for a Queue. turns is how often it has got a CPU.
func (s *scene) waitsIn(id sampler.ThreadID, turns int64, labels ...string) sampler.Thread {
	th := gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockQueue)
	th.Blocked.Object = 0xbee
	th.Kernel.Turns, th.Kernel.CPUAtNS = turns, s.now
	return s.at(th, s.stack(append([]string{"c:Thread::Queue#pop"}, labels...)...))
}

// TestGates: a gate is a method that lets only some threads in, while others wait in it. A method in which workers wait
// for jobs looks similar, but ddtop must not treat it as a gate.
func TestGates(t *testing.T) {
	wait := []string{"Pool#with", "Shop#order", "Web#run"}
	inside := []string{"c:IO#read", "Shop#query", "block in Shop#order", "Pool#with", "Shop#order", "Web#run"}
	for _, c := range []struct {
		what string
		// The function in returns which of the six threads are inside the method in a given second. vain is true if the
		// waiting threads are woken again and again, but do not get in.
		in   func(second int64) []sampler.ThreadID
		vain bool
		want []string
	}{
		{"in turn", func(second int64) []sampler.ThreadID {
			return []sampler.ThreadID{sampler.ThreadID(second%6) + 1, sampler.ThreadID((second+3)%6) + 1}
		}, false, []string{"pool_wait"}},
		{"always the same two", func(int64) []sampler.ThreadID { return []sampler.ThreadID{2, 5} }, true, []string{"pool_wait"}},
		{"two long jobs", func(int64) []sampler.ThreadID { return []sampler.ThreadID{2, 5} }, false, nil},
		{"as many as there are jobs", func(second int64) []sampler.ThreadID {
			return []sampler.ThreadID{1, 2, 3, 4, 5}[:1+second*2%5]
		}, true, nil},
		{"jobs that each take long", func(second int64) []sampler.ThreadID {
			return []sampler.ThreadID{sampler.ThreadID(second/12%6) + 1, sampler.ThreadID((second/12+3)%6) + 1}
		}, false, nil},
		{"nobody", func(int64) []sampler.ThreadID { return nil }, true, nil},
	} {
		s := newScene(t)
		for id := range sampler.ThreadID(6) {
			s.named(id+1, "web-"+itoa(int64(id)), false)
		}
		s.play(50*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			second := (s.now - gvltest.Base) / gvltest.Sec
			var list []sampler.Thread
			for id := sampler.ThreadID(1); id <= 6; id++ {
				turns := int64(1)
				if c.vain {
					turns += second
				}
				list = append(list, s.waitsIn(id, turns, wait...))
			}
			for _, id := range c.in(second) {
				list[id-1] = s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, 0), s.stack(inside...))
			}
			return 0, list
		})
		var got []string
		for _, id := range s.ids() {
			if id == "pool_wait" {
				got = append(got, id)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", c.what, s.f.Current())
		} else if len(got) > 0 {
			s.want(c.what, []string{"pool_wait"}, "4 of 6 web threads wait in Pool#with (app.rb:10) for one of 2", "; inside: web-")
		}
	}
}
