package ui

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// merger brings the stacks of several processes into one Dictionary. Each process has numbers of its own for threads, frames
// and stacks; what was translated once is looked up.
type merger struct {
	dict *sampler.Dictionary
	of   map[*member]*translation
	// owner tells whose a thread of the merged weights is; its number is the index. The first is unused.
	owner []*member
	whole flamegraph.Snapshot
	part  flamegraph.Snapshot
}

// translation is from one process's numbers to the merged ones.
type translation struct {
	stacks  map[sampler.StackID]sampler.StackID
	frames  map[sampler.FrameID]sampler.FrameID
	threads map[sampler.ThreadID]sampler.ThreadID
	chain   []sampler.StackID
}

func newMerger() *merger {
	return &merger{dict: sampler.NewDictionary(), of: make(map[*member]*translation), owner: make([]*member, 1)}
}

// maxMergedThreads and maxMergedFrames bound what the merged weights distinguish; past them they are begun again.
const (
	maxMergedThreads = 1 << 16
	maxMergedFrames  = 1 << 16
)

// full reports whether a limit is reached: threads were born and died, or methods were redefined, for long.
func (g *merger) full() bool {
	frames, stacks, _, _, _ := g.dict.Sizes()
	return len(g.owner) > maxMergedThreads || frames > maxMergedFrames || stacks > 4*maxMergedFrames
}

// begin forgets the weights, and the processes that are gone.
func (g *merger) begin(list []*member) {
	g.whole.Entries = g.whole.Entries[:0]
	g.whole.FromNS, g.whole.ToNS, g.whole.Overflow, g.whole.Dropped = 0, 0, 0, flamegraph.Weights{}
	for m := range g.of {
		if !slices.Contains(list, m) {
			delete(g.of, m)
		}
	}
}

// add takes the weights of a process over a stretch of time.
func (g *merger) add(m *member, r *store.Reading, fromNS, toNS int64) {
	r.Rolling.SnapshotRange(fromNS, toNS, &g.part)
	t := g.of[m]
	if t == nil {
		t = &translation{stacks: make(map[sampler.StackID]sampler.StackID), frames: make(map[sampler.FrameID]sampler.FrameID),
			threads: make(map[sampler.ThreadID]sampler.ThreadID)}
		g.of[m] = t
	}
	from := m.store.Dict
	for _, e := range g.part.Entries {
		id, ok := t.threads[e.Key.Thread]
		if !ok {
			id = sampler.ThreadID(len(g.owner))
			g.owner = append(g.owner, m)
			t.threads[e.Key.Thread] = id
		}
		e.Key.Thread, e.Key.Stack, e.Key.Endpoint = id, t.stack(g.dict, from, e.Key.Stack), 0
		g.whole.Entries = append(g.whole.Entries, e)
	}
	if g.whole.ToNS == 0 {
		g.whole.FromNS = g.part.FromNS
	}
	g.whole.FromNS, g.whole.ToNS = min(g.whole.FromNS, g.part.FromNS), max(g.whole.ToNS, g.part.ToNS)
	g.whole.Overflow += g.part.Overflow
	g.whole.Dropped = g.whole.Dropped.Plus(g.part.Dropped)
}

// stack translates a stack, callers first: each is looked up once.
func (t *translation) stack(to, from *sampler.Dictionary, id sampler.StackID) sampler.StackID {
	t.chain = t.chain[:0]
	at := id
	for at != 0 && t.stacks[at] == 0 { // ends: a caller was interned before its callee
		t.chain = append(t.chain, at)
		at, _ = from.Stack(at)
	}
	var out sampler.StackID
	if at != 0 {
		out = t.stacks[at]
	}
	for i := len(t.chain) - 1; i >= 0; i-- {
		_, frame := from.Stack(t.chain[i])
		out = to.InternStack(out, t.frame(to, from, frame))
		t.stacks[t.chain[i]] = out
	}
	return out
}

func (t *translation) frame(to, from *sampler.Dictionary, id sampler.FrameID) sampler.FrameID {
	f, ok := t.frames[id]
	if !ok {
		f = to.InternFrame(from.Frame(id))
		t.frames[id] = f
	}
	return f
}

// mergedRow is a function over all processes shown.
type mergedRow struct {
	topKey
	from                        style.Provenance
	self, total                 int64
	processes, stampOf, stampIn int // the number of processes it ran in; marks of the last process and stack counted
}

// functions sums the merged weights by function, heaviest first.
// own: what is not the program's own counts for what called it, as in view 5.
func (g *merger) functions(metric flamegraph.Metric, idle, own bool) (rows []mergedRow, sum int64) {
	skip := flamegraph.StateSet(0)
	if metric == flamegraph.Wall && !idle {
		skip = restStates
	}
	index := make(map[topKey]int32)
	row := func(k topKey, from style.Provenance) int32 {
		at, ok := index[k]
		if !ok {
			at = int32(len(rows))
			index[k] = at
			rows = append(rows, mergedRow{topKey: k, from: from})
		}
		return at
	}
	var frames []sampler.FrameID
	var places []rowOfFrame
	var kept []int32
	ofFrame := make(map[sampler.FrameID]rowOfFrame)
	for n := range g.whole.Entries { // the processes one after the other
		e := &g.whole.Entries[n]
		w := e.Weights.Of(metric)
		if w <= 0 || skip.Has(e.Key.State) && skip != 0 {
			continue
		}
		sum += w
		whose := 0
		if m := g.owner[e.Key.Thread]; m != nil {
			whose = m.number
		}
		frames = g.dict.Frames(e.Key.Stack, frames[:0])
		places = places[:0]
		for _, id := range frames {
			at, ok := ofFrame[id]
			if !ok {
				f := g.dict.Frame(id)
				k := topKey{f.Label, cmp.Or(f.AbsolutePath, f.Path), f.FirstLine}
				if f.C {
					k = topKey{label: f.Label}
				}
				from := style.ProvenanceOf(f)
				at = rowOfFrame{row: row(k, from), own: f.Own(), core: from == style.FromCore, library: f.Library()}
				ofFrame[id] = at
			}
			places = append(places, at)
		}
		kept = kept[:0]
		if library := ownRows(places, true, own, &kept); len(kept) == 0 && len(places) > 0 {
			kept = append(kept, row(topKey{label: libraryRow + library}, style.FromGem))
		}
		for i, at := range kept {
			r := &rows[at]
			if i == 0 {
				r.self += w
			}
			if r.stampIn != n+1 { // once a stack, however often it is in it
				r.stampIn = n + 1
				r.total += w
			}
			if r.stampOf != whose {
				r.stampOf = whose
				r.processes++
			}
		}
	}
	slices.SortFunc(rows, func(x, y mergedRow) int {
		return cmp.Or(cmp.Compare(y.self, x.self), cmp.Compare(y.total, x.total), cmp.Compare(x.label, y.label), cmp.Compare(x.file, y.file), cmp.Compare(x.line, y.line))
	})
	return rows, sum
}

// where is the place of the function, "" for one written in C.
func (r *mergedRow) where() string {
	if r.file == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", r.file, r.line)
}
