package page

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// incidentSliceNS is the length of a slice of time at the start, in ns. If the page has too many weights, adjacent
	// slices are merged, until at most twice minIncidentSlices slices are left. If there are still too many weights,
	// the stacks with the least weight lose inner frames.
	incidentSliceNS   = int64(100e6)
	minIncidentSlices = 60
	maxIncidentSlices = 1024
	// maxIncidentWeights limits how many weights a page has, in all slices together. A weight is the time of one stack
	// of a thread in one state.
	maxIncidentWeights = 90_000
)

// cutStack marks a stack that has lost its inner frames. The mark is stored in the field GC of the stack's
// flamegraph.Key, because the page does not use this field otherwise.
const cutStack = 1

// incidentWeight is the weight of one flamegraph.Key in one slice of time, in ns.
type incidentWeight struct{ wallNS, cpuNS, blameNS int64 }

func (w incidentWeight) plus(o incidentWeight) incidentWeight {
	return incidentWeight{w.wallNS + o.wallNS, w.cpuNS + o.cpuNS, w.blameNS + o.blameNS}
}

// most returns the number by which weights are ranked to keep the largest ones: the time or the blame, whichever is
// larger.
func (w incidentWeight) most() int64 { return max(w.wallNS, w.blameNS) }

// incidentWeights keeps the weights of stacks by key, in slices of time. All slices have the same length, which doubles
// when there are too many weights. An incidentWeights is a flamegraph.Sink.
type incidentWeights struct {
	startNS, sliceNS int64
	slices           []map[flamegraph.Key]incidentWeight
	entries          int
	dict             *sampler.Dictionary
	// allNS is the sum of all wall time.
	allNS int64
	// limit is the largest permitted number of entries in all slices together.
	limit int
	// ran has, for each C stack of a running thread, how often the stack was sampled. Its keys have Key.Ran set.
	ran map[flamegraph.Key]int64
}

func (x *incidentWeights) init(d *sampler.Dictionary) {
	x.dict, x.sliceNS, x.limit = d, incidentSliceNS, maxIncidentWeights
	x.ran = make(map[flamegraph.Key]int64)
}

// begin sets the start of the first slice to the time of the first sample. Later calls have no effect.
func (x *incidentWeights) begin(atNS int64) {
	if x.startNS == 0 {
		x.startNS = atNS
	}
}

// Add adds the weights w, which were measured over a period that ended at atNS. They go into the slice of time that
// contains this end.
func (x *incidentWeights) Add(atNS int64, k flamegraph.Key, w flamegraph.Weights) {
	if k.Ran {
		if _, known := x.ran[k]; known || len(x.ran) < maxIncidentWeights {
			x.ran[k] += w.Samples
		}
		return
	}
	add := incidentWeight{w.WallNS, w.CPUNS, w.BlameNS}
	if add == (incidentWeight{}) {
		return
	}
	if x.startNS == 0 {
		x.startNS = atNS - w.WallNS
	}
	k.GC = 0
	x.allNS += add.wallNS
	at := max(atNS-1-x.startNS, 0)
	for at/x.sliceNS >= maxIncidentSlices {
		x.double()
	}
	n := int(at / x.sliceNS)
	for n >= len(x.slices) {
		x.slices = append(x.slices, nil)
	}
	s := x.slices[n]
	if s == nil {
		s = make(map[flamegraph.Key]incidentWeight)
		x.slices[n] = s
	}
	was, ok := s[k]
	s[k] = was.plus(add)
	if ok {
		return
	}
	if x.entries++; x.entries > x.limit {
		x.shrink(x.limit)
	}
}

// divide divides the time of running threads among the C functions in which they ran. A function's share is in
// proportion to how often it was sampled.
func (x *incidentWeights) divide() {
	var list []flamegraph.Entry
	for k, n := range x.ran {
		list = append(list, flamegraph.Entry{Key: k, Weights: flamegraph.Weights{Samples: n}})
	}
	ran := flamegraph.NewRan(x.dict, list)
	if ran == nil {
		return
	}
	x.entries = 0
	for i, s := range x.slices {
		parts := make(map[flamegraph.Key]incidentWeight, len(s))
		for k, w := range s {
			whole := flamegraph.Entry{Key: k, Weights: flamegraph.Weights{WallNS: w.wallNS, CPUNS: w.cpuNS, BlameNS: w.blameNS}}
			ran.Divide(whole, func(e flamegraph.Entry) {
				part := incidentWeight{e.Weights.WallNS, e.Weights.CPUNS, e.Weights.BlameNS}
				parts[e.Key] = parts[e.Key].plus(part)
			})
		}
		x.slices[i] = parts
		x.entries += len(parts)
	}
}

