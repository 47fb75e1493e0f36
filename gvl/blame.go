package gvl

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// MaxBlameEntries bounds the holders (thread, stack, kind) kept apart over a whole run; the rest is summed.
	MaxBlameEntries = 1 << 16
	// MaxBlameWindowNS is the longest window that Top can look back, other than the whole run.
	MaxBlameWindowNS = 120e9
	blameBucketNS    = 1e9
	// maxBlameRecent bounds the holders kept apart in each second of the recent past.
	maxBlameRecent = 4096
	blameBuckets   = MaxBlameWindowNS/blameBucketNS + 1
)

// BlameEntry is waiting time charged to one holder of the GVL, thread·ns: 2 threads waiting 1 s make 2 s.
type BlameEntry struct {
	// Thread, Stack and Kind are the holder, its stack and how it held the GVL (Running, GC or Stalled). In entries by
	// frame, Thread is the one charged most, in those by thread and frame Kind too.
	Thread sampler.ThreadID
	Stack  sampler.StackID
	Kind   State
	// Frame is the innermost frame of Stack; 0 when no stack was known.
	Frame sampler.FrameID
	// NS is the waiting time charged, Share its part of the whole waiting time of the period (0 to 1).
	NS    int64
	Share float64
	// HeldNS is how long the entry held the GVL while somebody waited.
	HeldNS int64
}

// BlameBy says what Top groups by.
type BlameBy uint8

// The groupings of Top.
const (
	// BlameByStack: one entry for each thread, stack and kind.
	BlameByStack BlameBy = iota
	// BlameByThread: one entry for each holder; Stack is the one charged most.
	BlameByThread
	// BlameByFrame: one entry for each innermost frame; Stack is the one charged most.
	BlameByFrame
)

// BlameReport is the waiting of a period and who caused it: TotalNS = NobodyNS + OtherNS + the NS of all entries (of
// which Entries holds the largest).
type BlameReport struct {
	// TotalNS is the waiting time of all threads, thread·ns.
	TotalNS int64
	// NobodyNS is the part of it in which no thread held the GVL (hand-over, mostly), or the holder was stopped by a
	// signal or a debugger.
	NobodyNS int64
	// OtherNS is the part charged to holders beyond the limit on entries kept.
	OtherNS int64
	// Entries are ordered by NS, largest first.
	Entries []BlameEntry
}

type blameKey struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	kind   State
}

type blameSum struct{ ns, heldNS int64 }

// blameBucket sums one second, or the whole run. Keys with thread 0 mean that nobody held the GVL.
type blameBucket struct {
	second int64
	sums   map[blameKey]blameSum
	other  int64
}

func (b *blameBucket) add(k blameKey, ns, held int64, limit int) {
	s, ok := b.sums[k]
	if !ok && len(b.sums) >= limit {
		b.other += ns
		return
	}
	s.ns += ns
	s.heldNS += held
	b.sums[k] = s
}

// blameLane is one ractor's GVL: who holds it now and how many wait.
type blameLane struct {
	id      sampler.RactorID
	holder  blameKey
	waiters int64
	segNS   int64
	// next is filled while a sample is read.
	next  blameKey
	nextN int64
}

// maxIdleLanes is how many ractors are remembered in which nobody holds or waits.
const maxIdleLanes = 64

// Blame charges the time that threads wait for the GVL to the code that holds it. The charges and what was waited
// while nobody held it equal the waiting time of all threads. It is not safe for concurrent use.
type Blame struct {
	dict   *sampler.Dictionary
	steps  stepper
	lanes  []blameLane
	run    blameBucket
	recent []blameBucket
	second int64
	lastNS int64
}

// NewBlame returns a Blame for the target p, whose samples' IDs point into dict.
func NewBlame(p sampler.Process, dict *sampler.Dictionary) *Blame {
	b := &Blame{dict: dict, steps: newStepper(p), recent: make([]blameBucket, blameBuckets)}
	b.run.sums = make(map[blameKey]blameSum)
	for i := range b.recent {
		b.recent[i] = blameBucket{second: -1, sums: make(map[blameKey]blameSum)}
	}
	return b
}

// Feed adds one sample with its states (parallel to s.Threads). Samples must come in order of time.
func (b *Blame) Feed(s *sampler.Sample, states []ThreadState) {
	st := b.steps.next(s)
	if st.first {
		b.second = st.toNS / blameBucketNS
		b.bucket()
	}
	for i := range b.lanes {
		b.lanes[i].next, b.lanes[i].nextN = blameKey{}, 0
	}
	li := 0
	for i := range states {
		ts := &states[i]
		if ts.State != Waiting && !ts.State.Held() {
			continue
		}
		li = b.lane(ts.Ractor, li)
		l := &b.lanes[li]
		if ts.State == Waiting {
			l.nextN++
			continue
		}
		if ts.stopped() {
			continue // no code of the process is to blame
		}
		l.next = blameKey{ts.Thread, ts.Stack, ts.State}
		if s.Threads[i].Quality&sampler.StackFailed != 0 {
			l.next.stack = 0
		}
	}
	from := st.midNS
	if st.gap {
		// Nothing is known of the time since the last sample.
		from = st.toNS
		for i := range b.lanes {
			b.flush(&b.lanes[i], st.fromNS)
			b.lanes[i].segNS = from
		}
	}
	b.advance(from)
	for i := range b.lanes {
		l := &b.lanes[i]
		if l.next == l.holder && l.nextN == l.waiters {
			continue
		}
		b.flush(l, from)
		l.holder, l.waiters = l.next, l.nextN
	}
	if len(b.lanes) > maxIdleLanes {
		b.lanes = slices.DeleteFunc(b.lanes, func(l blameLane) bool { return l.holder.thread == 0 && l.waiters == 0 })
	}
	b.advance(st.toNS)
	b.lastNS = st.toNS
}

