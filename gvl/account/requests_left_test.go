package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// A request ends when its thread came back to where it waits for work, not halfway between two samples.
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
	}
	list := m.Requests.Longest(10)
	if len(list) != 1 || list[0].InProgress || list[0].FromNS != base+145e6 || list[0].ToNS != base+411e6 {
		t.Errorf("%+v", list)
	}
}
