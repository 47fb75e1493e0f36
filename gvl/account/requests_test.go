package account

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/sampler"
)

// servers assigns requests to the threads of a stream. The request of a thread changes only when the thread's stack is
// read, because a real reader also sees a change only then.
type servers struct {
	rng  *rand.Rand
	dict *sampler.Dictionary
	next sampler.WorkNumber
	of   map[sampler.ThreadID]*sampler.Work
	read map[sampler.ThreadID]sampler.Serving
	atNS map[sampler.ThreadID]int64
}

func newServers(seed uint64, dict *sampler.Dictionary) *servers {
	return &servers{
		rng: rand.New(rand.NewPCG(seed, 5)), dict: dict, of: map[sampler.ThreadID]*sampler.Work{},
		read: map[sampler.ThreadID]sampler.Serving{}, atNS: map[sampler.ThreadID]int64{},
	}
}

// fill sets the request of each thread in a sample.
func (v *servers) fill(s *sampler.Sample) {
	for i := range s.Threads {
		t := &s.Threads[i]
		if s.Depth == sampler.StackTick {
			v.turn(t.ID, s.TimeNS)
		}
		t.Serving = v.read[t.ID]
	}
}

func (v *servers) turn(id sampler.ThreadID, atNS int64) {
	w := v.of[id]
	switch n := v.rng.IntN(20); {
	case n == 0: // the request ends
		w = nil
	case n < 3: // the next request begins
		v.next++
		w = &sampler.Work{Number: v.next, Kind: sampler.WorkRequest, SinceNS: atNS, BeforeNS: v.atNS[id]}
		fallthrough
	case n < 5 && w != nil && w.Endpoint == "": // the route becomes known
		c := *w
		if v.rng.IntN(3) > 0 {
			c.Endpoint = fmt.Sprintf("GET r#%d", v.rng.IntN(6))
		}
		w = &c
	}
	v.of[id], v.atNS[id] = w, atNS
	v.read[id] = sampler.Serving{}
	if w != nil && v.rng.IntN(30) > 0 { // otherwise the sample could not read the request
		v.read[id] = sampler.Serving{Work: v.dict.InternWork(*w)}
	}
}

// TestRequestsAddUp: for every stream, no time is lost or counted twice. The times of all endpoints and of threads
// without a request add up to the time of all threads, to the ns. The waiting time charged to endpoints adds up in the
// same way. The times of consecutive windows add up to the time of the whole.
func TestRequestsAddUp(t *testing.T) {
	for seed := range uint64(24) {
		dict := sampler.NewDictionary()
		f := newFolded(gvltest.ProcOf(gvltest.Eras[seed%uint64(len(gvltest.Eras))]), dict)
		w := gvltest.NewWorld(seed, 2+int(seed), 1+int(seed%3), dict)
		w.Churn, w.Gaps = []float64{0, .02, .3}[seed%3], []float64{0, .002}[seed%2]
		v, rng := newServers(seed, dict), rand.New(rand.NewPCG(seed, 78))
		for n := range 3000 {
			s := w.Sample()
			if seed%5 != 0 {
				streamtest.Damage(rng, s)
			}
			v.fill(s)
			f.Feed(s)
			if n%750 != 749 {
				continue
			}
			checkRequests(t, f, seed)
		}
		f.stream.Finish()
		checkRequests(t, f, seed)
	}
}

