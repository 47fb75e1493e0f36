package stream

import (
	"math"
	"math/rand/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// exactWorld simulates a process with one GVL, and all changes of this GVL are known. First it decides what happens,
// which is the truth for the test. Then it makes samples of these events.
type exactWorld struct {
	rng     *rand.Rand
	now     int64
	next    sampler.ThreadID
	live    []*exactActor
	queue   []*exactActor
	holder  *exactActor
	chosen  *exactActor
	last    *exactActor
	stacks  []sampler.StackID
	changes []sampler.Change
	asked   int64 // the time of the last sample
	// churn is the probability that a thread begins or ends at an event. meanNS is the mean time between two events.
	churn  float64
	meanNS float64
	// stuck is the probability that a thread loses its CPU, for up to stuckNS, after it has changed the scheduler's
	// data. It then still has the scheduler's mutex, so no other thread can change anything. The change is recorded
	// only when the thread releases the mutex. Until then, samples see a change that is not recorded yet.
	//
	// hidden is the probability that the first record of a thread is its first hold of the GVL. Until then only samples
	// show the thread.
	stuck, hidden float64
	ahead         *exactActor
	aheadTo       sampler.GVLState
	aheadUntil    int64

	// These fields have the truth: what really happens in the simulation.
	waits []gvl.Wait
	ns    map[sampler.ThreadID]*[5]int64 // by sampler.GVLState; only threads that a sample listed
	lane  []gvl.LockInterval
	known map[sampler.ThreadID]int64 // when the thread was first recorded; zero if it was not hidden
}

// stuckNS limits for how long a thread can lose its CPU while it changes the scheduler's data, in ns.
const stuckNS = 200_000_000

type exactActor struct {
	id      sampler.ThreadID
	tid     int32
	state   sampler.GVLState
	since   int64
	listed  bool
	hidden  bool
	knownNS int64 // time of the first record, if the thread was hidden until then
	began   int64
	wait    gvl.Wait
	chosen  int64
	blocked sampler.BlockKind
	stack   sampler.StackID
	// ns and waits stay here until a sample has listed the thread
	ns    [5]int64
	waits []gvl.Wait
}

func newExactWorld(seed uint64, threads int, dict *sampler.Dictionary) *exactWorld {
	w := &exactWorld{
		rng: rand.New(rand.NewPCG(seed, 5)), now: gvltest.Base, asked: gvltest.Base, meanNS: 200_000, ns: make(map[sampler.ThreadID]*[5]int64), known: make(map[sampler.ThreadID]int64),
		stacks: gvltest.NewWorld(seed, 0, 1, dict).Stacks,
	}
	for range threads {
		w.start()
	}
	return w
}

func (w *exactWorld) start() *exactActor {
	w.next++
	a := &exactActor{id: w.next, tid: int32(1000 + w.next), since: w.now, began: w.now, blocked: sampler.BlockSleep, stack: w.stacks[0]}
	w.live = append(w.live, a)
	if w.hidden > 0 && w.rng.Float64() < w.hidden {
		a.hidden, a.knownNS = true, math.MaxInt64
	}
	w.put(a, sampler.GVLReleased)
	return a
}

// move changes the state of a thread: at once, or later if the thread has lost its CPU.
func (w *exactWorld) move(a *exactActor, to sampler.GVLState) {
	if w.stuck > 0 && w.rng.Float64() < w.stuck {
		w.ahead, w.aheadTo, w.aheadUntil = a, to, w.now+w.rng.Int64N(stuckNS)
		return
	}
	w.moved(a, to)
}

// moved changes the state of a thread now. It also updates the queue, and chooses the next holder.
func (w *exactWorld) moved(a *exactActor, to sampler.GVLState) {
	w.put(a, to)
	if to == sampler.GVLQueued {
		w.queue = append(w.queue, a)
	}
	if to != sampler.GVLHeld {
		w.choose()
	}
}

// put changes the state of a thread now, and records the change.
func (w *exactWorld) put(a *exactActor, to sampler.GVLState) {
	length := w.now - a.since
	c := sampler.Change{AtNS: w.now, Thread: a.id, TID: a.tid, State: to, NoCPUNS: w.rng.Int64N(length + 1)}
	waited := !a.hidden && (a.state == sampler.GVLQueued || a.state == sampler.GVLChosen)
	switch {
	case !a.hidden:
		a.ns[a.state] += length
	case to == sampler.GVLHeld:
		a.hidden, a.knownNS = false, w.now
	}
	if !a.hidden {
		w.changes = append(w.changes, c)
	}
	if waited {
		a.wait.NoCPUNS += c.NoCPUNS
	}
	if a == w.holder {
		w.holder, w.last = nil, a
	}
	if a == w.chosen {
		w.chosen = nil
	}
	waits := to == sampler.GVLQueued || to == sampler.GVLChosen
	if waited && !waits {
		a.wait.ToNS = w.now
		if a.chosen != 0 {
			a.wait.HandoverNS = w.now - a.chosen
		}
		if w.last != nil && w.last != a {
			a.wait.LastHolder = w.last.id
		}
		a.waits = append(a.waits, a.wait)
	}
	if waits && !waited {
		a.wait, a.chosen = gvl.Wait{Thread: a.id, FromNS: w.now, Exact: true}, 0
		if w.holder != nil {
			a.wait.FirstHolder = w.holder.id
		} else if w.chosen != nil && !w.chosen.hidden {
			a.wait.FirstHolder = w.chosen.id
		}
	}
	switch to {
	case sampler.GVLHeld:
		w.holder = a
	case sampler.GVLChosen:
		w.chosen, a.chosen = a, w.now
	case sampler.GVLReleased:
		a.blocked = []sampler.BlockKind{sampler.BlockSleep, sampler.BlockMutex, sampler.BlockQueue}[w.rng.IntN(3)]
	}
	a.state, a.since = to, w.now
	a.stack = w.stacks[w.rng.IntN(len(w.stacks))]
	w.tellLane()
}

// tellLane begins a new interval of the GVL, with the thread that holds it now and the number of waiting threads.
func (w *exactWorld) tellLane() {
	i := gvl.LockInterval{Ractor: 1, FromNS: w.now}
	if w.holder != nil {
		i.Thread = w.holder.id
	}
	for _, a := range w.live {
		if a.state == sampler.GVLQueued || a.state == sampler.GVLChosen {
			i.Waiters++
		}
	}
	if n := len(w.lane); n > 0 {
		last := &w.lane[n-1]
		last.ToNS = w.now
		if last.FromNS == last.ToNS {
			w.lane = w.lane[:n-1]
		}
	}
	w.lane = append(w.lane, i)
}

// choose makes the first thread in the queue the next holder, if no thread holds the GVL and none is chosen.
func (w *exactWorld) choose() {
	if w.holder != nil || w.chosen != nil || len(w.queue) == 0 {
		return
	}
	a := w.queue[0]
	w.queue = w.queue[1:]
	w.put(a, sampler.GVLChosen)
	if a.wait.FirstHolder == 0 && a.wait.FromNS == w.now {
		return
	}
	if a.hidden {
		return
	}
	for _, b := range w.live { // threads that began to wait at the moment of this same change
		if b != a && b.state == sampler.GVLQueued && b.since == w.now && b.wait.FirstHolder == 0 {
			b.wait.FirstHolder = a.id
		}
	}
}

// event makes one thing happen.
func (w *exactWorld) event() {
	if w.rng.Float64() < w.churn {
		if w.rng.IntN(2) == 0 || len(w.live) < 3 {
			w.start()
			return
		}
		i := w.rng.IntN(len(w.live))
		if a := w.live[i]; a.state == sampler.GVLReleased || a.state == sampler.GVLHeld {
			w.put(a, sampler.GVLGone)
			w.live = append(w.live[:i:i], w.live[i+1:]...)
			w.tellLane()
			w.keep(a)
			w.choose()
			return
		}
	}
	a := w.live[w.rng.IntN(len(w.live))]
	switch a.state {
	case sampler.GVLReleased:
		if w.holder == nil && w.chosen == nil && w.rng.IntN(2) == 0 {
			w.move(a, sampler.GVLHeld)
			return
		}
		w.move(a, sampler.GVLQueued)
	case sampler.GVLChosen:
		w.move(a, sampler.GVLHeld)
	case sampler.GVLHeld:
		if len(w.queue) > 0 && w.rng.IntN(2) == 0 {
			w.move(a, sampler.GVLQueued)
		} else {
			w.move(a, sampler.GVLReleased)
		}
	case sampler.GVLQueued:
		w.choose()
	}
}

// keep moves the truth about a thread to the data that the test compares. It does this when a sample has listed the
// thread, or when the thread has ended. The waits of a thread that was never listed are compared without the thread's
// ID.
func (w *exactWorld) keep(a *exactActor) {
	if !a.listed {
		for _, x := range a.waits {
			x.Thread, x.Slot = 0, -1
			w.waits = append(w.waits, x)
		}
		return
	}
	w.known[a.id] = a.knownNS
	sum := w.ns[a.id]
	if sum == nil {
		sum = new([5]int64)
		w.ns[a.id] = sum
	}
	for i, ns := range a.ns {
		sum[i] += ns
	}
	w.waits = append(w.waits, a.waits...)
	a.ns, a.waits = [5]int64{}, nil
}

// runTo makes things happen until a time.
func (w *exactWorld) runTo(at int64) {
	for {
		next := w.now + int64(w.rng.ExpFloat64()*w.meanNS)
		if a := w.ahead; a != nil {
			if w.aheadUntil > at {
				w.now = at
				return
			}
			w.now, w.ahead = w.aheadUntil, nil
			w.moved(a, w.aheadTo)
			continue
		}
		if next > at {
			w.now = at
			return
		}
		w.now = next
		w.event()
	}
}

// sample lets about aboutNS pass, and returns a sample at the end of this time. The states in the sample are up to
// skewNS old.
func (w *exactWorld) sample(aboutNS, skewNS int64) *sampler.Sample {
	at := w.asked + aboutNS/2 + w.rng.Int64N(aboutNS)
	w.runTo(max(at-w.rng.Int64N(skewNS+1), w.now))
	s := &sampler.Sample{
		Depth: sampler.StackTick, TimeNS: at, Ractors: []sampler.Ractor{{ID: 1}}, GC: sampler.GC{Valid: true, During: w.rng.IntN(5) == 0},
	}
	r := &s.Ractors[0]
	read := make(map[sampler.ThreadID]sampler.Thread)
	for _, a := range w.live {
		read[a.id] = w.evidence(a, r)
	}
	w.runTo(at)
	for _, a := range w.live {
		t, ok := read[a.id]
		if !ok {
			t = w.evidence(a, r)
		}
		s.Threads = append(s.Threads, t)
		a.listed = true
		if !a.hidden {
			a.ns[a.state] += w.now - a.since // the time in the present state, up to the sample
		}
		a.since = w.now
		w.keep(a)
	}
	s.Changes = sampler.Changes{FromNS: w.asked, ToNS: at, List: w.changes}
	w.changes, w.asked = nil, at
	for i := range s.Changes.List {
		if c := &s.Changes.List[i]; w.ns[c.Thread] == nil {
			c.Thread = 0
		}
	}
	return s
}

// evidence returns what a sample reads about a thread.
func (w *exactWorld) evidence(a *exactActor, r *sampler.Ractor) sampler.Thread {
	var t sampler.Thread
	state := a.state
	if a == w.ahead {
		state = w.aheadTo
	}
	switch state {
	case sampler.GVLHeld:
		t = gvltest.Holder(a.id)
		r.OwnerStart, r.OwnerEnd = a.id, a.id
	case sampler.GVLQueued:
		t = gvltest.Queued(a.id)
		r.Queue = append(r.Queue, a.id)
	case sampler.GVLChosen:
		t = gvltest.Released(a.id)
		t.Status = sampler.Runnable
		r.OwnerStart, r.OwnerEnd = a.id, a.id
	default:
		t = gvltest.Asleep(a.id, sampler.Stopped, a.blocked)
	}
	t.TID, t.Ractor, t.Stack, t.Quality = a.tid, 1, a.stack, sampler.StackFresh
	return t
}
