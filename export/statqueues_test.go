package export

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestStatQueuesText: the text says how many connections and requests wait at which place. There is no text for a
// program without listening sockets.
func TestStatQueuesText(t *testing.T) {
	text := func(q *sampler.Queues, most int64) string {
		var b strings.Builder
		statQueues(&b, report.QueuesOf(q, q, most))
		return b.String()
	}
	puma := sampler.Pool{Kind: sampler.PoolPuma, Threads: 3, Busy: 3, Max: 5, Queued: 2, Clients: 1}
	listener := sampler.Listener{Address: "127.0.0.1:9292", Queued: 1, Limit: 1024}
	for _, c := range []struct {
		queues sampler.Queues
		most   int64
		want   string
	}{
		{sampler.Queues{Accept: sampler.Accept{Known: true}}, -1, ""},
		{sampler.Queues{Accept: sampler.Accept{Known: true, Listeners: []sampler.Listener{listener}}, Pools: []sampler.Pool{puma}}, 12,
			"backlog 3 (at most 12): 1 connection not accepted at 127.0.0.1:9292 (limit 1024), 2 requests in puma; puma 3 of 3 busy, up to 5, 1 client in its reactor\n"},
		{sampler.Queues{Accept: sampler.Accept{Why: "not permitted"}}, -1, "backlog – (not permitted)\n"},
	} {
		if got := text(&c.queues, c.most); got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}
