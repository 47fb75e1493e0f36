package recording

import (
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
)

// TestQueuesRead: a reader gets the same queues that were written. In a redacted recording, their names are pseudonyms.
// A recording with too many listening sockets is refused.
func TestQueuesRead(t *testing.T) {
	q := &sampler.Queues{AtNS: 5, Accept: sampler.Accept{Known: true, Cut: true, Overflows: 3, Drops: sampler.UnknownCount,
		Listeners: []sampler.Listener{{Inode: 1 << 40, Address: "/srv/acme/app.sock", Queued: 7, Limit: sampler.UnknownCount}}},
		Pools:  []sampler.Pool{{Kind: sampler.PoolSidekiq, Threads: 5, Busy: 4, Max: -1, Queued: -1, Clients: -1}},
		Leases: []sampler.Lease{{Queue: 1 << 40, Size: 2, Owners: []sampler.ThreadID{3, 7}}}}
	e := newEncoder(false)
	e.begin(streams{})
	samples := []sampler.Sample{{TimeNS: 10, Queues: q}, {TimeNS: 20, Queues: q}, {TimeNS: 30}}
	for i := range samples {
		if err := e.add(&samples[i]); err != nil {
			t.Fatal(err)
		}
	}
	read := func(names *redact.Redactor) (out []*sampler.Queues) {
		d := newDecoder()
		d.names = names
		d.openStreams(e.out, uint32(len(samples)))
		for d.next() {
			out = append(out, d.sample.Queues)
		}
		if err := d.err(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := read(nil); len(got) != 3 || !reflect.DeepEqual(got[0], q) || got[1] != got[0] || got[2] != nil {
		t.Errorf("%+v", got)
	}
	if got := read(redact.New()); len(got) != 3 || got[0].Accept.Listeners[0].Address != "socket-1" || got[1] != got[0] {
		t.Errorf("with pseudonyms %+v", got)
	}
	many := sampler.Sample{TimeNS: 40, Queues: &sampler.Queues{Accept: sampler.Accept{Listeners: make([]sampler.Listener, sampler.MaxListeners+1)}}}
	if err := e.add(&many); err == nil {
		t.Error("too many listening sockets are taken")
	}
}