func checkRequests(t *testing.T, v *folded, seed uint64) {
	t.Helper()
	r := v.Requests
	whole := r.Endpoints(0, v.Sample.TimeNS)
	none := r.none
	for k := range r.slots {
		if s := &r.slots[k]; s.thread != 0 {
			r.stream.Pending(s.thread, func(i *gvl.Interval) {
				if i.Serving.Work == 0 {
					c := r.timeCharge(i)
					none.add(&c, i.NS())
				}
			})
		}
	}
	ns, blame := sumEndpoints(whole)
	for st := range ns {
		ns[st] += none.ns[st]
	}
	var want [gvl.NumStates]int64
	for _, th := range v.Account.Stat().Threads {
		for st, x := range th.NS.Array() {
			want[st] += x
		}
	}
	if ns != want {
		t.Errorf("seed %d: by endpoint\n%v, by thread\n%v", seed, ns, want)
	}
	if all := v.Blame.Top(1<<20, ByStack, 0); blame+none.blameNS != all.TotalNS-all.NobodyNS {
		t.Errorf("seed %d: blamed %d and %d, in the blame %d", seed, blame, none.blameNS, all.TotalNS-all.NobodyNS)
	}
	var parts [gvl.NumStates]int64
	var ended int
	for second := r.firstNS / 1e9; second <= r.nowNS/1e9; second++ {
		one := r.Endpoints(second*1e9, second*1e9)
		x, _ := sumEndpoints(one)
		for st := range x {
			parts[st] += x[st]
		}
		for _, e := range one {
			ended += e.Ended
		}
	}
	for st := range parts {
		parts[st] += none.ns[st]
	}
	var wholeEnded int
	for _, e := range whole {
		wholeEnded += e.Ended
	}
	if parts != want || ended != wholeEnded {
		t.Errorf("seed %d: by second\n%v, by thread\n%v; %d ended, %d by second", seed, parts, want, wholeEnded, ended)
	}
	running := 0
	for _, e := range whole {
		running += e.Running
		if e.Other {
			t.Errorf("seed %d: beyond the limits: %+v", seed, e)
		}
	}
	if n := len(r.Running()); n != running {
		t.Errorf("seed %d: %d run, %d by endpoint", seed, n, running)
	}
}

func sumEndpoints(list []Endpoint) (ns [gvl.NumStates]int64, blame int64) {
	for _, e := range list {
		for st, x := range e.NS {
			ns[st] += x
		}
		blame += e.BlameNS
	}
	return ns, blame
}

// requestStory is a stream of samples with stacks (stack ticks), 10 ms apart. The map works has the requests that its
// threads work for.
type requestStory struct {
	*folded
	dict  *sampler.Dictionary
	atNS  int64
	works map[sampler.ThreadID]sampler.Work
	held  sampler.ThreadID
	peer  sampler.PeerID
	fiber bool
	// lock is true for samples that read no stack (lock ticks).
	lock bool
	// The function also is called with each sample. It may be nil.
	also func(*sampler.Sample)
}

func newRequestStory() *requestStory {
	dict := sampler.NewDictionary()
	return &requestStory{
		folded: newFolded(gvltest.ProcOf(sampler.EraSched), dict), dict: dict, atNS: gvltest.Base, works: map[sampler.ThreadID]sampler.Work{},
		peer: dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432"}),
	}
}

// ticks feeds n samples with threads 1 and 2, or with the given threads.
func (y *requestStory) ticks(n int, threads ...sampler.ThreadID) {
	if threads == nil {
		threads = []sampler.ThreadID{1, 2}
	}
	for range n {
		y.atNS += 10 * gvltest.MS
		s := &sampler.Sample{TimeNS: y.atNS, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: y.held, OwnerEnd: y.held}}}
		for _, id := range threads {
			t := gvltest.Answered(gvltest.Released(id), y.atNS, "read", 3, y.peer)
			switch {
			case id == y.held:
				t = gvltest.Holder(id)
			case y.held != 0:
				t = gvltest.Queued(id)
				s.Ractors[0].Queue = append(s.Ractors[0].Queue, id)
			}
			if !y.lock {
				t.Quality |= sampler.StackFresh
			}
			if w := y.works[id]; w.Number != 0 {
				t.Serving.Work = y.dict.InternWork(w)
			}
			if y.fiber {
				t.Resumers = []sampler.StackID{1}
			}
			s.Threads = append(s.Threads, t)
		}
		if y.lock {
			s.Depth = sampler.LockTick
		}
		if y.also != nil {
			y.also(s)
		}
		y.Feed(s)
	}
}

// seconds returns the ring buffer of the recent seconds, with the sums of endpoints in each second.
func (y *requestStory) seconds() []endpointTable { return y.Requests.endpoints.recent }

