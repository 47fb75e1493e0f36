package flamegraph

import (
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestNameKnownLate: all time of a request goes to its last name, also the time before this name was known. The Sinks
// can get the time at once or late, and both ways must have this result. The result must be the same for the whole
// window and for a range of it.
func TestNameKnownLate(t *testing.T) {
	for _, now := range []bool{false, true} {
		dict := sampler.NewDictionary()
		r := newRolling(t, 60e9, 0)
		f := newFeeder(sampler.Process{}, r)
		if f.c.ByEndpoint(dict); now {
			f.c.ByEndpointNow(dict)
		}
		work := func(n int, endpoint string) sampler.WorkID {
			return dict.InternWork(sampler.Work{Number: sampler.WorkNumber(n), Kind: sampler.WorkRequest, Endpoint: endpoint})
		}
		const tick = 10_000_000
		for i := range 200 { // 2 s: the request of thread 1 gets a name after 1.5 s, the request of thread 2 never
			first, second := sampler.Serving{Work: work(1, "GET /mixed")}, sampler.Serving{Work: work(2, "GET /mixed")}
			if i >= 150 {
				first.Work = work(1, "GET mixed#show")
			}
			stack := dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: fmt.Sprint("m", i%50)}))
			threads := []sampler.Thread{{ID: 1, TID: 1, Ractor: 1, Stack: stack, Serving: first}, {ID: 2, TID: 2, Ractor: 1}}
			threads[1].Stack, threads[1].Serving = stack, second
			for j := range threads {
				threads[j].Kernel = sampler.Kernel{CPUAtNS: int64(1e9 + i*tick), CPUNS: int64(i * tick / 2)}
			}
			s := sample(int64(1e9+i*tick), sampler.StackTick, threads...)
			f.Feed(s, seen(gvl.Running, gvl.Waiting))
		}
		f.Finish()
		ranged := func(s *Snapshot) { r.SnapshotRange(0, 9e9, s) }
		for what, of := range map[string]func(s *Snapshot){"all": r.Snapshot, "a range": ranged} {
			var s Snapshot
			of(&s)
			sums := map[string]Weights{}
			for _, e := range s.Entries {
				name := f.c.Served()[e.Key.Endpoint].Name
				sums[name] = sums[name].Plus(e.Weights)
				if e.Key.Thread == 1 && name != "GET mixed#show" || e.Weights == (Weights{}) {
					t.Fatalf("now %v, %s: %+v of %q", now, what, e, name)
				}
			}
			got, other := sums["GET mixed#show"], sums["GET /mixed"]
			enough := got.WallNS >= 199*tick && other.WaitNS >= 199*tick && got.CPUNS > 0 && got.BlameNS > 0
			if got.Samples != 200 || !enough || got.WaitNS != 0 {
				t.Errorf("now %v, %s: %+v and %+v", now, what, got, other)
			}
		}
	}
}

// TestNamesHaveALimit: many requests, even long ones, take no more memory than the limits allow. No weight is lost.
func TestNamesHaveALimit(t *testing.T) {
	for _, now := range []bool{false, true} {
		dict := sampler.NewDictionary()
		r := newRolling(t, 0, 0)
		f := newFeeder(sampler.Process{}, r)
		if f.c.ByEndpoint(dict); now {
			f.c.ByEndpointNow(dict)
		}
		x, given := &f.c.charges, int64(0)
		for i := range 400_000 {
			n := i
			if i%2 == 0 {
				n = i % 20 // jobs that do not end
			}
			w := sampler.Work{Number: sampler.WorkNumber(n + 1), Kind: sampler.WorkJob, Endpoint: fmt.Sprint("Job", n%3)}
			s := sampler.Serving{Work: dict.InternWork(w)}
			f.c.emit(int64(i), Key{Thread: 1, Endpoint: f.c.request(&s)}, Weights{WallNS: 1})
			if given++; x.kept > x.limit || len(x.ids) > maxServed {
				t.Fatalf("%d weights of %d requests are kept", x.kept, len(x.ids))
			}
		}
		f.c.settleAll()
		sum, s := int64(0), Snapshot{}
		r.Snapshot(&s)
		for _, e := range s.Entries {
			if sum += e.Weights.WallNS; e.Key.Endpoint == 0 {
				t.Errorf("%+v", e)
			}
		}
		if sum != given || x.kept != 0 {
			t.Errorf("now %v: %d of %d, %d are kept", now, sum, given, x.kept)
		}
	}
}

// TestRouteOfOthers: the path of a request is known, but not its route. If all other requests with this path have the
// same route, the request gets this route too, and its earlier weights move there. If the other requests have two
// different routes, requests without a route get their own name back.
func TestRouteOfOthers(t *testing.T) {
	dict := sampler.NewDictionary()
	r := newRolling(t, 60e9, 0)
	f := newFeeder(sampler.Process{}, r)
	f.c.ByEndpointNow(dict)
	const tick = 10_000_000
	at, number, path := int64(1e9), sampler.WorkNumber(0), "GET /a/:id"
	request := func(endpoint string) {
		number++
		w := sampler.Work{Number: number, Kind: sampler.WorkRequest, Endpoint: endpoint, Path: path}
		for range 10 {
			th := sampler.Thread{ID: 1, TID: 1, Ractor: 1, Serving: sampler.Serving{Work: dict.InternWork(w)}}
			f.Feed(sample(at, sampler.StackTick, th), seen(gvl.Running))
			at += tick
		}
	}
	samples := func() map[string]int64 {
		sums := map[string]int64{}
		var all, ranged Snapshot
		r.Snapshot(&all)
		r.SnapshotRange(0, 9e18, &ranged)
		for _, e := range all.Entries {
			sums[f.c.Served()[e.Key.Endpoint].Name] += e.Weights.Samples
			if id := f.c.Endpoint(f.c.Served()[e.Key.Endpoint].Endpoint); id != e.Key.Endpoint {
				t.Errorf("%+v is found as %d", e, id)
			}
		}
		for _, e := range ranged.Entries {
			sums[f.c.Served()[e.Key.Endpoint].Name] -= e.Weights.Samples
		}
		for name, n := range sums {
			if n != 0 {
				t.Errorf("%s: %d samples more in the whole", name, n)
			}
		}
		for _, e := range all.Entries {
			sums[f.c.Served()[e.Key.Endpoint].Name] += e.Weights.Samples
		}
		return sums
	}
	request("GET /a/:id")
	if got := samples(); len(got) != 1 || got["GET /a/:id"] != 10 {
		t.Errorf("%v", got)
	}
	request("GET a#show")
	if got := samples(); len(got) != 1 || got["GET a#show"] != 20 {
		t.Errorf("%v", got)
	}
	path = "GET /b/:id"
	request("GET b#show")
	request("GET /b/:id")
	if got := samples(); len(got) != 2 || got["GET b#show"] != 20 {
		t.Errorf("%v", got)
	}
	path = "GET /a/:id"
	request("GET a#edit")
	if got := samples(); len(got) != 4 || got["GET /a/:id"] != 10 || got["GET a#show"] != 10 {
		t.Errorf("%v", got)
	}
}
