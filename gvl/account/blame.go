package account

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxBlameEntries limits how many holders (thread, stack, kind) are counted separately over the whole run. Waits
	// that further holders cause are added up in OtherNS.
	maxBlameEntries = 1 << 16
	// MaxBlameWindowNS is the longest window of recent time for Top. Top can also cover the whole run.
	MaxBlameWindowNS = 120e9
	blameBucketNS    = 1e9
	// maxBlameRecent limits how many holders are counted separately in each second of the recent past.
	maxBlameRecent = 4096
	blameBuckets   = MaxBlameWindowNS/blameBucketNS + 1
)

// BlameEntry is waiting time charged to one holder of the GVL, in ns. It is added up over the waiting threads: if 2
// threads wait for 1 s, it is 2 s.
type BlameEntry struct {
	// Thread, Stack and Kind are the holder, its stack, and how it held the GVL (Running, GC or Stalled). If an entry
	// is the sum of several such combinations, these are the fields of the combination that caused the most waiting.
	Thread sampler.ThreadID
	Stack  sampler.StackID
	Kind   gvl.State
	// Frame is the innermost frame of Stack.
	Frame sampler.FrameID
	// Share is NS divided by the whole waiting time of the period (0 to 1).
	NS    int64
	Share float64
	// HeldNS is how long the holder of this entry held the GVL while another thread waited for it.
	HeldNS int64
}

// BlameBy is the way in which Top groups the waiting time.
type BlameBy uint8

// These are the ways in which Top can group the waiting time.
const (
	// ByStack makes one entry for each thread, stack and kind.
	ByStack BlameBy = iota
	// ByThread makes one entry for each holder.
	ByThread
	// ByFrame makes one entry for each innermost frame of the holders' stacks.
	ByFrame
)

// BlameReport says for how long threads waited for the GVL in a period, and because of which holders. Times are in ns,
// added up over the waiting threads. TotalNS is the sum of NobodyNS, OtherNS and the NS of all holders. Entries has
// only the holders with the most time.
type BlameReport struct {
	TotalNS int64
	// NobodyNS is the waiting time in which no thread held the GVL, mostly while the GVL passed from one thread to the
	// next. It includes the time in which the holder was stopped from outside.
	NobodyNS int64
	// OtherNS is the waiting time charged to holders beyond the limit maxBlameEntries, and to threads that no sample
	// listed.
	OtherNS int64
	Entries []BlameEntry
}

type blameKey struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	kind   gvl.State
}

// unlistedHolder is the key for all threads that no sample listed.
var unlistedHolder = blameKey{kind: gvl.NumStates}

type blameSum struct {
	ns, heldNS int64
	frame      sampler.FrameID // the innermost frame of the stack
}

// blameBucket has the sums of one second, or of the whole run. In a key, the thread 0 stands for time in which no
// thread held the GVL.
type blameBucket struct {
	second int64
	sums   map[blameKey]blameSum
	other  int64
}

func (b *blameBucket) add(k blameKey, ns, held int64, limit int, dict *sampler.Dictionary) {
	if k == unlistedHolder {
		b.other += ns
		return
	}
	s, ok := b.sums[k]
	if !ok {
		if len(b.sums) >= limit {
			b.other += ns
			return
		}
		if dict != nil {
			_, s.frame = dict.Stack(k.stack)
		}
	}
	s.ns += ns
	s.heldNS += held
	b.sums[k] = s
}

// Blame charges waiting time to code: if threads wait for the GVL, their time is charged to the code that holds the
// GVL. It is a gvl.Consumer. It is not safe for concurrent use.
type Blame struct {
	gvl.Ignore
	dict   *sampler.Dictionary
	stream *stream.Stream
	run    blameBucket
	recent []blameBucket
	second int64 // the newest second
	// window keeps the sum of recent seconds, because the findings read the same sum several times. charges counts the
	// calls that have charged a holder. When charges changes, the sum in window becomes invalid.
	charges uint64
	window  blameWindow
	groups  map[blameKey]blameGroup // the groups of the report that Top is making
}

// blameWindow is the sum of the seconds from first to last. charges is Blame.charges at the time when the sum was
// computed.
type blameWindow struct {
	first, last int64
	charges     uint64
	sum         blameBucket
}

// NewBlame returns a Blame that reads the stream s. The IDs in the stream point into dict.
func NewBlame(s *stream.Stream, dict *sampler.Dictionary) *Blame {
	b := &Blame{dict: dict, stream: s, recent: make([]blameBucket, blameBuckets), groups: make(map[blameKey]blameGroup)}
	b.run.sums = make(map[blameKey]blameSum)
	for i := range b.recent {
		b.recent[i] = blameBucket{second: -1, sums: make(map[blameKey]blameSum)}
	}
	s.Attach(b)
	return b
}

