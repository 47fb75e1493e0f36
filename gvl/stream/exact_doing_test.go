package stream

import (
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestDoingBetweenSamples: threads do several things between two samples, with the GVL and without it. No sample sees
// any of this, but the kernel's records show it. The intervals must show it, too.
func TestDoingBetweenSamples(t *testing.T) {
	dict := sampler.NewDictionary()
	p := gvltest.ProcOf(sampler.EraSched)
	c, s, l := gvl.NewClassifier(p, dict), New(p), &exactLog{}
	s.Attach(l)
	const base = int64(1e9)
	last := base
	sample := func(ms int64, list ...sampler.Change) {
		x := &sampler.Sample{TimeNS: base + ms*1e6, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: MainRactor}}}
		x.Threads = []sampler.Thread{{ID: 1, Ractor: MainRactor, TID: 11, Status: sampler.StoppedForever, Quality: sampler.StackFresh,
			Blocked: sampler.Blocked{Kind: sampler.BlockQueue, FD: -1}}}
		x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, List: list}
		last = x.TimeNS
		if ms == 0 {
			x.Changes.Fresh = true
		}
		s.Feed(x, c.Classify(x))
	}
	change := func(ms int64, g sampler.GVLState, d sampler.Doing) sampler.Change {
		return sampler.Change{AtNS: base + ms*1e6, Thread: 1, TID: 11, State: g, Doing: d}
	}
	none := sampler.Doing{}
	does := func(k sampler.DoingKind) sampler.Doing { return sampler.Doing{Kind: k, FD: -1, Region: true} }
	in := func(call string, fd int32, set func(*sampler.Doing)) sampler.Doing {
		d := sampler.Doing{Kind: sampler.DoingSleeps, Syscall: call, FD: fd, FDs: 1, Region: true}
		if set != nil {
			set(&d)
		}
		return d
	}
	released, held := sampler.GVLReleased, sampler.GVLHeld
	sample(0, change(0, released, none))
	sample(10)
	sample(1000,
		change(100, held, none), change(150, held, does(sampler.DoingCollects)), change(200, held, does(sampler.DoingRuns)),
		change(250, held, in("write", 5, nil)), change(300, released, none), change(300, released, in("recvfrom", 7, nil)),
		change(400, held, none), change(450, released, none), change(450, released, does(sampler.DoingRuns)),
		change(500, released, in("futex", -1, func(d *sampler.Doing) { d.Mutex, d.Region = 0x500, false })),
		change(600, held, none), change(650, released, none),
		change(650, released, in("futex", -1, func(d *sampler.Doing) { d.Status, d.Region = sampler.StoppedForever, false })))
	s.Finish()
	var got []string
	for _, i := range l.intervals {
		if n := len(got); i.ToNS > i.FromNS {
			text := fmt.Sprintf("%v %d", i.State, (i.ToNS-base)/1e6)
			if n > 0 && len(got[n-1]) > 0 && got[n-1][:3] == text[:3] {
				got = got[:n-1] // the last interval has not ended yet
			}
			got = append(got, text)
		}
	}
	want := "[parked 100 running 150 gc 200 running 250 stalled 300 io 400 running 450 native 500 lock 600 running 650 parked 1000]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, not\n%s", got, want)
	}
}

// TestDoingBesideSamples: if the kernel's record says that a thread waits for a Mutex, and a sample says something
// else, the record is right. If the records say nothing about a thread, its state is unknown until a sample shows it.
func TestDoingBesideSamples(t *testing.T) {
	dict := sampler.NewDictionary()
	p := gvltest.ProcOf(sampler.EraSched)
	c, s, l := gvl.NewClassifier(p, dict), New(p), &exactLog{}
	s.Attach(l)
	const base = int64(1e9)
	last := base
	sample := func(ms int64, list ...sampler.Change) {
		x := &sampler.Sample{TimeNS: base + ms*1e6, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: MainRactor}}}
		x.Threads = []sampler.Thread{{ID: 1, Ractor: MainRactor, TID: 11, Status: sampler.StoppedForever, Quality: sampler.StackFresh,
			Blocked: sampler.Blocked{Kind: sampler.BlockQueue, FD: -1}}}
		x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, List: list, Fresh: ms == 0}
		last = x.TimeNS
		s.Feed(x, c.Classify(x))
	}
	change := func(ms int64, g sampler.GVLState, d sampler.Doing) sampler.Change {
		return sampler.Change{AtNS: base + ms*1e6, Thread: 1, TID: 11, State: g, Doing: d}
	}
	locks := sampler.Doing{Kind: sampler.DoingSleeps, Syscall: "futex", FD: -1, Mutex: 0x500, Status: sampler.StoppedForever}
	sample(0, change(0, sampler.GVLReleased, sampler.Doing{}))
	sample(10, change(5, sampler.GVLHeld, sampler.Doing{}))
	sample(100, change(20, sampler.GVLReleased, sampler.Doing{}), change(20, sampler.GVLReleased, locks))
	sample(200)
	sample(300)
	sample(400, change(310, sampler.GVLHeld, sampler.Doing{}), change(350, sampler.GVLGone, sampler.Doing{}))
	s.Finish()
	var got []string
	for _, i := range l.intervals {
		if i.ToNS > i.FromNS {
			got = append(got, fmt.Sprintf("%v %d", i.State, (i.ToNS-base)/1e6))
		}
	}
	if want := "[parked 5 running 10 running 20 lock 100 lock 200 lock 300 lock 310 running 350 parked 400]"; fmt.Sprint(got) != want {
		t.Errorf("%v, not\n%s", got, want)
	}
}
