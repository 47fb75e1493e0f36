package ruby

import (
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// waitedQueues is a program with threads that wait for a full Queue, and a thread that waits for an empty Queue. A
// thread's name is the number of items in its Queue.
const waitedQueues = `
def start(name)
  Thread.new { Thread.current.name = name.to_s; yield }
end
threads = [1, 3, 4, 500].map { |n| start(n) { q = SizedQueue.new(n); loop { q << 1 } } }
q = Queue.new
threads << start(0) { q.pop }
sleep 0.001 until threads.all? { |t| t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`

// TestQueueItems: ddtop reads how many items a Queue has, for few and for many items. If a thread waits for room in a
// full Queue, ddtop must not report that it waits for items.
func TestQueueItems(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, waitedQueues, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		for deadline := time.Now().Add(rubytest.Timeout); rd.Read(sampler.StackTick, &s) != nil; {
			if time.Now().After(deadline) {
				t.Fatal("no sample")
			}
		}
		seen := 0
		for _, th := range rd.list.order {
			info, _ := rd.dict.Thread(th.id)
			want, err := strconv.Atoi(info.Name)
			if err != nil {
				continue // skip the main thread
			}
			seen++
			b := &th.blocked
			if got := rd.blocking.queueItems(b.value.Object); got != int64(want) || b.takes != (want == 0) {
				t.Errorf("%d items in a Queue with %d; takes: %v (%+v)", got, want, b.takes, b.value)
			}
		}
		if seen != 5 {
			t.Errorf("%d threads", seen)
		}
	})
}
