package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// heldQueues has threads at work. Their code has a Queue in an instance variable, in a local variable, and in a
// variable around a block whose method has returned. A thread's name does not matter. No thread waits for any of the
// Queues.
const heldQueues = `
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

// TestLists: the Queues of running code are found with the names of their variables, and their lengths are Ruby's.
func TestLists(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, heldQueues, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		want := map[int64]string{11: "@jobs", 22: "mails", 33: ""}
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
