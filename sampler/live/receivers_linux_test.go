package live_test

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// receiversProgram has threads that run a method of a Queue or a Ractor. Some of them wait for something other than
// this Queue or Ractor. The name of each thread begins with the state that ddtop must report.
const receiversProgram = `
class Jobs < Queue
  def rest; sleep; end
  def next; pop; end
end
class Slots < SizedQueue
  def rest; sleep 1_000_000; end
  def put(x); push(x); end
end
def named(name); Thread.new { Thread.current.name = name; yield }; end
named("sleeping jobs") { Jobs.new.rest }
named("parked Queue") { Jobs.new.next }
named("sleeping slots") { Slots.new(1).rest }
named("parked SizedQueue") { s = Slots.new(1); s.put(1); s.put(2) }
if defined?(Ractor)
  $VERBOSE = nil
  Ractor.new { Thread.current.name = "sleeping ractor"; sleep }
  Ractor.new { Thread.current.name = "sleeping ractor, timed"; sleep 1_000_000 }
  Ractor.new { Thread.current.name = "parked Ractor"; Ractor.receive }
  Ractor.new { Thread.current.name = "parked Thread"; Thread.new { sleep }.join }
end
puts "ready"; $stdout.flush; STDIN.read`

// TestReceiverIsNoReason: a thread that runs a method of a Queue or a Ractor may wait for something else, for example
// in sleep. ddtop must report the object as the reason for the wait only if the innermost method belongs to the
// object's class, such as Queue#pop. In a Ractor's own block, self is the Ractor. ddtop must not report this Ractor as
// the reason either.
func TestReceiverIsNoReason(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		want := 4
		if r.AtLeast(3, 0) {
			want = 8
		}
		p := r.Start(t, receiversProgram, rubytest.Options{})
		p.Expect(t, "ready")
		var c *gvl.Classifier
		last := map[string]string{}
		sampleUntil(t, p.PID, func(s *live.Source, x *sampler.Sample) bool {
			if c == nil {
				c = gvl.NewClassifier(s.Process(), s.Dictionary())
			}
			right := 0
			for _, st := range c.Classify(x) {
				info, _ := s.Dictionary().Thread(st.Thread)
				if said, ok := says(info.Name); ok {
					got := st.State.String()
					if st.State == gvl.Parked {
						got += " " + st.Detail.Kind
					}
					last[info.Name] = got
					if got == said {
						right++
					}
				}
			}
			return right == want
		})
		for name, got := range last {
			if said, _ := says(name); got != said {
				t.Errorf("%s is %s", name, got)
			}
		}
		if len(last) != want {
			t.Errorf("threads seen: %v", last)
		}
	})
}

// says returns the state with which a thread's name begins, and the kind of object for which the thread waits.
func says(name string) (string, bool) {
	switch {
	case len(name) > 8 && name[:8] == "sleeping":
		return "sleeping", true
	case len(name) > 7 && name[:7] == "parked ":
		return name, true
	}
	return "", false
}
