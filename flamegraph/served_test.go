package flamegraph

import (
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestNameKnownLate: all time of a request has the name that is known last. Sinks get it at once or late. It is so in
// every span of time, and for all accounts.
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
		for i := range 200 { // 2 s: thread 1 has one request, named after 1.5 s; thread 2 one that is never named
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

// TestNamesHaveALimit: requests without end, some of them long, take no more memory than the limits allow. No weight is
// lost.
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
				n = i % 20 // jobs that go on
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