func (b *Blame) lane(id sampler.RactorID, hint int) int {
	if hint < len(b.lanes) && b.lanes[hint].id == id {
		return hint
	}
	for i := range b.lanes {
		if b.lanes[i].id == id {
			return i
		}
	}
	b.lanes = append(b.lanes, blameLane{id: id})
	return len(b.lanes) - 1
}

// flush charges a lane's stretch up to at.
func (b *Blame) flush(l *blameLane, at int64) {
	d := at - l.segNS
	l.segNS = max(at, l.segNS)
	if d <= 0 || l.waiters == 0 {
		return
	}
	held := d
	if l.holder.thread == 0 {
		held = 0
	}
	b.run.add(l.holder, d*l.waiters, held, MaxBlameEntries)
	b.bucket().add(l.holder, d*l.waiters, held, maxBlameRecent)
}

// bucket returns the bucket of the current second.
func (b *Blame) bucket() *blameBucket {
	k := &b.recent[b.second%int64(len(b.recent))]
	if k.second != b.second {
		clear(k.sums)
		k.second, k.other = b.second, 0
	}
	return k
}

// advance moves to the second of at, charging what goes on to the seconds it spans.
func (b *Blame) advance(at int64) {
	for end := (b.second + 1) * blameBucketNS; end <= at; end += blameBucketNS {
		for i := range b.lanes {
			b.flush(&b.lanes[i], end)
		}
		b.second++
		if behind := at/blameBucketNS - b.second; behind > int64(len(b.recent)) {
			b.second += behind - int64(len(b.recent))
			end = b.second * blameBucketNS
		}
		b.bucket()
	}
}

// Top returns the n largest entries of the last windowNS (whole seconds, the current one included; at most
// MaxBlameWindowNS), or of the whole run with 0.
func (b *Blame) Top(n int, by BlameBy, windowNS int64) BlameReport {
	for i := range b.lanes {
		b.flush(&b.lanes[i], b.lastNS)
	}
	var rep BlameReport
	groups := make(map[blameKey]*blameGroup)
	if windowNS <= 0 {
		b.collect(&rep, groups, &b.run, by)
	} else {
		first := b.second - (min(windowNS, MaxBlameWindowNS)+blameBucketNS-1)/blameBucketNS + 1
		for i := range b.recent {
			if k := &b.recent[i]; k.second >= first && k.second <= b.second {
				b.collect(&rep, groups, k, by)
			}
		}
	}
	rep.Entries = make([]BlameEntry, 0, len(groups))
	for _, g := range groups {
		e := g.entry
		_, e.Frame = b.stack(e.Stack)
		e.Share = ratio(e.NS, rep.TotalNS)
		rep.Entries = append(rep.Entries, e)
	}
	slices.SortFunc(rep.Entries, func(x, y BlameEntry) int {
		return cmp.Or(cmp.Compare(y.NS, x.NS), cmp.Compare(x.Thread, y.Thread), cmp.Compare(x.Stack, y.Stack),
			cmp.Compare(x.Kind, y.Kind))
	})
	if len(rep.Entries) > n {
		rep.Entries = rep.Entries[:n]
	}
	return rep
}

type blameGroup struct {
	entry BlameEntry
	most  int64
}

func (b *Blame) stack(id sampler.StackID) (sampler.StackID, sampler.FrameID) {
	if b.dict == nil {
		return 0, 0
	}
	return b.dict.Stack(id)
}

// collect adds a bucket's sums to the groups.
func (b *Blame) collect(rep *BlameReport, groups map[blameKey]*blameGroup, k *blameBucket, by BlameBy) {
	rep.OtherNS += k.other
	rep.TotalNS += k.other
	for key, s := range k.sums {
		rep.TotalNS += s.ns
		if key.thread == 0 {
			rep.NobodyNS += s.ns
			continue
		}
		at := key
		switch by {
		case BlameByThread:
			at = blameKey{thread: key.thread}
		case BlameByFrame:
			_, frame := b.stack(key.stack)
			at = blameKey{stack: sampler.StackID(frame)}
		}
		g := groups[at]
		if g == nil {
			g = new(blameGroup)
			groups[at] = g
		}
		g.entry.NS += s.ns
		g.entry.HeldNS += s.heldNS
		if s.ns > g.most || s.ns == g.most && key.stack < g.entry.Stack {
			g.most = s.ns
			g.entry.Thread, g.entry.Stack, g.entry.Kind = key.thread, key.stack, key.kind
		}
	}
}
