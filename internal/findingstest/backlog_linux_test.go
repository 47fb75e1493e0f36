package findingstest

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestQueueOfConstant: a Queue that is assigned to a constant grows. The finding names the constant. It also names the
// threads that put into the Queue, and the threads that take from it. A thread that took from another Queue was ended
// by an exception. The finding must not name this thread.
func TestQueueOfConstant(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	want := raised{words: []string{"the Queue Shop::JOBS has grown from ", "; 1 thread takes from it: packer in Shop.pack ",
		"; 1 thread puts into it: orders in Shop.order "}}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := load(t, r, "backlog/constant")
		defer p.Stop(t)
		p.begin(t)
		s := watch(t, p.PID, rulesWith(t, "queue_grows.time=4s"), raiseTime, says("queue_grows", want.words), func(_ *live.Source, n int) {
			if n == seenSamples {
				p.Send(t, "seen")
			}
		})
		checkRaised(t, s, "queue_grows", want)
		if f, _ := s.finding("queue_grows"); strings.Contains(f.Text, "ended") || strings.Contains(f.Text, "RuntimeError") {
			t.Errorf("%q says that a thread of this queue ended", f.Text)
		}
	})
}

// TestArrayAsQueue: workers take jobs from an Array, and the Array grows. The finding names the Array's variable and
// the workers. An Array to which workers only add raises no finding, because it is no queue.
func TestArrayAsQueue(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	want := raised{words: []string{"Queue grows: the Array @jobs has grown from ", "; 1 thread that took from it has ended (mailer-1, by Mailer::Refused)",
		"; 1 thread takes from it: mailer-0 in ", "; 1 thread puts into it: orders in "}, rules: []string{"queue_grows.time=4s"}}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		raise(t, load(t, r, "backlog/array"), "queue_grows", want)
	})
}
