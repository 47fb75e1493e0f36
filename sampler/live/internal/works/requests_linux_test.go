package works

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/switches"
)

// TestUncopied: if a request begins but is not copied, ddtop reports that an unknown request has begun. If a copy comes
// with a later record, ddtop reports the request itself. Its begin must then not be before the first report.
func TestUncopied(t *testing.T) {
	const us, env1, env2 = 1000, 0x1000, 0x2000
	var got []exact.Change
	m := switches.NewMachine(exact.NewMachine(func(c *exact.Change) {
		if c.Doing.Kind == sampler.DoingWorks {
			got = append(got, *c)
		}
	}))
	w, q := New(), new(Requests)
	q.over.Store(true) // as if no clock finds what is copied
	at := int64(0)
	note := func(serves uint64, copied bool) *switches.Record {
		at += 100 * us
		r := &switches.Record{Kind: switches.Out, TID: 7, InNS: at - 10*us, NS: at, Thread: 1, Owner: 1, CFP: 0x9000 - serves&1, Serves: serves}
		r.Asleep = serves == 0
		q.copies = map[instant]*begun{}
		if copied {
			q.copies[instant{7, at}] = &begun{of: q, low: 0, end: 0x10000}
		}
		w.Note(r)
		q.Note(r, w)
		m.Feed(r)
		return r
	}
	m.Feed(&switches.Record{Kind: switches.Began, TID: 7, Thread: 1, Region: true, Syscall: -1})
	if note(0, false); note(env1, false).Work != nil {
		t.Error("it is not known yet where requests are")
	}
	note(env1, true)
	note(0, false)
	lost := note(env2, false)
	if lost.Work == nil || !lost.Work.Ready() || lost.Work.ID() != 0 {
		t.Fatalf("a request without a copy: %+v", lost.Work)
	}
	if again := note(env2, false); again.Work != nil {
		t.Error("it has begun once")
	}
	if late := note(env2, true); late.Work == nil || late.WorkNS < lost.WorkNS {
		t.Errorf("it was copied late, at %d, reported at %d: %+v", late.WorkNS, lost.WorkNS, late.Work)
	}
	note(0, false)
	m.Advance(at)
	var unfound []bool
	for i := range got {
		unfound = append(unfound, got[i].Doing.Unfound)
	}
	// The last three changes come after the end of the first request. Two of them report the second request: first
	// without its copy, and then with it. The last one is its end.
	if n := len(unfound); n < 3 || !unfound[n-3] || !unfound[n-2] || unfound[n-1] {
		t.Errorf("%+v", got)
	}
}
