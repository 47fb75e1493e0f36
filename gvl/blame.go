package gvl

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxBlameEntries bounds the holders (thread, stack, kind) kept apart over a whole run; the rest is summed.
	maxBlameEntries = 1 << 16
	// MaxBlameWindowNS is the longest window that Top can look back, other than the whole run.
	MaxBlameWindowNS = 120e9
	blameBucketNS    = 1e9
	// maxBlameRecent bounds the holders kept apart in each second of the recent past.
	maxBlameRecent = 4096
	blameBuckets   = MaxBlameWindowNS/blameBucketNS + 1
)

// blameEntry is waiting time charged to one holder of the GVL, thread·ns: 2 threads waiting 1 s make 2 s.
type blameEntry struct {
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

// blameBy says what Top groups by.
type blameBy uint8

// The groupings of Top.
const (
	// blameByStack: one entry for each thread, stack and kind.
	blameByStack blameBy = iota
	// blameByThread: one entry for each holder; Stack is the one charged most.
	blameByThread
	// blameByFrame: one entry for each innermost frame; Stack is the one charged most.
	blameByFrame
)

// blameReport is the waiting of a period and who caused it: TotalNS = NobodyNS + OtherNS + the NS of all entries (of
// which Entries holds the largest).
type blameReport struct {
	// TotalNS is the waiting time of all threads, thread·ns.
	TotalNS int64
	// NobodyNS is the part of it in which no thread held the GVL (hand-over, mostly), or the holder was stopped by a
	// signal or a debugger.
	NobodyNS int64
	// OtherNS is the part charged to holders beyond the limit on entries kept.
	OtherNS int64
	// Entries are ordered by NS, largest first.
	Entries []blameEntry
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

// Blame charges the time that threads wait for the GVL to the code that holds it. The charges and what was waited
// while nobody held it equal the waiting time of all threads. It is a Consumer and not safe for concurrent use.
type Blame struct {
	Ignore
	dict   *sampler.Dictionary
	stream *Stream
	run    blameBucket
	recent []blameBucket
	second int64 // the newest
}

// newBlame returns a Blame of a stream, whose IDs point into dict.
func newBlame(s *Stream, dict *sampler.Dictionary) *Blame {
	b := &Blame{dict: dict, stream: s, recent: make([]blameBucket, blameBuckets)}
	b.run.sums = make(map[blameKey]blameSum)
	for i := range b.recent {
		b.recent[i] = blameBucket{second: -1, sums: make(map[blameKey]blameSum)}
	}
	s.Attach(b)
	return b
}

// Lock charges a stretch of time of a ractor's GVL.
func (b *Blame) Lock(i *LockInterval) {
	if i.Waiters == 0 {
		return
	}
	k, held := blameKey{}, int64(0)
	if i.Blamed() {
		k, held = blameKey{i.Thread, i.Stack, i.State}, i.NS()
	}
	b.run.add(k, i.WaitNS(), held, maxBlameEntries)
	for from := i.FromNS; from < i.ToNS; {
		second := from / blameBucketNS
		if behind := i.ToNS/blameBucketNS - second; behind > int64(len(b.recent)) {
			second += behind - int64(len(b.recent))
			from = second * blameBucketNS
		}
		part := min(i.ToNS, (second+1)*blameBucketNS) - from
		b.bucket(second).add(k, part*i.Waiters, min(held, part), maxBlameRecent)
		from += part
	}
}

// Tick moves on to the second of a sample.
func (b *Blame) Tick(k *Tick) { b.second = k.ToNS / blameBucketNS }

// bucket returns the bucket of a second.
func (b *Blame) bucket(second int64) *blameBucket {
	k := &b.recent[second%int64(len(b.recent))]
	if k.second != second {
		clear(k.sums)
		k.second, k.other = second, 0
	}
	return k
}

// top returns the n largest entries of the last windowNS (whole seconds, the current one included; at most
// MaxBlameWindowNS), or of the whole run with 0.
func (b *Blame) top(n int, by blameBy, windowNS int64) blameReport {
	b.stream.SettleLocks()
	var rep blameReport
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
	rep.Entries = make([]blameEntry, 0, len(groups))
	for _, g := range groups {
		e := g.entry
		_, e.Frame = b.stack(e.Stack)
		e.Share = ratio(e.NS, rep.TotalNS)
		rep.Entries = append(rep.Entries, e)
	}
	slices.SortFunc(rep.Entries, func(x, y blameEntry) int {
		return cmp.Or(cmp.Compare(y.NS, x.NS), cmp.Compare(x.Thread, y.Thread), cmp.Compare(x.Stack, y.Stack),
			cmp.Compare(x.Kind, y.Kind))
	})
	if len(rep.Entries) > n {
		rep.Entries = rep.Entries[:n]
	}
	return rep
}

type blameGroup struct {
	entry blameEntry
	most  int64
}

func (b *Blame) stack(id sampler.StackID) (sampler.StackID, sampler.FrameID) {
	if b.dict == nil {
		return 0, 0
	}
	return b.dict.Stack(id)
}

// collect adds a bucket's sums to the groups.
func (b *Blame) collect(rep *blameReport, groups map[blameKey]*blameGroup, k *blameBucket, by blameBy) {
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
		case blameByThread:
			at = blameKey{thread: key.thread}
		case blameByFrame:
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