func (y *requestStory) endpoints() []Endpoint {
	return y.Requests.Endpoints(0, y.atNS)
}

func (y *requestStory) running() []Request {
	return y.Requests.Running()
}

// work returns request n, which begins just before the next tick. So the next tick is the first that shows it.
func (y *requestStory) work(n sampler.WorkNumber, endpoint string) sampler.Work {
	return sampler.Work{Number: n, Kind: sampler.WorkRequest, Endpoint: endpoint, SinceNS: y.atNS + 10*gvltest.MS, BeforeNS: y.atNS}
}

// TestConnectionsOfAPoolAreOnePeer: all connections to a remote end are one peer, whichever connection of a pool a
// request uses. They remain one peer if ddtop learns more about the remote end later. The newest connection represents
// all.
func TestConnectionsOfAPoolAreOnePeer(t *testing.T) {
	y := newRequestStory()
	pool := func(local, process string) sampler.PeerID {
		return y.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Local: local, Remote: "10.0.0.5:34383", Process: process})
	}
	y.works[1], y.works[2] = y.work(1, "GET /a"), y.work(2, "GET /a")
	for _, p := range []sampler.PeerID{pool("10.0.0.1:42112", ""), pool("10.0.0.1:42114", ""), pool("10.0.0.1:42112", "postgres (pid 7)")} {
		y.peer = p
		y.ticks(4)
	}
	list := y.endpoints()
	if len(list) != 1 || len(list[0].Peers) != 1 || list[0].Peers[0] != (PeerNS{y.peer, list[0].NS[gvl.IO]}) {
		t.Errorf("%+v, the newest is %d", list, y.peer)
	}
}

// TestRequestFromBeginToEnd: all time of a request is added to the route that is known last. The beginning of the
// request is in the middle between the last reading without it and the first reading with it. Its end is computed in
// the same way.
func TestRequestFromBeginToEnd(t *testing.T) {
	y := newRequestStory()
	y.ticks(5)
	begun := y.atNS + 5*gvltest.MS
	w := y.work(1, "")
	y.works[1] = w
	y.ticks(3)
	if run := y.running(); len(run) != 1 || run[0].FromNS != begun || run[0].AtLeast || run[0].Thread != 1 || !run[0].InProgress || run[0].ToNS != y.atNS ||
		run[0].Now.State != gvl.IO || sum(run[0].NS) != y.atNS-begun || len(run[0].Peers) != 1 || run[0].Peers[0].NS != run[0].NS[gvl.IO] {
		t.Errorf("in progress: %+v, begun at %d of %d", run, begun, y.atNS)
	}
	w.Endpoint = "GET orders#index"
	y.works[1] = w
	y.ticks(7)
	over := y.atNS + 5*gvltest.MS
	y.works[1] = sampler.Work{}
	y.ticks(1)
	for _, n := range []int{0, 2, 20} { // check right after the request's end, and later, when the end is certain
		y.ticks(n)
		list := y.endpoints()
		if len(list) != 1 || list[0].Name != "GET orders#index" || list[0].Ended != 1 || list[0].Running != 0 || list[0].LongestNS != over-begun ||
			list[0].LongestAtLeast || list[0].TotalNS() != over-begun || list[0].Durations.Quantile(1) != over-begun {
			t.Errorf("%d ticks later: %+v, took %d", n, list, over-begun)
		}
		if run := y.running(); len(run) != 0 {
			t.Errorf("%d ticks later it runs: %+v", n, run)
		}
	}
	{
		v := y.folded
		if at := v.Requests.At(begun + gvltest.MS); len(at) != 1 || at[0].ToNS != over || at[0].InProgress || at[0].NS[gvl.IO] == 0 {
			t.Errorf("at its begin: %+v", at)
		}
		if at := v.Requests.At(over); len(at) != 0 {
			t.Errorf("at its end: %+v", at)
		}
		if of := v.Requests.Of(1, begun-gvltest.MS, begun+gvltest.MS); len(of) != 1 || len(v.Requests.Of(2, 0, y.atNS)) != 0 {
			t.Errorf("of its thread: %+v", of)
		}
	}
}

