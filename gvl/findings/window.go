package findings

import (
	"math"
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// sums is time by state, idle time apart.
type sums struct {
	ns   [gvl.NumStates]int64
	idle int64
	busy int64
	// cpu is the time on a CPU, as far as the counters were read.
	cpu int64
}

func (s *sums) held() int64 { return s.ns[gvl.Running] + s.ns[gvl.Stalled] + s.ns[gvl.GC] }

// moment is the newest sample, with what the collector knows of its threads.
type moment struct {
	ev   *collector
	dict *sampler.Dictionary
	// limits are the rules' thresholds.
	limits *limits
	s      *sampler.Sample
	states []gvl.ThreadState
	nowNS  int64
	// threadOf is each thread's index in states.
	threadOf map[sampler.ThreadID]int
}

// past is the last seconds, added up.
type past struct {
	sampledNS int64
	quality   sampler.Quality // of that time
	fromNS    int64           // nothing before this is in it. Zero means no such limit.
	newest    int64           // the last second
	total     sums
	threads   map[sampler.ThreadID]*sums
	ractors   map[sampler.RactorID]*sums
	peers     map[uint32]int64
	calls     map[uint32]*calls // by peer group
	locks     map[uint64]int64
	gcStacks  map[sampler.StackID]int64
	allocs    map[sampler.StackID]allocs
	flags     map[stackFlags]int64
	ops       [numOps]int64
	resting   [gvl.NumStates]int64 // in the middle of a request or a job
	waits     gvl.Lengths
	gcNS      int64
	pause     pause
	gcLacked  int64
	poolNS    int64
	poolAt    sampler.StackID
	// poolTold is how the length of that wait is told.
	poolTold  gvl.Bounded
	longest   hold
	stuckNS   int64
	holderCPU int64
	// holderWait is the time holders were runnable without a CPU.
	holderWait int64
	// nativeCPU and nativeWait are the same two of threads that worked without the GVL.
	nativeCPU, nativeWait int64

	firstGC, lastGC sampler.GC
	firstPr, lastPr sampler.Proc
	firstSelf       account.Meter
	spare           []*sums
	recentLocks     map[uint64]int64 // of the last full second and the one going on
	recentNS        int64
}

// window is what the rules look at: the last seconds, the sample at their end, and what is known of the same time elsewhere.
type window struct {
	moment
	past
	blame *account.Blame
	// requests are those of the stream. It is nil if nothing follows them.
	requests *account.Requests
}

func (w *window) init(ev *collector, b *account.Blame, q *account.Requests) {
	w.requests = q
	w.ev, w.blame, w.dict, w.limits = ev, b, ev.dict, ev.limits
	w.threads = make(map[sampler.ThreadID]*sums)
	w.ractors = make(map[sampler.RactorID]*sums)
	w.peers = make(map[uint32]int64)
	w.calls = make(map[uint32]*calls)
	w.locks = make(map[uint64]int64)
	w.recentLocks = make(map[uint64]int64)
	w.gcStacks = make(map[sampler.StackID]int64)
	w.allocs = make(map[sampler.StackID]allocs)
	w.flags = make(map[stackFlags]int64)
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

// collect adds up the collector's seconds, those that began before fromNS left out.
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
	clear(w.calls)
	clear(w.locks)
	clear(w.recentLocks)
	clear(w.gcStacks)
	clear(w.allocs)
	clear(w.flags)
	clear(w.threadOf)
	w.total, w.longest = sums{}, hold{}
	w.waits.Reset()
	w.quality = sampler.Quality{}
	w.sampledNS, w.gcNS, w.gcLacked, w.pause, w.stuckNS, w.holderCPU, w.holderWait, w.recentNS = 0, 0, 0, pause{}, 0, 0, 0, 0
	w.poolNS, w.poolAt, w.poolTold, w.nativeCPU, w.nativeWait = 0, 0, gvl.Bounded{}, 0, 0
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

// covers reports whether a second is in the window.
func (w *past) covers(b *second) bool {
	return b.at >= 0 && b.at >= w.newest-findingsWindowNS/1e9 && b.at*1e9 >= w.fromNS
}

// recent reports whether a second is the last full one or the one going on.
func (w *past) recent(b *second) bool { return b.at >= w.newest-1 }

func (w *past) add(b *second) {
	recent := w.recent(b)
	w.sampledNS += b.sampledNS
	w.quality.Add(&b.quality)
	w.gcNS += b.gcNS
	w.gcLacked += b.lackedNS
	w.stuckNS += b.stuckNS
	w.holderCPU += b.holderCPU
	w.holderWait += b.holderWait
	w.nativeCPU += b.nativeCPU
	w.nativeWait += b.nativeWait
	if recent {
		w.recentNS += b.sampledNS
	}
	if b.pause.ranNS > w.pause.ranNS {
		w.pause = b.pause
	}
	if b.poolNS > w.poolNS {
		w.poolNS, w.poolAt, w.poolTold = b.poolNS, b.poolStack, b.poolTold
	}
	if b.longest.ns > w.longest.ns {
		w.longest = b.longest
	}
	w.waits.Merge(&b.waits)
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
	case dimLock:
		w.locks[k.id] += ns
		if recent {
			w.recentLocks[k.id] += ns
		}
	case dimFlag:
		w.flags[stackFlags(k.id)] += ns
	case dimOp:
		w.ops[k.id] += ns
	case dimRest:
		w.resting[k.id] += ns
	case dimCPU:
		w.thread(sampler.ThreadID(k.id)).cpu += ns
	case dimCall:
		w.addCalls(k.id, ns)
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

// thread is what is added up of a thread.
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

// flag sums the busy time of stacks with any of the flags.
func (w *past) flag(f stackFlags) int64 {
	var sum int64
	for k, ns := range w.flags {
		if k&f != 0 {
			sum += ns
		}
	}
	return sum
}

// blamed is for how long back blame is looked at.
func (w *window) blamed() int64 { return min(findingsWindowNS, max(w.nowNS-w.fromNS, 1)) }

// own is ddtop's own part of a CPU; 0 where it is not known.
func (w *window) own() float64 {
	used, span := w.ev.self.Since(&w.firstSelf)
	return gvl.Ratio(used, span)
}

// share is ns of the window's length: 1 is one thread all the time.
func (w *past) share(ns int64) float64 { return gvl.Ratio(ns, w.sampledNS) }

// ofBusy is ns of the busy time of all threads.
func (w *past) ofBusy(ns int64) float64 { return gvl.Ratio(ns, w.total.busy) }

// withWaiters is time as a holder of the GVL together with the waiting of others for it, as if the waiting were spread evenly over
// all time as a holder.
func (w *window) withWaiters(ns int64) int64 {
	return ns + int64(float64(ns)*gvl.Ratio(w.total.ns[gvl.Waiting], w.total.held()))
}

// ofAll is a share of the window's length in which no thread went on: the busy time of all threads in it.
func (w *past) ofAll(share float64) int64 { return int64(share * float64(w.total.busy)) }

// name is what the screens call a thread.
func (w *moment) name(id sampler.ThreadID) string { return gvl.ThreadName(id, w.dict) }

// watch is what the collector remembers of a listed thread; nil: not listed.
func (w *moment) watch(id sampler.ThreadID) *watch {
	if i, ok := w.threadOf[id]; ok {
		return &w.ev.threads[w.ev.slots[i]]
	}
	return nil
}

// state is a thread's state now; nil: not listed.
func (w *moment) state(id sampler.ThreadID) *gvl.ThreadState {
	if i, ok := w.threadOf[id]; ok {
		return &w.states[i]
	}
	return nil
}

// behind names a culprit: its code, its thread, and the line: "Shop#pay → IO#gets (worker-3, shop.rb:12)".
func (w *window) behind(id sampler.ThreadID, stack sampler.StackID) string {
	code, at := code.Where(w.dict, stack), code.OwnLine(w.dict, stack)
	if code == "" {
		return w.name(id)
	}
	code, at = gvl.AddLine(code, at)
	return code + " (" + join(w.name(id), at) + ")"
}

// join puts a comma between two texts, where there are two.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// place names code with the file and the line of its innermost part that is the program's own: "Shop#pay → IO#gets (shop.rb:12)";
// "" for an unknown stack.
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

// in is place with " in " before it; "" for an unknown stack.
func (w *moment) in(stack sampler.StackID) string {
	if code := w.place(stack); code != "" {
		return " in " + code
	}
	return ""
}

// number writes a mean number with one decimal.
func number(v float64) string { return units.Number(v, 1) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// least returns the smallest of the scores: all conditions of a rule must hold.
func least(scores ...float64) float64 {
	m := math.Inf(1)
	for _, s := range scores {
		m = min(m, s)
	}
	return m
}
