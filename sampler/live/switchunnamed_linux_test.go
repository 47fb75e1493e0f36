package live_test

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// servingBadly is a program whose requests are hard to tell apart by their environments (the Hashes with the requests'
// data). A thread uses one Hash for all its requests, and serves some too fast for any record. Other threads end after
// a few requests, so that new threads get their memory. One thread makes garbage all the time, so that new environments
// get the memory of earlier ones.
const servingBadly = servingMethods + `
NUMBERS = Queue.new
def serve(requests, one = nil)
  requests.times do
    n, from = NUMBERS.pop, now
    handle(fill(one ? one.clear : {}, n), n % 5, from)
  end
end
Thread.new { serve(1 << 30, {}) }
Thread.new { loop { Thread.new { serve(5) }.join } }
Thread.new { serve(1 << 30) }
Thread.new { loop { Array.new(2000) { "garbage" * 10 }; sleep 0.002 } }
Thread.new { n = 0; loop { 3.times { NUMBERS << (n += 1) }; sleep 0.012 } }
puts 1; $stdout.flush
$stdin.gets
puts LOG.to_json; $stdout.flush
$stdin.gets
`

// TestSwitchesFindRequestsOfBadServers: each request that ddtop finds must be in the program's log, with the same
// thread and time. This must hold even if ddtop could not read the request's path. ddtop must find no request twice,
// whatever was in the memory of its environment before.
func TestSwitchesFindRequestsOfBadServers(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 1) {
			rubytest.Skip(t, "the program is written for Ruby 3.1")
		}
		for _, overhead := range []float64{0, 0.005, 0.02} {
			p := r.Start(t, servingBadly, rubytest.Options{})
			p.Line(t)
			findRequests(t, p, live.Options{From: live.FromSwitches, StackRate: 20, LockRate: 20, Values: true, Overhead: overhead}, 1)
		}
	})
}