// TestRequestsShorterThanReadings: if only one reading shows a request, the request lasted up to twice the interval
// between readings. The possible error of any length is this interval. So the text shows a length without a bound only
// if the interval is a small part of the length.
func TestRequestsShorterThanReadings(t *testing.T) {
	y := newRequestStory()
	y.ticks(5)
	for n := range sampler.WorkNumber(20) {
		y.works[1] = y.work(2*n+1, "GET short")
		y.ticks(1)
		y.works[1] = y.work(2*n+2, "GET long")
		y.ticks(39)
		y.works[1] = sampler.Work{}
		y.ticks(15)
	}
	list := y.endpoints()
	if len(list) != 2 || list[0].Name != "GET long" || list[0].SlackNS != 10*gvltest.MS || list[1].SlackNS != 10*gvltest.MS {
		t.Fatalf("%+v", list)
	}
	for i, want := range []int64{0, 10 * gvltest.MS} {
		if slack := list[i].Slack(); slack != want {
			t.Errorf("%s: p50 %d, off by %d", list[i].Name, list[i].Durations.Quantile(.5), slack)
		}
	}
	if slack := (&Endpoint{}).Slack(); slack != 0 {
		t.Errorf("none: off by %d", slack)
	}
}

// TestRequestSeenWithoutStack: a request begins and ends between two readings of all stacks. Only samples without
// stacks (lock ticks) show it. It took at most twice the interval between these samples.
func TestRequestSeenWithoutStack(t *testing.T) {
	y := newRequestStory()
	y.ticks(5)
	y.lock = true
	y.works[1] = y.work(1, "GET short")
	y.ticks(1)
	y.works[1] = sampler.Work{}
	y.ticks(1)
	y.lock = false
	y.ticks(20)
	if list := y.endpoints(); len(list) != 1 || list[0].Ended != 1 || list[0].SlackNS > 20*gvltest.MS || list[0].LongestNS > 30*gvltest.MS {
		t.Errorf("%+v", list)
	}
}

