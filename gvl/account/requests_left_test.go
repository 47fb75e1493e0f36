package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// TestRequestEndsWhenLeft: a request ends when its thread returns to the place where it waits for work. A change of the
// GVL shows the exact time. ddtop must use this time as the end. Without changes, it would use the middle between two
// samples.
func TestRequestEndsWhenLeft(t *testing.T) {
	dict := sampler.NewDictionary()
	m := newFolded(gvltest.ProcOf(sampler.EraSched), dict)
	const base = int64(1e9)
	last := base
	work := dict.InternWork(sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: "GET /", SinceNS: base + 150e6, BeforeNS: base + 140e6})
	for n := range int64(20) {
		x := &sampler.Sample{TimeNS: base + n*100e6, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: stream.MainRactor}}}
		x.Threads = []sampler.Thread{{ID: 1, Ractor: stream.MainRactor, TID: 11, Status: sampler.StoppedForever, Quality: sampler.StackFresh,
			Blocked: sampler.Blocked{Kind: sampler.BlockQueue, FD: -1}}}
		x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, Fresh: n == 0}
		last = x.TimeNS
		change := func(ms int64, g sampler.GVLState, d sampler.Doing) {
			x.Changes.List = append(x.Changes.List, sampler.Change{AtNS: base + ms*1e6, Thread: 1, TID: 11, State: g, Doing: d})
		}
		switch n {
		case 0:
			change(0, sampler.GVLReleased, sampler.Doing{})
		case 2, 3, 4:
			x.Threads[0].Serving.Work = work
			if n == 2 {
				change(145, sampler.GVLHeld, sampler.Doing{})
			}
		case 5:
			change(410, sampler.GVLReleased, sampler.Doing{})
			change(411, sampler.GVLReleased, sampler.Doing{Kind: sampler.DoingSleeps, Syscall: "futex", Status: sampler.StoppedForever, Left: true})
		}
		m.Feed(x)
		// Longest includes the request even while it is not certain that the request has ended
		if list := m.Requests.Longest(10); n >= 2 && len(list) != 1 {
			t.Errorf("sample %d: %+v", n, list)
		}
	}
	list := m.Requests.Longest(10)
	if len(list) != 1 || list[0].InProgress || list[0].FromNS != base+145e6 || list[0].ToNS != base+411e6 {
		t.Errorf("%+v", list)
	}
}

// TestRequestsBetweenSamples: a request begins and ends between two samples. Changes of the GVL show the request, its
// length and the states of its thread. The thread may begin the next request at once.
func TestRequestsBetweenSamples(t *testing.T) {
	dict := sampler.NewDictionary()
	m := newFolded(gvltest.ProcOf(sampler.EraSched), dict)
	const base = int64(1e9)
	last := base
	of := func(number sampler.WorkNumber, ms int64) sampler.Doing {
		at := base + ms*1e6
		w := sampler.Work{Number: number, Kind: sampler.WorkRequest, Endpoint: "GET /", SinceNS: at + 1e6, BeforeNS: at - 1e6}
		return sampler.Doing{Kind: sampler.DoingWorks, Work: dict.InternWork(w)}
	}
	for n := range int64(12) {
		x := &sampler.Sample{TimeNS: base + n*100e6, Depth: sampler.StackTick}
		x.Ractors = []sampler.Ractor{{ID: stream.MainRactor}}
		x.Threads = []sampler.Thread{{ID: 1, Ractor: stream.MainRactor, TID: 11, Status: sampler.StoppedForever,
			Quality: sampler.StackFresh,
			Blocked: sampler.Blocked{Kind: sampler.BlockQueue, FD: -1}}}
		x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, Fresh: n == 0}
		last = x.TimeNS
		change := func(ms int64, g sampler.GVLState, d sampler.Doing) {
			x.Changes.List = append(x.Changes.List, sampler.Change{AtNS: base + ms*1e6, Thread: 1, TID: 11, State: g, Doing: d})
		}
		sleeps := sampler.Doing{Kind: sampler.DoingSleeps, Syscall: "futex", Status: sampler.StoppedForever}
		ends := sampler.Doing{Kind: sampler.DoingWorks}
		switch n {
		case 0:
			change(0, sampler.GVLReleased, sampler.Doing{})
		case 2:
			change(110, sampler.GVLQueued, sampler.Doing{})
			change(112, sampler.GVLQueued, of(1, 112)) // the request begins while its thread waits for the GVL
			change(116, sampler.GVLHeld, sampler.Doing{})
			change(130, sampler.GVLHeld, of(2, 130))
			change(140, sampler.GVLReleased, sampler.Doing{})
			change(140, sampler.GVLReleased, sleeps)
			change(145, sampler.GVLReleased, ends)
			change(180, sampler.GVLHeld, sampler.Doing{})
			change(182, sampler.GVLHeld, of(3, 182))
		case 5:
			change(420, sampler.GVLReleased, sampler.Doing{})
			change(421, sampler.GVLReleased, ends)
		}
		m.Feed(x)
		if list := m.Requests.Longest(10); n == 3 && (len(list) == 0 || list[0].Work.Number != 3 || !list[0].InProgress) {
			t.Errorf("it goes on: %+v", list)
		}
	}
	list := m.Requests.Longest(10)
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	for i, want := range []struct{ number, from, to, waits, runs int64 }{
		{3, 182, 421, 0, 238}, {1, 112, 130, 4, 14}, {2, 130, 145, 0, 10},
	} {
		q := &list[i]
		known := int64(q.Work.Number) == want.number && !q.InProgress && !q.AtLeast
		if !known || q.FromNS != base+want.from*1e6 || q.ToNS != base+want.to*1e6 ||
			q.NS[gvl.Waiting] != want.waits*1e6 || q.NS[gvl.Running] != want.runs*1e6 {
			t.Errorf("%+v, not %+v", q, want)
		}
	}
}

