package findings

import (
	"math"
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/calls"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// sums is time by state, in ns. Time in which a thread is idle counts only in the field idle. busy is all other time.
type sums struct {
	ns   [gvl.NumStates]int64
	idle int64
	busy int64
	// cpu is the time on a CPU. It is zero if the counters were not read.
	cpu int64
}

func (s *sums) held() int64 { return s.ns[gvl.Running] + s.ns[gvl.Stalled] + s.ns[gvl.GC] }

// moment has the newest sample, and what the type collector remembers about the threads in it.
type moment struct {
	ev     *collector
	dict   *sampler.Dictionary
	limits *limits
	s      *sampler.Sample
	states []gvl.ThreadState
	nowNS  int64
	// threadOf has, for each thread that the collector follows, its index in states.
	threadOf map[sampler.ThreadID]int
}

// past has the totals of all seconds in the window.
type past struct {
	counts
	fromNS   int64 // seconds before this time are left out; zero means no limit
	newest   int64 // number of the newest second
	total    sums
	threads  map[sampler.ThreadID]*sums
	ractors  map[sampler.RactorID]*sums
	peers    map[uint32]int64
	connects map[uint32]int64
	calls    calls.Calls
	locks    map[uint64]int64
	// time for which threads waited for each lock, in the last full second and the current one
	recentLocks map[uint64]int64
	recentNS    int64
	gcStacks    map[sampler.StackID]int64
	allocs      map[sampler.StackID]allocs
	flags       map[stackkind.Flags]int64
	ops         [numOps]int64
	resting     [gvl.NumStates]int64 // time asleep or parked during a request or job
	spare       []*sums

	firstGC, lastGC sampler.GC
	firstPr, lastPr sampler.Proc
	firstSelf       account.Meter
}

// window is the input of the rules: the totals of the last seconds, and the newest sample.
type window struct {
	moment
	past
	blame *account.Blame
	// requests is nil if requests and jobs are not counted.
	requests *account.Requests
}

func (w *window) init(ev *collector, b *account.Blame, q *account.Requests) {
	w.requests = q
	w.ev, w.blame, w.dict, w.limits = ev, b, ev.dict, ev.limits
	w.threads = make(map[sampler.ThreadID]*sums)
	w.ractors = make(map[sampler.RactorID]*sums)
	w.peers = make(map[uint32]int64)
	w.connects = make(map[uint32]int64)
	w.calls = make(calls.Calls)
	w.locks = make(map[uint64]int64)
	w.recentLocks = make(map[uint64]int64)
	w.gcStacks = make(map[sampler.StackID]int64)
	w.allocs = make(map[sampler.StackID]allocs)
	w.flags = make(map[stackkind.Flags]int64)
	w.threadOf = make(map[sampler.ThreadID]int)
}

func (w *past) sums() *sums {
	if n := len(w.spare); n > 0 {
		s := w.spare[n-1]
		w.spare = w.spare[:n-1]
		*s = sums{}
		return s
	}
	return new(sums)
}

// collect adds up the totals of the collector's seconds that begin at fromNS or later.
func (w *window) collect(s *sampler.Sample, states []gvl.ThreadState, now, fromNS int64) {
	ev := w.ev
	ev.addAll()
	w.nowNS, w.fromNS, w.newest = now, fromNS, ev.cur.at
	w.s, w.states = s, states
	for _, x := range w.threads {
		w.spare = append(w.spare, x)
	}
	for _, x := range w.ractors {
		w.spare = append(w.spare, x)
	}
	clear(w.threads)
	clear(w.ractors)
	clear(w.peers)
	clear(w.connects)
	clear(w.calls)
	clear(w.locks)
	clear(w.recentLocks)
	clear(w.gcStacks)
	clear(w.allocs)
	clear(w.flags)
	clear(w.threadOf)
	w.waits.Reset()
	w.counts = counts{waits: w.waits}
	w.total, w.recentNS = sums{}, 0
	w.ops, w.resting = [numOps]int64{}, [gvl.NumStates]int64{}
	for i := range states {
		if ev.slots[i] >= 0 {
			w.threadOf[states[i].Thread] = i
		}
	}
	first := int64(math.MaxInt64)
	w.lastGC, w.lastPr = s.GC, s.Proc
	for i := range ev.ring {
		b := &ev.ring[i]
		if !w.covers(b) {
			continue
		}
		if b.at < first {
			first = b.at
			w.firstGC, w.firstPr, w.firstSelf = b.gc, b.proc, b.self
		}
		w.add(b)
	}
	ev.pending(func(b *second, keys []sumKey, ns int64) {
		if w.covers(b) {
			for _, k := range keys {
				w.addSum(k, ns, w.recent(b))
			}
		}
	})
}

// covers reports whether the second b belongs to the window.
func (w *past) covers(b *second) bool {
	return b.at >= 0 && b.at >= w.newest-findingsWindowNS/1e9 && b.at*1e9 >= w.fromNS
}

// recent reports whether a second is the current one, which is not complete yet, or the one before it.
func (w *past) recent(b *second) bool { return b.at >= w.newest-1 }

func (w *past) add(b *second) {
	recent := w.recent(b)
	w.counts.add(&b.counts)
	if recent {
		w.recentNS += b.sampledNS
	}
	for k, ns := range b.sums {
		w.addSum(k, ns, recent)
	}
}

func (w *past) addSum(k sumKey, ns int64, recent bool) {
	switch k.dim {
	case dimThread:
		w.addThread(k, ns)
	case dimPeer:
		w.peers[uint32(k.id)] += ns
	case dimConnect:
		w.connects[uint32(k.id)] += ns
	case dimLock:
		w.locks[k.id] += ns
		if recent {
			w.recentLocks[k.id] += ns
		}
	case dimFlag:
		w.flags[stackkind.Flags(k.id)] += ns
	case dimOp:
		w.ops[k.id] += ns
	case dimRest:
		w.resting[k.id] += ns
	case dimCPU:
		w.thread(sampler.ThreadID(k.id)).cpu += ns
	case dimCall:
		w.calls.Add(k.id, ns)
	case dimGC:
		w.gcStacks[sampler.StackID(k.id)] += ns
	case dimAlloc:
		a := w.allocs[sampler.StackID(k.id)]
		a.objects += ns
		w.allocs[sampler.StackID(k.id)] = a
	case dimAllocSquares:
		a := w.allocs[sampler.StackID(k.id)]
		a.squares += ns
		w.allocs[sampler.StackID(k.id)] = a
	}
}

func (w *past) addThread(k sumKey, ns int64) {
	w.thread(sampler.ThreadID(k.id)).add(k, ns)
	w.total.add(k, ns)
	r := w.ractors[k.ractor]
	if r == nil {
		r = w.sums()
		w.ractors[k.ractor] = r
	}
	r.add(k, ns)
}

func (w *past) thread(id sampler.ThreadID) *sums {
	t := w.threads[id]
	if t == nil {
		t = w.sums()
		w.threads[id] = t
	}
	return t
}

func (s *sums) add(k sumKey, ns int64) {
	if k.idle {
		s.idle += ns
		return
	}
	s.ns[k.state] += ns
	s.busy += ns
}

// flag returns the busy time in which a thread's stack had at least one of the given flags, in ns.
func (w *past) flag(f stackkind.Flags) int64 {
	var sum int64
	for k, ns := range w.flags {
		if k&f != 0 {
			sum += ns
		}
	}
	return sum
}

// blamed returns how far back from now the rules look for the code to blame, in ns.
func (w *window) blamed() int64 { return min(findingsWindowNS, max(w.nowNS-w.fromNS, 1)) }

// own returns how many CPUs ddtop itself uses. It is zero if this is unknown.
func (w *window) own() float64 {
	used, span := w.ev.self.Since(&w.firstSelf)
	return gvl.Ratio(used, span)
}

// share returns ns divided by the window's sampled time. If ns is a sum over several threads, the result is a mean
// number of threads, which can exceed 1.
func (w *past) share(ns int64) float64 { return gvl.Ratio(ns, w.sampledNS) }

// ofBusy returns ns as a share of the busy time of all threads.
func (w *past) ofBusy(ns int64) float64 { return gvl.Ratio(ns, w.total.busy) }

// withWaiters takes a time for which threads held the GVL, in ns. It returns this time plus the time for which other
// threads waited because of it. It assumes that each ns with the GVL causes the same amount of waiting.
func (w *window) withWaiters(ns int64) int64 {
	return ns + int64(float64(ns)*gvl.Ratio(w.total.ns[gvl.Waiting], w.total.held()))
}

// ofAll returns the time that threads lose if the whole process stands still for the given share of the window, in ns.
// This is the same share of all busy time.
func (w *past) ofAll(share float64) int64 { return int64(share * float64(w.total.busy)) }

func (w *moment) name(id sampler.ThreadID) string { return gvl.ThreadName(id, w.dict) }

// watch returns what the collector remembers about a thread, or nil if the newest sample does not list the thread.
func (w *moment) watch(id sampler.ThreadID) *watch {
	if i, ok := w.threadOf[id]; ok {
		return &w.ev.threads[w.ev.slots[i]]
	}
	return nil
}

// state returns a thread's present state, or nil if the newest sample does not list the thread.
func (w *moment) state(id sampler.ThreadID) *gvl.ThreadState {
	if i, ok := w.threadOf[id]; ok {
		return &w.states[i]
	}
	return nil
}

// behind names the thread that is to blame, its code and its line: "Shop#pay → IO#gets (worker-3, shop.rb:12)".
func (w *window) behind(id sampler.ThreadID, stack sampler.StackID) string {
	code, at := code.Where(w.dict, stack), code.OwnLine(w.dict, stack)
	if code == "" {
		return w.name(id)
	}
	code, at = gvl.AddLine(code, at)
	return code + " (" + join(w.name(id), at) + ")"
}

// join puts a comma between two texts if neither is empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// place describes a stack by its methods, with the innermost line of the program's own code: "Shop#pay → IO#gets
// (shop.rb:12)". It returns "" for an unknown stack.
func (w *moment) place(stack sampler.StackID) string {
	code, at := code.Where(w.dict, stack), code.OwnLine(w.dict, stack)
	switch code, at = gvl.AddLine(code, at); {
	case at == "":
		return code
	case code == "":
		return at
	}
	return code + " (" + at + ")"
}

// in returns the text of place after the word " in ", or "" if place returns "".
func (w *moment) in(stack sampler.StackID) string {
	if code := w.place(stack); code != "" {
		return " in " + code
	}
	return ""
}

// number writes a mean number with one decimal.
func number(v float64) string { return units.Number(v, 1) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// least returns the smallest of several scores. This is the score of a rule that needs all of its conditions.
func least(scores ...float64) float64 {
	m := math.Inf(1)
	for _, s := range scores {
		m = min(m, s)
	}
	return m
}
