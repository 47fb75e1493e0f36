package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// TestOnlyWhatWasSeen: a long request gets another name while it runs. A part of its time was added to the old name,
// but the request itself is counted only under the new name. So ddtop stat has no row for the old name.
func TestOnlyWhatWasSeen(t *testing.T) {
	dict := sampler.NewDictionary()
	m := newFolded(gvltest.ProcOf(sampler.EraSched), dict)
	for n := range int64(30 * maxRequestSeconds) {
		q := sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: "GET /slow", SinceNS: 1e9, BeforeNS: 9e8}
		if n > 20*maxRequestSeconds {
			q.Endpoint = "GET slow#show"
		}
		x := &sampler.Sample{TimeNS: 1e9 + n*1e8, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: stream.MainRactor}}}
		th := sampler.Thread{ID: 1, Ractor: stream.MainRactor, TID: 11, Status: sampler.StoppedForever, Quality: sampler.StackFresh}
		th.Serving.Work, th.Blocked = dict.InternWork(q), sampler.Blocked{Kind: sampler.BlockQueue, FD: -1}
		x.Threads = []sampler.Thread{th}
		m.Feed(x)
	}
	if all := m.Requests.Endpoints(0, 1e18); len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	list := m.Requests.Stat(0, nil).Endpoints
	if len(list) != 1 || *list[0].Endpoint != "GET slow#show" || list[0].Running != 1 {
		t.Errorf("%+v", list)
	}
}
