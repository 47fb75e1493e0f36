package processes

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// merger copies the stacks of several processes into one Dictionary, so that they can be shown together. Each process
// has its own IDs for threads, frames and stacks, which merger translates into IDs of the common Dictionary. The
// translations are cached.
type merger struct {
	Dict *sampler.Dictionary
	of   map[*scene.Member]*translation
	// owner says to which process each thread of the merged weights belongs. The index is the thread's number in these
	// weights. The first element is unused, because numbers begin with 1.
	owner []*scene.Member
	Whole flamegraph.Snapshot
	part  flamegraph.Snapshot
}

// A translation maps the IDs of one process's Dictionary to the IDs of the merged Dictionary.
type translation struct {
	stacks  map[sampler.StackID]sampler.StackID
	frames  map[sampler.FrameID]sampler.FrameID
	threads map[sampler.ThreadID]sampler.ThreadID
	chain   []sampler.StackID
}

func NewMerger() *merger {
	return &merger{Dict: sampler.NewDictionary(), of: make(map[*scene.Member]*translation), owner: make([]*scene.Member, 1)}
}

// maxMergedThreads and maxMergedFrames limit how much memory a merger can take. When a limit is reached, the page uses
// a new, empty merger instead.
const (
	maxMergedThreads = 1 << 16
	maxMergedFrames  = 1 << 16
)

// full reports whether a limit of the merger is reached. This happens if a program starts and ends threads, or
// redefines methods, for a long time.
func (g *merger) full() bool {
	frames, stacks, _, _, _ := g.Dict.Sizes()
	return len(g.owner) > maxMergedThreads || frames > maxMergedFrames || stacks > 4*maxMergedFrames
}

// begin prepares the merger for new weights. It drops the old weights, and the translations of processes that are not
// in list.
func (g *merger) begin(list []*scene.Member) {
	g.Whole.Entries = g.Whole.Entries[:0]
	g.Whole.FromNS, g.Whole.ToNS, g.Whole.Overflow, g.Whole.Dropped = 0, 0, 0, flamegraph.Weights{}
	for m := range g.of {
		if !slices.Contains(list, m) {
			delete(g.of, m)
		}
	}
}

// Add adds the weights of one process in a time span to the merged weights.
func (g *merger) Add(m *scene.Member, r *store.Reading, fromNS, toNS int64) {
	r.Rolling.SnapshotRange(fromNS, toNS, &g.part)
	t := g.of[m]
	if t == nil {
		t = &translation{stacks: make(map[sampler.StackID]sampler.StackID), frames: make(map[sampler.FrameID]sampler.FrameID),
			threads: make(map[sampler.ThreadID]sampler.ThreadID)}
		g.of[m] = t
	}
	from := m.Store.Dict
	for _, e := range g.part.Entries {
		id, ok := t.threads[e.Key.Thread]
		if !ok {
			id = sampler.ThreadID(len(g.owner))
			g.owner = append(g.owner, m)
			t.threads[e.Key.Thread] = id
		}
		e.Key.Thread, e.Key.Stack, e.Key.Endpoint = id, t.stack(g.Dict, from, e.Key.Stack), 0
		g.Whole.Entries = append(g.Whole.Entries, e)
	}
	if g.Whole.ToNS == 0 {
		g.Whole.FromNS = g.part.FromNS
	}
	g.Whole.FromNS, g.Whole.ToNS = min(g.Whole.FromNS, g.part.FromNS), max(g.Whole.ToNS, g.part.ToNS)
	g.Whole.Overflow += g.part.Overflow
	g.Whole.Dropped = g.Whole.Dropped.Plus(g.part.Dropped)
}

// stack translates a stack into the merged Dictionary. It begins with the outermost caller. A part that several stacks
// share is translated only once.
func (t *translation) stack(to, from *sampler.Dictionary, id sampler.StackID) sampler.StackID {
	t.chain = t.chain[:0]
	at := id
	for at != 0 && t.stacks[at] == 0 { // this ends, because a caller's ID is older than its callee's
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

// mergedRow is a function with its weight: the sum over all processes that are shown.
type mergedRow struct {
	widget.TopKey
	from        sampler.Origin
	Self, total int64
	// in how many processes the function ran; the last process and the last stack that were counted for it
	processes, stampOf, stampIn int
}

// Functions adds up the merged weights by function. The function with the largest weight comes first. If own is true,
// only functions of the program have rows. The weight of other code is then added to the function of the program that
// called this code. If there are several such functions on the stack, it is the innermost one, as in view 5.
func (g *merger) Functions(metric flamegraph.Metric, idle, own bool) (rows []mergedRow, sum int64) {
	skip := flamegraph.StateSet(0)
	if metric == flamegraph.Wall && !idle {
		skip = widget.RestStates
	}
	of := widget.Rows{Core: true, Key: func(f *sampler.Frame, _ sampler.Origin) widget.TopKey { return widget.KeyOfFunction(f) },
		Add: func(k widget.TopKey, from sampler.Origin) { rows = append(rows, mergedRow{TopKey: k, from: from}) }}
	of.Forget()
	for n := range g.Whole.Entries { // the entries are grouped by process
		e := &g.Whole.Entries[n]
		w := e.Weights.Of(metric)
		if w <= 0 || skip.Has(e.Key.State) && skip != 0 {
			continue
		}
		sum += w
		whose := 0
		if m := g.owner[e.Key.Thread]; m != nil {
			whose = m.Number
		}
		for i, at := range of.Of(g.Dict, e.Key.Stack, own, nil) {
			r := &rows[at]
			if i == 0 {
				r.Self += w
			}
			if r.stampIn != n+1 { // count a function once in a stack, however often it is there
				r.stampIn = n + 1
				r.total += w
			}
			if r.stampOf != whose {
				r.stampOf = whose
				r.processes++
			}
		}
	}
	sorting.By(rows, func(x, y mergedRow) int {
		return cmp.Or(cmp.Compare(y.Self, x.Self), cmp.Compare(y.total, x.total), cmp.Compare(x.Label, y.Label), cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line))
	})
	return rows, sum
}

// where returns the place of the function: its file and line. It is empty for a function in C.
func (r *mergedRow) where() string {
	if r.File == "" {
		return ""
	}
	return style.LineIn(r.File, r.Line, false)
}
