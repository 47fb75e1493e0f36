package account

import (
	"fmt"
	"maps"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestEndedCounts: each request is counted once, when it ends, under the route that was known last. The counts equal
// the numbers that Requests computes.
func TestEndedCounts(t *testing.T) {
	y := newRequestStory()
	c := NewEndedCounts(y.dict)
	y.also = c.Feed
	all := make(map[string]int64)
	takes := func(want map[string]int64) {
		t.Helper()
		got := c.Take()
		if !maps.Equal(got, want) || len(want) == 0 && got != nil {
			t.Errorf("counted %v, want %v", got, want)
		}
		for endpoint, n := range got {
			all[endpoint] += n
		}
	}
	y.ticks(5)
	takes(nil)
	w := y.work(1, "")
	y.works[1] = w
	y.ticks(3)
	w.Endpoint = "GET orders#index" // the request's route becomes known late
	y.works[1] = w
	y.works[2] = y.work(2, "GET carts#show")
	y.ticks(3)
	takes(nil) // both requests are in progress
	y.works[1] = sampler.Work{}
	y.ticks(2) // two samples without the request do not prove its end, because a failed reading looks the same
	y.works[1] = w
	y.ticks(20)
	takes(nil)
	delete(y.works, 1)
	y.works[2] = y.work(3, "GET carts#show") // the next request begins at once
	y.ticks(20)
	takes(map[string]int64{"GET orders#index": 1, "GET carts#show": 1})
	y.works[1] = y.work(4, "") // the route of this request is never known
	y.fiber = true
	y.works[2] = y.work(5, "MailJob")
	y.ticks(2)
	y.works = map[sampler.ThreadID]sampler.Work{}
	y.ticks(int(suspendedNS / (10 * gvltest.MS)))
	takes(map[string]int64{"GET carts#show": 1}) // MailJob is on a fiber that may be resumed
	y.ticks(20)
	takes(map[string]int64{"MailJob": 1})
	y.fiber = false
	y.works[2] = y.work(6, "MailJob")
	y.ticks(2)
	y.ticks(20, 1) // the thread ends together with its request
	takes(map[string]int64{"MailJob": 1})
	y.lock = true
	y.works[2] = y.work(7, "MailJob") // the thread was read at once, because it had begun something
	y.ticks(1)
	y.lock = false
	delete(y.works, 2)
	y.ticks(20)
	takes(map[string]int64{"MailJob": 1})
	for _, e := range y.endpoints() {
		if e.Name != "" && int64(e.Ended) != all[e.Name] {
			t.Errorf("%q: %d counted, %d by Requests", e.Name, all[e.Name], e.Ended)
		}
	}
	if len(c.open)+len(c.of) != 0 {
		t.Errorf("left: %v, %v", c.open, c.of)
	}
}

// TestEndedCountsAreBounded: endpoints beyond the limit are counted together as OtherEndpoints. The number of
// remembered requests is limited even if requests never end.
func TestEndedCountsAreBounded(t *testing.T) {
	y := newRequestStory()
	c := NewEndedCounts(y.dict)
	y.also = c.Feed
	for i := range maxEndpoints + 10 {
		y.works[1] = y.work(sampler.WorkNumber(i+1), fmt.Sprintf("GET /%d", i))
		y.ticks(1)
	}
	delete(y.works, 1)
	y.ticks(20)
	got := c.Take()
	if len(got) != maxEndpoints+1 || got[OtherEndpoints] != 10 || got["GET /7"] != 1 {
		t.Errorf("%d endpoints, %d are others", len(got), got[OtherEndpoints])
	}
	s := &sampler.Sample{Depth: sampler.StackTick, TimeNS: y.atNS}
	for i := range maxOpenRequests + 10 {
		w := y.work(sampler.WorkNumber(1e6+i), "GET /")
		s.Threads = append(s.Threads, sampler.Thread{ID: sampler.ThreadID(i + 1), Serving: sampler.Serving{Work: y.dict.InternWork(w)}})
	}
	if c.Feed(s); len(c.open) != maxOpenRequests {
		t.Errorf("%d are open", len(c.open))
	}
}