// Lock is called for each period of a ractor's GVL. It charges the waits in this period to the thread that held the
// GVL.
func (b *Blame) Lock(i *gvl.LockInterval) {
	if i.Waiters == 0 {
		return
	}
	b.charges++
	k, held := blameKey{}, int64(0)
	switch {
	case i.Unlisted.Holds:
		k = unlistedHolder
	case i.Blamed():
		k, held = blameKey{i.Thread, i.Stack, i.State}, i.NS()
	}
	b.run.add(k, i.WaitNS(), held, maxBlameEntries, b.dict)
	for from := i.FromNS; from < i.ToNS; {
		second := from / blameBucketNS
		if behind := i.ToNS/blameBucketNS - second; behind > int64(len(b.recent)) {
			second += behind - int64(len(b.recent))
			from = second * blameBucketNS
		}
		part := min(i.ToNS, (second+1)*blameBucketNS) - from
		b.bucket(second).add(k, part*i.Waiters, min(held, part), maxBlameRecent, b.dict)
		from += part
	}
}

func (b *Blame) Tick(k *gvl.Tick) { b.second = k.ToNS / blameBucketNS }

func (b *Blame) bucket(second int64) *blameBucket {
	k := &b.recent[second%int64(len(b.recent))]
	if k.second != second {
		clear(k.sums)
		k.second, k.other = second, 0
	}
	return k
}

// Top returns the n largest entries of the last windowNS. The window consists of whole seconds, and of the current
// second so far. If windowNS is 0, the window is the whole run.
func (b *Blame) Top(n int, by BlameBy, windowNS int64) BlameReport {
	var rep BlameReport
	clear(b.groups)
	b.collect(&rep, b.sumsOf(windowNS), by)
	for _, g := range b.groups {
		if len(b.groups) <= n {
			rep.Entries = append(rep.Entries, g.entry)
			continue
		}
		// Keep only the n largest entries, because there can be thousands.
		if at, _ := slices.BinarySearchFunc(rep.Entries, g.entry, compareCharges); at < n {
			rep.Entries = slices.Insert(rep.Entries, at, g.entry)
			rep.Entries = rep.Entries[:min(len(rep.Entries), n)]
		}
	}
	sorting.By(rep.Entries, compareCharges)
	for i := range rep.Entries {
		e := &rep.Entries[i]
		e.Share = gvl.Ratio(e.NS, rep.TotalNS)
	}
	return rep
}

func compareCharges(x, y BlameEntry) int {
	return cmp.Or(cmp.Compare(y.NS, x.NS), cmp.Compare(x.Thread, y.Thread), cmp.Compare(x.Stack, y.Stack), cmp.Compare(x.Kind, y.Kind))
}

// sumsOf returns the sum of a window. windowNS means the same as for Top. The result is valid until sumsOf is called
// again or a holder is charged.
func (b *Blame) sumsOf(windowNS int64) *blameBucket {
	b.stream.SettleLocks()
	if windowNS <= 0 {
		return &b.run
	}
	first := b.second - (min(windowNS, MaxBlameWindowNS)+blameBucketNS-1)/blameBucketNS + 1
	w := &b.window
	if w.sum.sums != nil && w.first == first && w.last == b.second && w.charges == b.charges {
		return &w.sum
	}
	if w.sum.sums == nil || len(w.sum.sums) > 4*maxBlameRecent {
		w.sum.sums = make(map[blameKey]blameSum) // do not keep the memory of a long window
	}
	clear(w.sum.sums)
	w.first, w.last, w.charges, w.sum.other = first, b.second, b.charges, 0
	for i := range b.recent {
		k := &b.recent[i]
		if k.second < first || k.second > b.second {
			continue
		}
		w.sum.other += k.other
		for key, s := range k.sums {
			sum := w.sum.sums[key]
			w.sum.sums[key] = blameSum{sum.ns + s.ns, sum.heldNS + s.heldNS, s.frame}
		}
	}
	return &w.sum
}

type blameGroup struct {
	entry BlameEntry
	most  int64
}

func (b *Blame) collect(rep *BlameReport, k *blameBucket, by BlameBy) {
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
		case ByThread:
			at = blameKey{thread: key.thread}
		case ByFrame:
			at = blameKey{stack: sampler.StackID(s.frame)}
		}
		g := b.groups[at]
		g.entry.NS += s.ns
		g.entry.HeldNS += s.heldNS
		if s.ns > g.most || s.ns == g.most && key.stack < g.entry.Stack {
			g.most = s.ns
			g.entry.Thread, g.entry.Stack, g.entry.Kind, g.entry.Frame = key.thread, key.stack, key.kind, s.frame
		}
		b.groups[at] = g
	}
}
