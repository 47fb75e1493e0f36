package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// heldQueues has threads at work. Their code has a Queue in an instance variable, in a local variable, and in a
// variable around a block whose method has returned. Constants, variables of classes and a global variable have other
// Queues, which are in no variable of running code. No thread waits for any of the Queues.
const heldQueues = `
def queue(n, queue = Queue.new)
  n.times { queue << 1 }
  queue
end
JOBS = queue(44)
module Shop
  module Workers
    QUEUE = queue(55, SizedQueue.new(100))
    EMPTY = Module.new { const_set(:Inner, Module.new { const_set(:DEEP, Queue.new) }) }
  end

  class Audit
    @@lines = queue(66)
    @late = queue(77)
  end
end
$mails = queue(88)
class Mailer
  def initialize
    @jobs = Queue.new
    11.times { @jobs << 1 }
  end

  def run
    sleep
  end
end

def local
  mails = Queue.new
  22.times { mails << 1 }
  sleep
end

def around
  rest = Queue.new
  33.times { rest << 1 }
  Thread.new { sleep }
end

mailer = Mailer.new
threads = [Thread.new { mailer.run }, Thread.new { local }, around]
sleep 0.001 until threads.all? { |t| t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`

// TestLists: the Queues of running code, of constants, of classes and of global variables are found with their names,
// and their lengths are Ruby's.
func TestLists(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, heldQueues, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		want := map[int64]string{11: "@jobs", 22: "mails", 33: "", 44: "JOBS", 55: "Shop::Workers::QUEUE",
			0: "Shop::Workers::EMPTY::Inner::DEEP", 66: "Shop::Audit.@@lines", 77: "Shop::Audit.@late", 88: "$mails"}
		var lists []sampler.List
		for deadline := time.Now().Add(rubytest.Timeout); len(lists) != len(want); {
			if rd.Read(sampler.StackTick, &s) == nil {
				var q sampler.Queues
				rd.Pools(&q)
				lists = q.Lists
			}
			if time.Now().After(deadline) {
				rubytest.TooSeldomNow(t, "Queues %+v, want %v", lists, want)
			}
		}
		for _, l := range lists {
			if name, ok := want[l.Length]; !ok || l.Name != name || l.Object == 0 {
				t.Errorf("%+v, want one of %v", l, want)
			}
		}
	})
}
