package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// TestMissedBetweenReadings: if many of the seen requests are about as short as the time between two readings, other
// requests were probably missed. Figures are then lower bounds. If all seen requests are much longer, no request was
// missed.
func TestMissedBetweenReadings(t *testing.T) {
	for _, c := range []struct {
		name        string
		ticks       []int // the lengths of the requests, in ticks
		one, others bool
	}{
		{"long ones", []int{30, 20}, false, false},
		{"short ones", []int{1, 1}, true, true},
		{"short and long ones", []int{1, 30}, true, false},
	} {
		y := newRequestStory()
		y.ticks(5)
		for n := range sampler.WorkNumber(20) {
			for i, name := range []string{"GET one", "GET others"} {
				y.works[1] = y.work(2*n+sampler.WorkNumber(i)+1, name)
				y.ticks(c.ticks[i])
				y.works[1] = sampler.Work{}
				y.ticks(12)
			}
		}
		got := map[string]bool{}
		list := y.endpoints()
		for i := range list {
			got[list[i].Name] = list[i].AtLeast
		}
		stat := y.Requests.Stat(0, nil)
		if len(got) != 2 || got["GET one"] != c.one || got["GET others"] != c.others || AtLeast(list) != c.one || stat.AtLeast != c.one {
			t.Errorf("%s: %v, all %v", c.name, got, AtLeast(list))
		}
	}
	if AtLeast(nil) {
		t.Error("no requests are a lower bound")
	}
}

// TestMissedByCopies: if changes show which requests begin, they also show how many of these were missed. If the
// threads sleep, this count is reliable even with few samples and short requests. A request counts as missed only if
// neither a sample nor a later change shows it.
func TestMissedByCopies(t *testing.T) {
	for _, c := range []struct {
		name string
		// unfound is set if, for one request in ten, the change at its beginning does not show which request begins. A
		// sample (sampled) or a later change (later) may still show the request.
		unfound, sampled, later bool
		// runs is true if the thread keeps the GVL and its CPU all the time. want is true if figures must be lower
		// bounds.
		runs, want bool
	}{
		{"all found", false, false, false, false, false},
		{"one in ten is missed", true, false, false, false, true},
		{"a sample shows it", true, true, false, false, false},
		{"a later change shows it", true, false, true, false, false},
		{"brief ones have no record", false, false, false, true, true},
	} {
		dict := sampler.NewDictionary()
		m, ended := newFolded(gvltest.ProcOf(sampler.EraSched), dict), NewEndedCounts(dict)
		last, number := int64(gvltest.Base), sampler.WorkNumber(0)
		for n := range int64(100) {
			x := &sampler.Sample{TimeNS: gvltest.Base + n*2e8, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: stream.MainRactor}}}
			th := sampler.Thread{ID: 1, Ractor: stream.MainRactor, TID: 11, Status: sampler.StoppedForever, Quality: sampler.StackFresh}
			th.Blocked = sampler.Blocked{Kind: sampler.BlockQueue, FD: -1}
			x.Changes = sampler.Changes{FromNS: last, ToNS: x.TimeNS, Fresh: n == 0}
			change := func(at int64, d sampler.Doing) {
				state := sampler.GVLReleased
				if c.runs && n > 0 {
					state = sampler.GVLHeld
				}
				x.Changes.List = append(x.Changes.List, sampler.Change{AtNS: at, Thread: 1, TID: 11, State: state, Doing: d})
			}
			if n == 0 {
				change(last, sampler.Doing{})
			}
			for i := range int64(2) {
				if n == 0 {
					break
				}
				number++
				at := last + i*1e8 + 5e7
				w := dict.InternWork(sampler.Work{Number: number, Kind: sampler.WorkRequest, Endpoint: "GET /", BeforeNS: at - 1e6, SinceNS: at + 4e6})
				switch lost := c.unfound && number%10 == 0; {
				case !lost:
					change(at, sampler.Doing{Kind: sampler.DoingWorks, Work: w})
				default:
					change(at, sampler.Doing{Kind: sampler.DoingWorks, Unfound: true})
					if c.later {
						change(at+1e6, sampler.Doing{Kind: sampler.DoingWorks, Work: w})
					}
					if c.sampled {
						th.Serving.Work = w
						continue // no change shows the end of this request: the next request begins instead
					}
				}
				change(at+5e6, sampler.Doing{Kind: sampler.DoingWorks})
			}
			x.Threads = []sampler.Thread{th}
			last = x.TimeNS
			m.Feed(x)
			ended.Feed(x)
		}
		list := m.Requests.Endpoints(0, last)
		for n := range int64(3) { // EndedCounts needs readings of stacks to see that a request has ended
			ended.Feed(&sampler.Sample{TimeNS: last + (n+1)*2e8, Depth: sampler.StackTick})
		}
		if n := ended.Take()["GET /"]; n != int64(list[0].Ended) {
			t.Errorf("%s: EndedCounts has %d, Requests has %d", c.name, n, list[0].Ended)
		}
		if len(list) != 1 || list[0].Ended < 160 || AtLeast(list) != c.want || list[0].AtLeast != c.want {
			t.Errorf("%s: %+v", c.name, list)
		}
	}
}
