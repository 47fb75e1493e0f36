package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
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
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, dict), stream.New(p)
	bl := NewBlame(stream, dict)
	at := int64(gvltest.Base)
	feed := func(n int, owner sampler.ThreadID, gc bool, threads ...sampler.Thread) {
		for range n {
			s := gvltest.SampleAt(at, owner, threads...)
			s.GC.During = gc
			stream.Feed(s, c.Classify(s))
			at += gvltest.MS
		}
	}
	on := func(th sampler.Thread, st sampler.StackID) sampler.Thread { th.Stack = st; return th }
	feed(1000, 1, false, on(gvltest.Holder(1), a), gvltest.Queued(2), gvltest.Queued(3))
	feed(500, 1, false, on(gvltest.Holder(1), b), gvltest.Queued(2), gvltest.Queued(3))
	feed(500, 1, true, on(gvltest.Holder(1), b), gvltest.Queued(2), gvltest.Queued(3))
	feed(500, 2, false, gvltest.Queued(1), on(gvltest.Holder(2), w), gvltest.Queued(3))
	feed(100, 0, false, gvltest.Queued(1), gvltest.Queued(2))
	feed(1, 2, false, on(gvltest.Holder(2), w))
	feed(5000, 1, false, on(gvltest.Holder(1), a))

	rep := bl.Top(10, ByThread, 0)
	// waits end in the middle between the last sample with waiters and the next one
	const total = 2*2600*gvltest.MS - gvltest.MS
	if rep.TotalNS != total || rep.NobodyNS != 2*100*gvltest.MS {
		t.Errorf("total %d, nobody %d", rep.TotalNS, rep.NobodyNS)
	}
	if len(rep.Entries) != 2 || rep.Entries[0].Thread != 1 || rep.Entries[0].NS != 2*2000*gvltest.MS-gvltest.MS || rep.Entries[0].Stack != a ||
		rep.Entries[0].HeldNS != 2000*gvltest.MS-gvltest.MS/2 || rep.Entries[1].NS != 2*500*gvltest.MS {
		t.Errorf("%+v", rep.Entries)
	}
	rep = bl.Top(10, ByFrame, 0)
	if len(rep.Entries) != 2 || rep.Entries[0].Frame != gen || rep.Entries[1].Frame != work {
		t.Errorf("%+v", rep.Entries)
	}
	rep = bl.Top(10, ByStack, 0)
	if len(rep.Entries) != 4 || rep.Entries[0].Kind != gvl.Running {
		t.Errorf("%+v", rep.Entries)
	}
	if m := bl.Method(1, 0); m != "Reports#build → JSON.generate" {
		t.Errorf("%q", m)
	}
	if m := bl.Method(2, 0); m != "Work#step" {
		t.Errorf("%q", m)
	}
	// No thread waited in the last seconds.
	if rep = bl.Top(10, ByStack, 3e9); rep.TotalNS != 0 || len(rep.Entries) != 0 {
		t.Errorf("%+v", rep)
	}
	if rep = bl.Top(1, ByStack, 60e9); rep.TotalNS != total || len(rep.Entries) != 1 {
		t.Errorf("%+v", rep)
	}
}

// TestBlameUnlisted: if the GVL is held by a thread that no sample listed, the time for which others wait is charged to
// no stack. It is still part of the total.
func TestBlameUnlisted(t *testing.T) {
	b := NewBlame(stream.New(gvltest.ProcOf(sampler.EraSched)), nil)
	for _, i := range []gvl.LockInterval{
		{Ractor: 1, Waiters: 1, Unlisted: gvl.Unlisted{Holds: true}, FromNS: 2 * gvltest.MS, ToNS: 5 * gvltest.MS},
		{Ractor: 1, Waiters: 1, FromNS: 5 * gvltest.MS, ToNS: 7 * gvltest.MS},
	} {
		b.Lock(&i)
	}
	if top := b.Top(9, ByStack, 0); top.OtherNS != 3*gvltest.MS || top.NobodyNS != 2*gvltest.MS || top.TotalNS != 5*gvltest.MS {
		t.Errorf("%+v", top)
	}
}