// TestRequestsWithoutEdges: if a request began before the first sample or ended in a gap between samples, its length is
// a lower bound. If a request ended because its thread ended, its length is known. If a request is seen before and
// after a gap, it also lasted during the gap.
func TestRequestsWithoutEdges(t *testing.T) {
	y := newRequestStory()
	early := y.work(1, "GET early")
	early.BeforeNS = 0
	y.works[1], y.works[2] = early, y.work(2, "GET died")
	y.ticks(10)
	delete(y.works, 1)
	y.ticks(20, 1) // thread 2 has ended
	y.works[1] = y.work(3, "GET gap")
	y.ticks(5, 1)
	delete(y.works, 1)
	y.atNS += 20000 * gvltest.MS
	y.ticks(20, 1)
	y.works[1] = y.work(4, "GET through")
	y.ticks(5, 1)
	y.atNS += 20000 * gvltest.MS
	y.ticks(5, 1)
	type told struct {
		ended, running int
		durations      int64
		atLeast        bool
	}
	want := map[string]told{"GET early": {1, 0, 0, true}, "GET died": {1, 0, 1, false}, "GET gap": {1, 0, 0, true}, "GET through": {0, 1, 0, true}}
	got := map[string]told{}
	for _, e := range y.endpoints() {
		n, _ := e.Durations.Count()
		got[e.Name] = told{e.Ended, e.Running, n, e.LongestAtLeast}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if run := y.running(); len(run) != 1 || run[0].AtLeast || run[0].DurationNS() < 20000*gvltest.MS || run[0].NS[gvl.Unknown] != 0 {
		t.Errorf("through the gap: %+v", run)
	}
}

// TestRequestDiedInGap: the thread of a request ends in a gap between samples, so no sample shows when the request
// ended. Its length is a lower bound.
func TestRequestDiedInGap(t *testing.T) {
	y := newRequestStory()
	y.ticks(2)
	y.works[2] = y.work(1, "GET gone")
	y.ticks(10)
	y.atNS += 20000 * gvltest.MS
	y.ticks(20, 1)
	list := y.endpoints()
	if len(list) != 1 || list[0].Ended != 1 || !list[0].LongestAtLeast || list[0].LongestNS != 90*gvltest.MS {
		t.Errorf("%+v", list)
	}
}

// TestRequestsThatComeBack: one failed reading does not end a request. If a request runs on a fiber, and its thread
// begins another request, the first request is suspended. It must not count as ended.
func TestRequestsThatComeBack(t *testing.T) {
	y := newRequestStory()
	w := y.work(1, "GET a")
	for range 5 {
		y.works[1] = w
		y.ticks(4)
		delete(y.works, 1)
		y.ticks(1)
	}
	y.works[1] = w
	y.ticks(20)
	if list := y.endpoints(); len(list) != 1 || list[0].Ended != 0 || list[0].Running != 1 {
		t.Errorf("with holes: %+v", list)
	}
	y.fiber = true
	y.ticks(2)
	other := y.work(2, "GET b")
	y.works[1] = other
	y.ticks(100)
	if run := y.running(); len(run) != 2 || !run[0].Suspended || run[1].Suspended || run[0].Work.Number != 1 {
		t.Errorf("on fibers: %+v", run)
	}
	y.works[1] = w
	y.ticks(2)
	if run := y.running(); len(run) != 2 || run[0].Suspended || !run[1].Suspended {
		t.Errorf("on fibers: %+v", run)
	}
	y.ticks(1200)
	if list := y.endpoints(); len(list) != 2 || list[1].Name != "GET b" || list[1].Ended != 1 || list[1].LongestNS > 1010*gvltest.MS {
		t.Errorf("the other fiber is not seen any more: %+v", list)
	}
}

// TestRequestsBlame: the request of the GVL's holder is charged for the time in which other threads wait for the GVL.
func TestRequestsBlame(t *testing.T) {
	y := newRequestStory()
	y.works[1], y.works[2] = y.work(1, "GET slow"), y.work(2, "GET waits")
	y.held = 1
	y.ticks(50)
	list := y.endpoints()
	slices.SortFunc(list, func(a, b Endpoint) int { return int(b.BlameNS - a.BlameNS) })
	if len(list) != 2 || list[0].Name != "GET slow" || list[0].BlameNS == 0 || list[0].BlameNS != list[1].NS[gvl.Waiting] || list[1].BlameNS != 0 {
		t.Errorf("%+v", list)
	}
}

// TestRequestsOfLyingTimes: in a damaged recording, any number can be given as the beginning of a request. The request
// then gets no more time than is possible, and no time that belongs to other requests.
func TestRequestsOfLyingTimes(t *testing.T) {
	y := newRequestStory()
	y.ticks(5)
	for i, lie := range []sampler.Work{{SinceNS: math.MaxInt64, BeforeNS: math.MaxInt64}, {SinceNS: math.MaxInt64 - 1, BeforeNS: 1},
		{SinceNS: math.MinInt64, BeforeNS: math.MinInt64}, {SinceNS: -1, BeforeNS: math.MaxInt64}, {SinceNS: 1, BeforeNS: math.MaxInt64},
		{QueuedNS: math.MaxInt64}, {QueuedNS: math.MinInt64, SinceNS: y.atNS + 1e18}} {
		lie.Number, lie.Kind, lie.Endpoint = sampler.WorkNumber(i+1), sampler.WorkRequest, "GET lie"
		y.works[1] = lie
		y.ticks(2)
		for _, q := range y.running() {
			if q.FromNS > y.atNS || q.ToNS > y.atNS || q.ToNS < q.FromNS {
				t.Errorf("%+v lasts from %d to %d at %d", lie, q.FromNS, q.ToNS, y.atNS)
			}
		}
		delete(y.works, 1)
		y.ticks(20)
	}
	n := sampler.WorkNumber(100)
	for range 3 * len(y.seconds()) { // fills each slot of the ring of seconds
		n++
		y.works[1] = y.work(n, "GET true")
		y.ticks(5)
		delete(y.works, 1)
		y.ticks(95)
	}
	{
		v := y.folded
		from := y.atNS - int64(len(y.seconds())-3)*1e9
		list := v.Requests.Endpoints(from, y.atNS)
		if len(list) != 1 || list[0].Ended < len(y.seconds())-3 || list[0].LongestAtLeast {
			t.Errorf("of the last %d s: %+v", len(y.seconds())-3, list)
		}
		if since, all := v.Requests.ToldSince(from, y.atNS); !all || since != from {
			t.Errorf("these are told since %d, %v", since, all)
		}
		if since, all := v.Requests.ToldSince(0, y.atNS); !all || since != v.Requests.firstNS {
			t.Errorf("the whole is told since %d, %v", since, all)
		}
		since, all := v.Requests.ToldSince(0, y.atNS-1e9)
		if all || since <= v.Requests.firstNS || since > from {
			t.Errorf("a part is told since %d, %v", since, all)
		}
		before := v.Requests.Endpoints(since-3e9, since-2e9)
		if len(before) != 0 {
			t.Errorf("of the time before that: %+v", before)
		}
	}
}

// TestRequestsLimits: requests and endpoints beyond the limits are added up as "other". None of their time is lost.
func TestRequestsLimits(t *testing.T) {
	y := newRequestStory()
	ids := make([]sampler.ThreadID, maxOpenRequests+10)
	for i := range ids {
		ids[i] = sampler.ThreadID(i + 1)
		y.works[ids[i]] = y.work(sampler.WorkNumber(i+1), fmt.Sprintf("GET %d", i))
	}
	y.ticks(3, ids...)
	list := y.endpoints()
	last := list[len(list)-1]
	total, _ := sumEndpoints(list)
	if len(list) > maxEndpoints+1 || !last.Other || last.Running != maxOpenRequests-len(list)+1 || sum(total) != int64(len(ids))*20*gvltest.MS {
		t.Errorf("%d endpoints, the last %+v; %d in all", len(list), last, sum(total))
	}
	leftOut := func() {
		t.Helper()
		{
			v := y.folded
			if n := v.Requests.LeftOut(); n != 10 {
				t.Errorf("%d left out", n)
			}
		}
	}
	leftOut()
	for i := range ids { // each gets a longer name
		y.works[ids[i]] = y.work(sampler.WorkNumber(i+1), fmt.Sprintf("GET %d more", i))
	}
	y.ticks(1, ids...)
	leftOut()
	clear(y.works)
	y.ticks(20, 1)
	for n := range sampler.WorkNumber(3) {
		y.works[1] = y.work(sampler.WorkNumber(len(ids))+n+1, "GET long")
		y.ticks(100*maxRequestSeconds*3/2, 1)
	}
	for _, e := range y.endpoints() {
		if e.Name == "GET long" && (e.Ended != 2 || e.TotalNS() < 3*1490*gvltest.MS*maxRequestSeconds/2) {
			t.Errorf("%+v", e)
		}
	}
	{
		v := y.folded
		for _, q := range v.Requests.open {
			if len(q.seconds) > maxRequestSeconds {
				t.Errorf("%d seconds of a request", len(q.seconds))
			}
		}
		if n := len(v.Requests.leaving) + len(v.Requests.open); n > 2 {
			t.Errorf("%d are remembered as in progress", n)
		}
	}
}

func sum(ns [gvl.NumStates]int64) (total int64) {
	for _, x := range ns {
		total += x
	}
	return total
}

// TestLargestPeersAreKept: time is added up for a limited number of peers only. The result must name the peers with the
// most time, even if other peers came first. The time of a peer is never too high. If there are few peers, it is exact.
func TestLargestPeersAreKept(t *testing.T) {
	const large = 1000
	random := rand.New(rand.NewPCG(1, 2))
	for _, small := range []int{maxSumPeers - 4, maxSumPeers - 3, 40, 500} {
		truth := make(map[uint32]int64)
		var parts [7]peerSums
		for range 20_000 {
			peer, ns := uint32(1+random.IntN(small)), 1+random.Int64N(20)
			if random.IntN(2) == 0 { // half of the time belongs to three peers, which come no earlier than the others
				peer = uint32(large + random.IntN(3))
			}
			truth[peer] += ns
			parts[random.IntN(len(parts))].add(peer, ns)
		}
		var sums peerSums
		var total int64
		for i := range parts {
			sums.merge(parts[i])
		}
		for _, ns := range truth {
			total += ns
		}
		list := sums.list()
		if len(list) > maxRequestPeers || len(sums) > maxSumPeers {
			t.Fatalf("%d small: %d told of %d kept", small, len(list), len(sums))
		}
		for i, x := range list {
			if i < 3 != (x.group >= large) {
				t.Errorf("%d small: place %d is peer %d", small, i, x.group)
			}
			if x.ns > truth[x.group] || x.ns < truth[x.group]-total/maxSumPeers || small+3 <= maxSumPeers && x.ns != truth[x.group] {
				t.Errorf("%d small: peer %d had %d ns, said is %d", small, x.group, truth[x.group], x.ns)
			}
		}
	}
}

// TestAgesSayTheirUncertainty: the age of a request is shown with its known bounds. A request that the last reading
// shows for the first time began after the reading before. While the longest request is in progress, its length is a
// lower bound.
func TestAgesSayTheirUncertainty(t *testing.T) {
	y := newRequestStory()
	y.ticks(5)
	w := y.work(1, "GET a")
	y.works[1] = w
	for n := range int64(20) {
		y.ticks(1)
		run := y.running()
		if len(run) != 1 || run[0].AtLeast || run[0].SlackNS != 5*gvltest.MS || run[0].DurationNS() != n*10*gvltest.MS+5*gvltest.MS {
			t.Fatalf("after %d readings: %+v", n+1, run)
		}
		if ns, atMost := Length(run[0].DurationNS(), run[0].SlackNS); atMost != (n < 15) || atMost && ns != (n+1)*10*gvltest.MS {
			t.Errorf("after %d readings: %d, at most: %v", n+1, ns, atMost)
		}
		stat := y.requests()
		if s := stat.Running[0]; s.UncertaintyNS != 5*gvltest.MS || s.AtLeast || s.AgeNS != run[0].DurationNS() {
			t.Errorf("stat: %+v", s)
		}
		if e := stat.Endpoints[0]; e.LongestNS != n*10*gvltest.MS || !e.LongestAtLeast {
			t.Errorf("after %d readings the longest took at least %d", n+1, e.LongestNS)
		}
		if s, ok := ServingOf(sampler.Serving{Work: y.dict.InternWork(w)}, y.atNS, y.dict); !ok || s.UncertaintyNS != 5*gvltest.MS || s.AgeNS != n*10*gvltest.MS+5*gvltest.MS {
			t.Errorf("of a thread: %+v", s)
		}
	}
}

// TestRequestsFoundLate: if ddtop lacks time, it reads stacks but does not search them for requests. A request that
// begins in this time is found late. So it can be older than its known age by as much as this time. Its length is left
// out of the quantiles, because shorter requests may have ended before they could be found.
func TestRequestsFoundLate(t *testing.T) {
	y := newRequestStory()
	y.ticks(5)
	late := y.work(1, "GET a")
	y.ticks(4) // ddtop reads the thread's stack, but not the request
	late.SinceNS += 40 * gvltest.MS
	y.works[1] = late
	y.ticks(2)
	if run := y.running(); len(run) != 1 || !run[0].Late || run[0].AtLeast || run[0].SlackNS != 25*gvltest.MS {
		t.Errorf("%+v", run)
	}
	y.works[1] = y.work(2, "GET a")
	y.ticks(3)
	delete(y.works, 1)
	y.ticks(20)
	list := y.endpoints()
	if len(list) != 1 || list[0].Ended != 2 {
		t.Fatalf("%+v", list)
	}
	if n, longest := list[0].Durations.Count(); n != 1 || longest != 30*gvltest.MS || list[0].SlackNS != 10*gvltest.MS {
		t.Errorf("%d are told of, the longest %d ± %d", n, longest, list[0].SlackNS)
	}
}