// TestRequestOverBetweenReadings: samples that do not read stacks repeat the request of the last reading. Here changes
// show that the thread has ended this request and begun another one. So the new request must be the one in progress.
func TestRequestOverBetweenReadings(t *testing.T) {
	dict := sampler.NewDictionary()
	m := newFolded(gvltest.ProcOf(sampler.EraSched), dict)
	const base = int64(1e9)
	work := func(number sampler.WorkNumber, ms int64) sampler.WorkID {
		at := base + ms*1e6
		return dict.InternWork(sampler.Work{Number: number, Kind: sampler.WorkRequest, Endpoint: "GET /", SinceNS: at + 1e6, BeforeNS: at - 1e6})
	}
	first, second := work(1, 150), work(2, 340)
	third := dict.InternWork(sampler.Work{Number: 3, Kind: sampler.WorkRequest, Endpoint: "GET /", SinceNS: base + 790e6, BeforeNS: base + 300e6})
	last := base
	for n := range int64(12) {
		x := &sampler.Sample{TimeNS: base + n*100e6, Depth: sampler.LockTick, Ractors: []sampler.Ractor{{ID: stream.MainRactor}}}
		x.Threads = []sampler.Thread{{ID: 1, Ractor: stream.MainRactor, TID: 11}}
		v := &x.Threads[0]
		x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, Fresh: n == 0}
		last = x.TimeNS
		change := func(ms int64, g sampler.GVLState, d sampler.Doing) {
			x.Changes.List = append(x.Changes.List, sampler.Change{AtNS: base + ms*1e6, Thread: 1, TID: 11, State: g, Doing: d})
		}
		if n >= 2 {
			v.Serving.Work = first
		}
		switch n {
		case 0:
			change(0, sampler.GVLHeld, sampler.Doing{})
		case 2:
			x.Depth, v.Quality = sampler.StackTick, sampler.StackFresh
		case 4:
			change(330, sampler.GVLHeld, sampler.Doing{Kind: sampler.DoingWorks})
			change(340, sampler.GVLHeld, sampler.Doing{Kind: sampler.DoingWorks, Work: second})
		case 7:
			x.Depth, v.Quality, v.Serving.Work = sampler.StackTick, sampler.StackFresh, second
		case 8:
			change(780, sampler.GVLHeld, sampler.Doing{Kind: sampler.DoingWorks})
		}
		if n >= 8 { // changes show the earliest time at which the third request can have begun
			x.Depth, v.Quality, v.Serving.Work = sampler.StackTick, sampler.StackFresh, third
		}
		m.Feed(x)
		want, fromNS := sampler.WorkNumber(1), base+150e6
		switch {
		case n >= 8:
			want, fromNS = 3, base+785e6
		case n >= 4:
			want, fromNS = 2, base+340e6
		}
		list := m.Requests.Running()
		if n >= 2 && (len(list) != 1 || list[0].Work.Number != want || list[0].FromNS != fromNS || list[0].Suspended || list[0].Now.Thread != 1) {
			t.Errorf("sample %d: %+v", n, list)
		}
		if last := m.Requests.Last(x.TimeNS); n >= 4 && n < 8 && (last == nil || last.Work.Number != 1 || last.ToNS != base+330e6 || last.AtLeast) {
			t.Errorf("sample %d: the last one: %+v", n, last)
		}
	}
}

// TestRequestLeftBeforeChanges: a thread's first change shows the beginning of a request, and no change shows the end
// of the request before it. The end is set to the middle between the last reading of the old request and the beginning
// of the new one. SlackNS is the possible error of the length.
func TestRequestLeftBeforeChanges(t *testing.T) {
	dict := sampler.NewDictionary()
	m := newFolded(gvltest.ProcOf(sampler.EraSched), dict)
	const base = int64(1e9)
	first := dict.InternWork(sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: "GET /", SinceNS: base + 151e6, BeforeNS: base + 149e6})
	second := dict.InternWork(sampler.Work{Number: 2, Kind: sampler.WorkRequest, Endpoint: "GET /", SinceNS: base + 451e6, BeforeNS: base + 449e6})
	last := base
	for n := range int64(8) {
		x := &sampler.Sample{TimeNS: base + n*100e6, Depth: sampler.LockTick, Ractors: []sampler.Ractor{{ID: stream.MainRactor}}}
		x.Threads = []sampler.Thread{{ID: 1, Ractor: stream.MainRactor, TID: 11}}
		x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, Fresh: n == 0}
		last = x.TimeNS
		if n >= 2 {
			x.Threads[0].Serving.Work = first
		}
		change := sampler.Change{AtNS: x.TimeNS, Thread: 1, TID: 11, State: sampler.GVLHeld}
		switch n {
		case 2:
			x.Depth, x.Threads[0].Quality = sampler.StackTick, sampler.StackFresh
		case 5:
			change.AtNS, change.Doing = base+450e6, sampler.Doing{Kind: sampler.DoingWorks, Work: second}
		}
		if n == 0 || n == 5 {
			x.Changes.List = append(x.Changes.List, change)
		}
		m.Feed(x)
	}
	q := m.Requests.Last(last)
	if q == nil || q.Work.Number != 1 || q.ToNS != base+325e6 || q.SlackNS != 125e6+1e6 || q.AtLeast {
		t.Errorf("%+v", q)
	}
}
