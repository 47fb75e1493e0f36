package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestPoolCycle: a pool hangs if no thread with a connection can continue. Each of them waits for another connection,
// or for a thread that waits for its first connection. The finding reports this circle. If one thread with a connection
// continues, it can release the connection, so there is no finding.
func TestPoolCycle(t *testing.T) {
	wait := []string{"Pool#with", "Shop#order", "Web#run"}
	second := []string{"Pool#with", "Shop#audit", "block in Shop#order", "Pool#with", "Shop#order", "Web#run"}
	inside := []string{"Shop#query", "block in Shop#order", "Pool#with", "Shop#order", "Web#run"}
	for _, c := range []struct {
		name string
		// holders says what each of the two threads with a connection does.
		holders [2]string
		says    []string
	}{
		{"want another one", [2]string{"second", "second"}, []string{"5 threads wait in Pool#with (app.rb:10)",
			"all 2 that it has are held by threads that wait", "web-1 waits for another one in Shop#audit", "it needs at least 6"}},
		// Three threads use the pool: the two that have a connection, and web-5, for which neither of them waits. If
		// the pool has one connection more than these three threads, one of them can always continue.
		{"wait for a thread each", [2]string{"join 3", "join 4"}, []string{"3 threads wait in Pool#with (app.rb:10)",
			"web-1 waits for web-3 in ", "web-2 waits for web-4 in ", "it needs at least 4"}},
		{"one of them reads", [2]string{"second", "read"}, nil},
		{"wait for a thread without need of it", [2]string{"join 3", "join 6"}, nil},
	} {
		s := newScene(t)
		for id := range sampler.ThreadID(6) {
			s.named(id+1, "web-"+itoa(int64(id+1)), false)
		}
		s.play(20*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for id := sampler.ThreadID(1); id <= 5; id++ {
				list = append(list, s.waitsIn(id, 1, wait...))
			}
			for i, does := range c.holders {
				id := sampler.ThreadID(i + 1)
				switch does {
				case "second":
					list[i] = s.waitsIn(id, 1, second...)
				case "read":
					list[i] = s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, 0), s.stack(append([]string{"c:IO#read"}, inside...)...))
				default:
					th := gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockJoin)
					th.Blocked.Holder = sampler.ThreadID(does[len(does)-1] - '0')
					list[i] = s.at(th, s.stack(append([]string{"c:Thread#join"}, inside...)...))
				}
			}
			sleeps := gvltest.Asleep(6, sampler.Stopped, sampler.BlockSleep)
			return 0, append(list, s.at(sleeps, s.stack("c:Kernel#sleep", "Web#run")))
		})
		i := slices.IndexFunc(s.f.Current(), func(f Finding) bool { return f.Title == "Cycle through a pool" })
		if got := i >= 0; got != (c.says != nil) {
			t.Errorf("%s: %v", c.name, s.f.Current())
			continue
		}
		for _, w := range c.says {
			if f := s.f.Current()[i]; !strings.Contains(f.Text, w) {
				t.Errorf("%s: %q does not say %q", c.name, f.Text, w)
			}
		}
	}
}
