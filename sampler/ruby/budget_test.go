package ruby

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// slowMemory is a memory that calls a function before each reading. In this function, a test moves the clock or stops
// the reader.
type slowMemory struct {
	attach.Memory
	call func()
}

func (m *slowMemory) Read(addr attach.Address, buf []byte) error {
	m.call()
	return m.Memory.Read(addr, buf)
}

func (m *slowMemory) ReadBatch(ranges []attach.Range) (int, error) {
	m.call()
	return m.Memory.ReadBatch(ranges)
}

// TestTickIsBounded: if a tick has used up its time, it must leave the remaining stacks to the next ticks, and report
// that it was cut. Within 100 ticks, the stack of each thread must be read.
func TestTickIsBounded(t *testing.T) {
	for _, g := range loadTicks(t) {
		t.Run(g.Version, func(t *testing.T) {
			now := int64(1e9)
			mem := &slowMemory{Memory: g.Pages, call: func() {}}
			r, err := g.open(mem)
			if err != nil {
				t.Fatal(err)
			}
			r.now = func() int64 { now += 1000; return now }
			const each = tickBudget / 20
			whole, err := g.open(g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ticks(whole, 3)
			if err != nil {
				t.Fatal(err)
			}
			mem.call = func() { now += each }
			fresh := make(map[sampler.ThreadID]bool)
			var s sampler.Sample
			cut, walks, longest := 0, 0, int64(0)
			for range 100 {
				began, failed := now, r.reads.Failed
				if err := r.Read(sampler.StackTick, &s); errors.Is(err, errLongWalk) && len(fresh) == 0 {
					walks++
				} else if err != nil {
					t.Fatal(err)
				}
				if longest = max(longest, now-began); r.reads.Failed > failed {
					cut++
				}
				for i := range s.Threads {
					if th := &s.Threads[i]; th.Quality&sampler.StackFresh != 0 && th.Stack != 0 {
						fresh[th.ID] = true
					}
				}
			}
			if cut == 0 {
				t.Error("no tick was cut")
			}
			for i := range want.Threads { // nothing moves, so the threads have the same order in both samples
				if want.Threads[i].Stack != 0 && !fresh[s.Threads[i].ID] {
					t.Errorf("thread %d of %d never got its turn", i, len(s.Threads))
				}
			}
			// When its time is up, a tick still finishes the walk over the threads and the stack that it has begun.
			if bound := 2*tickBudget + int64(len(s.Threads)+40)*each; longest > bound {
				t.Errorf("a tick took %d ms, want %d at most", longest/1e6, bound/1e6)
			}
			t.Logf("%d of 100 ticks cut, of which %d could not list the threads, the longest of %d ms", cut, walks, longest/1e6)
		})
	}
}

// TestCutTickSaysSo: the time of a tick can run out at any reading. Then each part of a thread's data is either right
// or missing. If something is missing, the tick must report that it was cut, even if all stacks were read.
func TestCutTickSaysSo(t *testing.T) {
	for _, g := range loadTicks(t) {
		t.Run(g.Version, func(t *testing.T) {
			whole, err := g.open(g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ticks(whole, 2)
			if err != nil {
				t.Fatal(err)
			}
			inFill := 0 // ticks that have all stacks, but lack some of their fibers or locks
			for at := 0; ; at++ {
				now, calls := int64(1e9), 0
				mem := &slowMemory{Memory: g.Pages, call: func() {}}
				r, err := g.open(mem)
				if err != nil {
					t.Fatal(err)
				}
				r.now = func() int64 { now++; return now }
				mem.call = func() {
					if calls++; calls == at+1 {
						now += tickBudget
					}
				}
				var s sampler.Sample
				if err := r.Read(sampler.StackTick, &s); errors.Is(err, errLongWalk) {
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				if calls <= at {
					break // the tick ended before the call whose number is in the variable at
				}
				stacks, rest := true, true
				for i := range s.Threads {
					th, w := &s.Threads[i], &want.Threads[i]
					fresh := th.Quality&sampler.StackFresh != 0
					resumers, blocked := len(th.Resumers) == len(w.Resumers), th.Blocked.Kind == w.Blocked.Kind
					if len(th.Resumers) > 0 && !resumers || th.Blocked.Kind != 0 && !blocked {
						t.Fatalf("cut at call %d: thread %d is %+v, not %+v", at, i, th, w)
					}
					stacks, rest = stacks && fresh, rest && resumers && blocked
				}
				if !(stacks && rest) && !r.Cut() {
					t.Fatalf("cut at call %d it does not say so; all stacks: %v, and what belongs to them: %v", at, stacks, rest)
				}
				if stacks && !rest {
					inFill++
				}
			}
			if inFill == 0 {
				t.Error("no tick was cut behind its stacks")
			}
		})
	}
}

// TestWalkIsBounded: if the walk over the list of threads exceeds its limit, the tick must fail. The next tick must
// have a higher limit. If the list is endless, no tick may take longer than the greatest limit.
func TestWalkIsBounded(t *testing.T) {
	const each = int64(time.Millisecond)
	for _, g := range loadTicks(t) {
		for _, c := range []struct {
			threads attach.Address
			listed  bool
		}{{100, true}, {2000, true}, {1 << 40, false}} {
			t.Run(fmt.Sprintf("%s/%d", g.Version, c.threads), func(t *testing.T) {
				h, r := hostileOf(t, g)
				now := int64(1e9)
				r.now = func() int64 { now++; return now }
				r.mem = &slowMemory{Memory: h, call: func() { now += each }}
				h.threads = c.threads
				r.list.order = nil
				var s sampler.Sample
				failed := uint64(0)
				for range 10 {
					began := now
					err := r.Read(sampler.StackTick, &s)
					// After the walk, the tick still finishes the stacks that it has begun, and makes a call or two for
					// all threads.
					if took := now - began; took > maxWalkBudget+2*tickBudget {
						t.Fatalf("a tick took %d ms", took/1e6)
					}
					if err == nil {
						break
					}
					if failed++; !errors.Is(err, errLongWalk) || r.reads.Failed != failed {
						t.Fatalf("%v, %d failed reads", err, r.reads.Failed)
					}
				}
				if listed := len(s.Threads) > int(c.threads); listed != c.listed {
					t.Errorf("%d threads were listed, after %d ticks that failed", len(s.Threads), failed)
				}
				t.Logf("%d ticks failed", failed)
			})
		}
	}
}

// TestTickStops: Stop ends a tick after at most 40 more reads, whenever it is called. After Resume the next tick
// succeeds.
func TestTickStops(t *testing.T) {
	for _, g := range loadTicks(t) {
		t.Run(g.Version, func(t *testing.T) {
			for at := 0; ; at++ {
				calls, after := 0, 0
				mem := &slowMemory{Memory: g.Pages, call: func() {}}
				r, err := g.open(mem)
				if err != nil {
					t.Fatal(err)
				}
				mem.call = func() {
					if calls == at {
						r.Stop()
					} else if calls > at {
						after++
					}
					calls++
				}
				var s sampler.Sample
				err = r.Read(sampler.StackTick, &s)
				if calls <= at {
					break // the tick ended before the call whose number is in the variable at
				}
				const some = 40
				if after > some {
					t.Fatalf("stopped in call %d, it made %d more (%v)", at, after, err)
				}
				r.Resume()
				mem.call = func() {}
				if err := r.Read(sampler.StackTick, &s); err != nil || errors.Is(err, view.ErrStopped) {
					t.Fatalf("resumed: %v", err)
				}
			}
		})
	}
}
