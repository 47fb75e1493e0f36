package redact

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestRedactedQueues: the addresses of listening sockets are redacted in the same way as addresses of peers. The queues
// that were passed stay unchanged.
func TestRedactedQueues(t *testing.T) {
	r := New()
	in := &sampler.Queues{Accept: sampler.Accept{Known: true, Listeners: []sampler.Listener{{Address: "127.0.0.1:3000", Queued: 7}, {Address: "10.20.30.40:80"},
		{Address: "/srv/acme/app.sock"}}}}
	got := r.Queues(in)
	for i, want := range []string{"127.0.0.1:3000", "host-1:80", "socket-1"} {
		if l := got.Accept.Listeners[i]; l.Address != want || l.Queued != in.Accept.Listeners[i].Queued {
			t.Errorf("%+v, want %s", l, want)
		}
	}
	if in.Accept.Listeners[1].Address != "10.20.30.40:80" {
		t.Error("the original was changed")
	}
	if again := r.Queues(got); again.Accept.Listeners[2].Address != "socket-1" {
		t.Errorf("the second time %+v", again)
	}
	if r.Queues(nil) != nil || (*Redactor)(nil).Queues(in) != in {
		t.Error("nothing to redact")
	}
}
