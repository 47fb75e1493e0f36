package account

import (
	"math"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// fiberStory plays a thread whose fibers serve requests and wait. Its samples are 10 ms apart.
type fiberStory struct {
	dict *sampler.Dictionary
	m    *folded
	now  int64
	look *sampler.Fibers
	runs sampler.WorkID // the thread's request when its stack was read last
}

func newFiberStory() *fiberStory {
	dict := sampler.NewDictionary()
	dict.SetThread(sampler.ThreadInfo{ID: 1, Ractor: 1, Main: true})
	return &fiberStory{dict: dict, m: newFolded(gvltest.ProcOf(sampler.EraSched), dict), now: 1e9}
}

func (f *fiberStory) work(n sampler.WorkNumber, sinceNS, beforeNS int64) sampler.WorkID {
	return f.dict.InternWork(sampler.Work{Number: n, Kind: sampler.WorkRequest, Endpoint: "GET a", SinceNS: sinceNS, BeforeNS: beforeNS})
}

// tick feeds a sample 10 ms after the last one. runs is the request for which the thread works. If look is set, the
// sample also has a reading of the thread's waiting fibers. waits are the requests of these fibers.
func (f *fiberStory) tick(runs sampler.WorkID, look bool, waits ...sampler.WorkID) {
	f.now += 10e6
	if look {
		f.look = &sampler.Fibers{AtNS: f.now, ReadNS: 1e6}
		for i, w := range waits {
			f.look.List = append(f.look.List, sampler.Fiber{Number: sampler.FiberNumber(1 + i), Thread: 1, AtNS: f.now, Serving: sampler.Serving{Work: w}})
		}
	}
	f.feed(sampler.StackTick, runs, runs != 0)
	f.runs = runs
}

// feed feeds a sample. In it, the thread holds the GVL if holds is true. Otherwise the thread reads a socket.
func (f *fiberStory) feed(depth sampler.Depth, runs sampler.WorkID, holds bool) {
	t, owner := gvltest.Answered(gvltest.Released(1), f.now, "read", 3, 0), sampler.ThreadID(0)
	if holds {
		t, owner = gvltest.Holder(1), 1
	}
	if depth == sampler.StackTick {
		t.Quality = sampler.StackFresh
	}
	t.Serving.Work = runs
	s := gvltest.SampleAt(f.now, owner, t)
	s.Depth, s.Fibers = depth, f.look
	f.m.Feed(s)
}

// locks feeds nine samples without stacks (lock ticks), one per millisecond. Then it feeds a sample with stacks, in
// which the thread works for the request next. The lock ticks whose numbers are less than since show the thread's old
// state. The other lock ticks show the state in which it works for next.
func (f *fiberStory) locks(since int, next sampler.WorkID) {
	from := f.now
	for i := range 9 {
		runs := f.runs
		if i >= since {
			runs = next
		}
		f.now += 1e6
		f.feed(sampler.LockTick, f.runs, runs != 0)
	}
	f.now = from
}

func (f *fiberStory) only(t *testing.T) (report.StatRequests, report.StatEndpoint) {
	t.Helper()
	r := f.m.requests()
	if len(r.Endpoints) != 1 {
		t.Fatalf("%d endpoints", len(r.Endpoints))
	}
	return r, r.Endpoints[0]
}

// TestFibersWait: the time in which a request's fiber waits is added to the request. It is added from each reading of
// the fibers to the next, while the readings show the fiber.
func TestFibersWait(t *testing.T) {
	f := newFiberStory()
	f.tick(0, true)
	f.tick(0, false)
	a, b := f.work(1, f.now+10e6, f.now), f.work(2, f.now+10e6, f.now)
	f.tick(0, true, a, b) // both requests began 5 ms before
	for range 9 {
		f.tick(0, false)
	}
	r, e := f.only(t)
	if e.Running != 2 || e.FiberNS != 190e6 || len(r.Running) != 2 || !r.Running[0].Waits || !r.Running[0].Suspended || r.Running[0].FiberNS != 95e6 ||
		r.Running[0].AgeNS != 95e6 || r.Fibers == nil || r.Fibers.Waiting != 2 || r.Fibers.Requests != 2 || r.Fibers.AgeNS != 90e6 {
		t.Errorf("while both wait: %+v, %+v, %+v", e, r.Running, r.Fibers)
	}
	f.tick(0, true, a, b)
	f.tick(0, true, a)
	f.tick(0, true, a)
	for range 20 {
		f.tick(0, true, a)
	}
	r, e = f.only(t)
	// The reading at 105 ms still had the fiber of request b. The next reading, 10 ms later, took 1 ms and did not have
	// it.
	if len(r.Running) != 1 || e.Ended != 1 || e.Measured != 1 || e.MaxNS < 110e6 || e.MaxNS > 111e6 || e.UncertaintyNS != 10_500_000 {
		t.Errorf("when one has ended: %+v, %+v", e, r.Running)
	}
	if want := int64(105e6 + 220e6 + 105e6 + 5_500_000); e.FiberNS != want {
		t.Errorf("fibers waited %d, not %d", e.FiberNS, want)
	}
}

// TestFibersAndThreads: a request waits in its fiber, and between two such waits a thread works for it. No time is
// counted twice. If the thread begins another request, the first request counts as waiting while readings show its
// fiber.
func TestFibersAndThreads(t *testing.T) {
	for since := range 10 {
		testFibersAndThreads(t, since)
	}
}

// testFibersAndThreads runs TestFibersAndThreads for one value of since. Before each reading of the stack, the thread's
// state changes at the sample without stacks (lock tick) with the number since.
func testFibersAndThreads(t *testing.T, since int) {
	f := newFiberStory()
	f.tick(0, true)
	a := f.work(1, f.now+10e6, f.now)
	f.tick(0, true, a)
	for i := range 40 {
		runs := a
		if i%4 == 0 || i%4 == 3 {
			runs = 0
		}
		f.locks(since, runs)
		switch {
		case i%4 == 1:
			f.tick(a, false) // the last reading of fibers, which is older, shows the request's fiber waiting
		case i%4 == 2:
			f.tick(a, true)
		default:
			f.tick(0, true, a)
		}
	}
	r, e := f.only(t)
	var ran int64
	for _, ns := range f.m.Requests.Running()[0].NS {
		ran += ns
	}
	if sum, age := ran+e.FiberNS, r.Running[0].AgeNS; e.Running != 1 || e.Ended != 0 || ran != 200e6 || sum < age-10e6 || sum > age+10e6 {
		t.Errorf("since %d: ran %d and waited %d of %d ns: %+v", since, ran, e.FiberNS, age, e)
	}
}

// TestFibersLost: if readings may lack some fibers, a request counts as ended only after more readings without it. A
// gap in the samples adds no time.
func TestFibersLost(t *testing.T) {
	f := newFiberStory()
	f.tick(0, true)
	a := f.work(1, f.now+10e6, f.now)
	f.tick(0, true, a)
	for range cutLooks - 1 {
		f.tick(0, true)
		f.look.Cut = true
	}
	f.tick(0, true, a)
	f.now += 20e9
	f.tick(0, false)
	r, e := f.only(t)
	if len(r.Running) != 1 || e.FiberNS > 60e6 {
		t.Errorf("%+v, %+v", e, r.Running)
	}
}

// TestFibersHostile: a damaged recording can have readings of fibers at impossible times. ddtop then uses the times of
// the samples in their place.
func TestFibersHostile(t *testing.T) {
	times := []int64{math.MinInt64, -1, 0, 1e9, 1 << 61, math.MaxInt64 - 1, math.MaxInt64}
	for _, lookAt := range times {
		for _, readNS := range times {
			for _, fiberAt := range times {
				f := newFiberStory()
				f.tick(0, true)
				for n := range 2 {
					f.now += 10e6 * int64(n) // first a new request, then a known one
					f.tick(0, true, f.work(1, f.now, f.now-10e6))
					for range 2 {
						f.look = &sampler.Fibers{AtNS: lookAt, ReadNS: readNS,
							List: []sampler.Fiber{{Number: 1, Thread: 1, AtNS: fiberAt, Serving: f.look.List[0].Serving},
								{Number: 2, Thread: 1, AtNS: fiberAt, Serving: sampler.Serving{Work: f.work(sampler.WorkNumber(2+n), 0, 0)}}}}
						f.tick(0, false)
					}
					for range cutLooks {
						f.look = &sampler.Fibers{AtNS: lookAt, ReadNS: readNS}
						f.tick(0, false)
					}
				}
				r, e := f.only(t)
				if most := f.now - 1e9; e.FiberNS < 0 || e.FiberNS > 3*most || e.MaxNS > most || e.UncertaintyNS < 0 || e.UncertaintyNS > most {
					t.Errorf("look at %d for %d, fibers at %d: %+v, %+v", lookAt, readNS, fiberAt, e, r.Running)
				}
			}
		}
	}
}

// TestFibersAgain: several samples can contain the same reading of fibers, for example in the blocks of a recording.
// The reading counts only once.
func TestFibersAgain(t *testing.T) {
	f := newFiberStory()
	f.tick(0, true)
	a := f.work(1, f.now+10e6, f.now)
	f.tick(0, true, a)
	f.tick(0, true)
	for range 20 { // these samples take longer than leftNS
		look := *f.look
		f.look = &look
		f.tick(0, false)
	}
	f.tick(0, true, a)
	if r, e := f.only(t); e.Ended != 0 || len(r.Running) != 1 || r.Running[0].AtLeast {
		t.Errorf("%+v, %+v", e, r.Running)
	}
}

// TestFibersOlderLook: a reading of fibers says nothing about a request for which a thread has worked after the
// reading. When a thread has ended, nothing about its fibers is kept.
func TestFibersOlderLook(t *testing.T) {
	f := newFiberStory()
	old := f.dict.InternWork(sampler.Work{Number: 1, Kind: sampler.WorkRequest, SinceNS: f.now + 10e6, BeforeNS: f.now})
	a := f.work(1, f.now+10e6, f.now)
	f.tick(old, true)
	f.tick(old, true, old)
	late := *f.look
	late.List[0].Thread = 7 // the sample does not list this thread
	f.tick(a, false)
	f.look = &sampler.Fibers{AtNS: late.AtNS + 1, ReadNS: late.ReadNS, List: late.List}
	f.tick(a, false)
	if _, e := f.only(t); e.Endpoint == nil || *e.Endpoint != "GET a" || e.Running != 1 {
		t.Errorf("%+v", e)
	}
	if s := f.m.Requests.looks.switches; s[7] {
		t.Errorf("of a thread that has ended: %v", s)
	}
}

// TestFibersStale: a suspended request counts as ended if fibers are not read for staleNS. Time without samples is not
// a part of this time.
func TestFibersStale(t *testing.T) {
	f := newFiberStory()
	f.tick(0, true)
	a := f.work(1, f.now+10e6, f.now)
	f.tick(0, true, a)
	f.tick(0, true, a)
	f.now += 2 * staleNS
	for range 50 {
		f.tick(0, false)
	}
	if _, e := f.only(t); e.Running != 1 || e.Ended != 0 {
		t.Errorf("after a gap: %+v", e)
	}
	f.tick(0, true, a)
	for range staleNS/200e6 + 10 {
		f.now += 190e6
		f.tick(0, false)
	}
	if r, e := f.only(t); e.Running != 0 || e.Ended != 1 || !e.LongestAtLeast || e.FiberNS > 2e9 || len(r.Running) != 0 {
		t.Errorf("without looks: %+v, %+v", e, r.Running)
	}
}
