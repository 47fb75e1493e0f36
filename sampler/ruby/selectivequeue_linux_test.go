package ruby

import (
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// hogAndNaps is a program with a thread that computes, and 40 threads that queue for the GVL after short naps. The
// queue fills for 100 ms and then empties within a few ms.
const hogAndNaps = `
Thread.new { loop { 1 + 1 } }
40.times { |i| Thread.new { loop { sleep 0.005 + 0.001 * i } } }
$stdout.sync = true
puts "ready"
$stdin.gets`

// TestSelectiveQueue: a tick that reads few threads finds the same queue as a tick that reads all. A second Reader
// reads all threads before and after the tick. If both of its readings show the same queue of several threads, the tick
// in between must show this queue, too. The test compares the queue thread by thread.
func TestSelectiveQueue(t *testing.T) {
	t.Parallel()
	const (
		wanted  = 300 // number of comparisons
		changes = 20  // least number of comparisons in which the queue differs from the queue of the comparison before
		several = 4   // with fewer threads, the queue could change between the two readings and then look the same again
	)
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, hogAndNaps, rubytest.Options{})
		p.Expect(t, "ready")
		selective, all := openReader(t, p.PID), openReader(t, p.PID)
		if selective.Era() == sampler.EraFlag {
			rubytest.Skip(t, "this release has no queue to read")
		}
		whole := func(s *sampler.Sample) bool {
			all.list.allRead = false
			return all.Read(sampler.LockTick, s) == nil && !s.Ractors[0].Torn
		}
		var before, between, after sampler.Sample
		var last []sampler.ThreadID
		compared, changed, selectiveTicks, torn := 0, 0, 0, 0
		deadline := time.Now().Add(rubytest.Timeout)
		for i := 0; compared < wanted || changed < changes || selectiveTicks < wanted; i++ {
			if time.Now().After(deadline) {
				t.Fatalf("%d comparisons of %d, %d changes of %d, %d selective ticks, %d torn", compared, wanted, changed, changes, selectiveTicks, torn)
			}
			depth := sampler.LockTick
			if i%10 == 0 {
				depth = sampler.StackTick
			}
			maySelect := selective.choice.maySelect(depth)
			if !whole(&before) || selective.Read(depth, &between) != nil || !whole(&after) {
				continue
			}
			want, got := before.Ractors[0].Queue, between.Ractors[0].Queue
			if len(want) < several || !slices.Equal(want, after.Ractors[0].Queue) {
				continue
			}
			if between.Ractors[0].Torn {
				torn++
				continue
			}
			compared++
			if maySelect && len(selective.list.read) < len(selective.list.order) {
				selectiveTicks++
			}
			if !slices.Equal(want, last) {
				changed++
				last = append(last[:0], want...)
			}
			if !slices.Equal(want, got) {
				t.Fatalf("tick %d: threads %v are queued, a tick that read %d of %d says %v", i, want, len(selective.list.read), len(selective.list.order), got)
			}
			for j := range between.Threads {
				th := &between.Threads[j]
				if queued := th.Bits&sampler.BitQueued != 0; queued != slices.Contains(want, th.ID) {
					t.Errorf("tick %d: thread %d is queued: %v, and the queue is %v", i, th.ID, queued, want)
				}
			}
		}
		t.Logf("%d comparisons, %d changes, %d selective ticks, %d torn", compared, changed, selectiveTicks, torn)
	})
}
