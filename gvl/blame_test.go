package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestBlame(t *testing.T) {
	dict := sampler.NewDictionary()
	frame := func(label string, c bool) sampler.FrameID {
		return dict.InternFrame(sampler.Frame{Label: label, C: c})
	}
	build, net, gen := frame("Reports#build", false), frame("block in Reports#net", false), frame("JSON.generate", true)
	work := frame("Work#step", false)
	a := dict.InternStackOf([]sampler.FrameID{gen, net, build})
	b := dict.InternStackOf([]sampler.FrameID{gen, build})
	w := dict.InternStackOf([]sampler.FrameID{work})
	p := procOf(sampler.EraSched)
	c, stream := NewClassifier(p, dict), NewStream(p)
	bl := newBlame(stream, dict)
	at := int64(base)
	feed := func(n int, owner sampler.ThreadID, gc bool, threads ...sampler.Thread) {
		for range n {
			s := sampleAt(at, owner, threads...)
			s.GC.During = gc
			stream.Feed(s, c.Classify(s))
			at += ms
		}
	}
	on := func(th sampler.Thread, st sampler.StackID) sampler.Thread { th.Stack = st; return th }
	feed(1000, 1, false, on(holder(1), a), queued(2), queued(3))
	feed(500, 1, false, on(holder(1), b), queued(2), queued(3))
	feed(500, 1, true, on(holder(1), b), queued(2), queued(3))
	feed(500, 2, false, queued(1), on(holder(2), w), queued(3))
	feed(100, 0, false, queued(1), queued(2))
	feed(1, 2, false, on(holder(2), w))
	feed(5000, 1, false, on(holder(1), a))

	rep := bl.top(10, blameByThread, 0)
	const total = 2*2600*ms - ms // from the first sample to the middle before the first without waiters
	if rep.TotalNS != total || rep.NobodyNS != 2*100*ms {
		t.Errorf("total %d, nobody %d", rep.TotalNS, rep.NobodyNS)
	}
	if len(rep.Entries) != 2 || rep.Entries[0].Thread != 1 || rep.Entries[0].NS != 2*2000*ms-ms || rep.Entries[0].Stack != a ||
		rep.Entries[0].HeldNS != 2000*ms-ms/2 || rep.Entries[1].NS != 2*500*ms {
		t.Errorf("%+v", rep.Entries)
	}
	rep = bl.top(10, blameByFrame, 0)
	if len(rep.Entries) != 2 || rep.Entries[0].Frame != gen || rep.Entries[1].Frame != work {
		t.Errorf("%+v", rep.Entries)
	}
	rep = bl.top(10, blameByStack, 0)
	if len(rep.Entries) != 4 || rep.Entries[0].Kind != Running {
		t.Errorf("%+v", rep.Entries)
	}
	if m := bl.Method(1, 0); m != "Reports#build → JSON.generate" {
		t.Errorf("%q", m)
	}
	if m := bl.Method(2, 0); m != "Work#step" {
		t.Errorf("%q", m)
	}
	// Nobody has waited for the last seconds.
	if rep = bl.top(10, blameByStack, 3e9); rep.TotalNS != 0 || len(rep.Entries) != 0 {
		t.Errorf("%+v", rep)
	}
	if rep = bl.top(1, blameByStack, 60e9); rep.TotalNS != total || len(rep.Entries) != 1 {
		t.Errorf("%+v", rep)
	}
}

// TestBlameUnlisted: what waits behind a thread that no sample listed is nobody's in particular, and counts in the whole.
func TestBlameUnlisted(t *testing.T) {
	b := newBlame(NewStream(procOf(sampler.EraSched)), nil)
	for _, i := range []LockInterval{
		{Ractor: 1, Waiters: 1, Unlisted: Unlisted{Holds: true}, FromNS: 2 * ms, ToNS: 5 * ms},
		{Ractor: 1, Waiters: 1, FromNS: 5 * ms, ToNS: 7 * ms},
	} {
		b.Lock(&i)
	}
	if top := b.top(9, blameByStack, 0); top.OtherNS != 3*ms || top.NobodyNS != 2*ms || top.TotalNS != 5*ms {
		t.Errorf("%+v", top)
	}
}
