package redact

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Queues returns the queues of a process, with the addresses of its listening sockets redacted as in Peer.
func (r *Redactor) Queues(q *sampler.Queues) *sampler.Queues {
	if r == nil || q == nil {
		return q
	}
	x := *q
	x.Accept.Why = r.Text(x.Accept.Why)
	x.Accept.Listeners = slices.Clone(x.Accept.Listeners)
	for i := range x.Accept.Listeners {
		l := &x.Accept.Listeners[i]
		l.Address = r.address(sampler.PeerListener, l.Address)
	}
	return &x
}