// byThread returns the time of each thread by state.
func (x *incidentWeights) byThread() map[sampler.ThreadID]*[gvl.NumStates]int64 {
	out := make(map[sampler.ThreadID]*[gvl.NumStates]int64)
	for _, s := range x.slices {
		for k, w := range s {
			sum := out[k.Thread]
			if sum == nil {
				sum = new([gvl.NumStates]int64)
				out[k.Thread] = sum
			}
			sum[k.State] += w.wallNS
		}
	}
	return out
}

// shrink reduces the number of entries to at most limit. First it merges slices of time. If this is not enough, it
// shortens the stacks with the least weight.
func (x *incidentWeights) shrink(limit int) {
	for x.entries > limit && len(x.slices) > 2*minIncidentSlices {
		x.double()
	}
	if x.entries > limit {
		x.shed(limit * 3 / 4)
	}
}

// double doubles the length of all slices: it merges each pair of slices into one.
func (x *incidentWeights) double() {
	x.sliceNS *= 2
	n := (len(x.slices) + 1) / 2
	x.entries = 0
	for i := range n {
		s := x.slices[2*i]
		if 2*i+1 < len(x.slices) {
			s = joinWeights(s, x.slices[2*i+1])
		}
		x.slices[i] = s
		x.entries += len(s)
	}
	clear(x.slices[n:])
	x.slices = x.slices[:n]
}

func joinWeights(a, b map[flamegraph.Key]incidentWeight) map[flamegraph.Key]incidentWeight {
	if len(a) < len(b) {
		a, b = b, a
	}
	for k, w := range b {
		a[k] = a[k].plus(w)
	}
	return a
}

// maxShed limits how often shed halves the stacks. After 24 times, even the deepest stack has no frame left.
const maxShed = 24

// shed reduces the number of entries. It removes the inner half of the stacks with the least weight, and merges entries
// that have become equal. It repeats this until about n entries are left. An entry with a shortened stack keeps its
// time, thread, state and route.
func (x *incidentWeights) shed(n int) {
	for range maxShed {
		if x.entries <= n {
			return
		}
		var all []int64
		for _, s := range x.slices {
			for k, w := range s {
				if k.Stack != 0 {
					all = append(all, w.most())
				}
			}
		}
		if len(all) == 0 {
			break
		}
		slices.Sort(all)
		// Only about half of the entries whose stacks are shortened become equal to another entry and disappear. So
		// shed shortens two stacks for each entry that it must remove.
		least := all[min(2*(x.entries-n), len(all)-1)]
		halves := make(map[sampler.StackID]sampler.StackID)
		x.each(func(k *flamegraph.Key, w incidentWeight) {
			if k.Stack != 0 && w.most() <= least {
				k.Stack, k.GC = x.outerHalf(k.Stack, halves), cutStack
			}
		})
	}
	if x.entries > x.limit { // cutting stacks was not enough: drop the routes, then raise the limit
		x.each(func(k *flamegraph.Key, _ incidentWeight) { k.Endpoint = 0 })
		x.limit = max(x.limit, x.entries+x.entries/8)
	}
}

// each calls the function change for every entry. The function may change the entry's key. Afterwards each merges the
// entries whose keys have become equal.
func (x *incidentWeights) each(change func(*flamegraph.Key, incidentWeight)) {
	x.entries = 0
	for i, s := range x.slices {
		kept := make(map[flamegraph.Key]incidentWeight, len(s))
		for k, w := range s {
			change(&k, w)
			kept[k] = kept[k].plus(w)
		}
		x.slices[i] = kept
		x.entries += len(kept)
	}
}

// outerHalf returns a stack without the inner half of its frames, or 0 if no frame is left. known caches earlier
// results.
func (x *incidentWeights) outerHalf(id sampler.StackID, known map[sampler.StackID]sampler.StackID) sampler.StackID {
	if out, ok := known[id]; ok {
		return out
	}
	out := id
	for range (x.dict.Depth(id) + 1) / 2 {
		out, _ = x.dict.Stack(out)
	}
	known[id] = out
	return out
}

// keptStack is a stack on the page. If cut is true, the page keeps only the outer part of the stack.
type keptStack struct {
	id  sampler.StackID
	cut bool
}

func keptStackOf(k *flamegraph.Key) keptStack { return keptStack{k.Stack, k.GC == cutStack} }

// heaviest returns all stacks, the stack with the most time first. cutNS is the wall time of the stacks that have lost
// inner frames.
func (x *incidentWeights) heaviest() (list []keptStack, ns map[keptStack]int64, cutNS int64) {
	sums := make(map[keptStack]int64)
	for _, s := range x.slices {
		for k, w := range s {
			at := keptStackOf(&k)
			if at != (keptStack{}) {
				sums[at] += w.most()
			}
			if at.cut {
				cutNS += w.wallNS
			}
		}
	}
	list = sorting.Sorted(maps.Keys(sums), func(a, b keptStack) int {
		order := cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a.id, b.id))
		if order == 0 && a.cut != b.cut {
			order = 1
			if b.cut {
				order = -1
			}
		}
		return order
	})
	return list, sums, cutNS
}
