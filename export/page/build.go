package page

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxIncidentBytes limits the size of a page's data, in bytes. The page also has a style and scripts, and stays
	// below 3 MB in all.
	maxIncidentBytes = 2_900_000
	// maxIncidentNodes limits the number of nodes of each tree of stacks. maxIncidentNames limits the number of
	// functions of a page.
	maxIncidentNodes = 40_000
	maxIncidentNames = 10_000
	// MaxName is the length to which names on a page are cut, in bytes.
	MaxName = 400
	// leastIncident is the smallest factor by which a page's limits are reduced to make its data fit into
	// maxIncidentBytes. If the data is still too large at this factor, whole parts of the page are left out.
	leastIncident = 1.0 / 64
)

// These are the parts of a page, the least important first. If a page is too large, its parts are left out in this
// order.
const (
	partFigures = iota
	partCycles
	partDumps
	partHeap
	partSingle
	partWaits
	partLocks
	partWeights
	partLanes
	partRoutes
	partNotes
	partFindings
)

// partNames are the names under which the page lists the parts that are left out. The scripts tables.js and dump.js
// compare some of these names.
var partNames = [...]string{
	partFigures: "all figures as text", partCycles: "collections by time", partDumps: "thread dumps", partHeap: "objects", partSingle: "single requests",
	partWaits: "blame and single waits", partLocks: "locks", partWeights: "the flamegraph, threads by time",
	partLanes: "the lanes of threads", partRoutes: "routes and jobs", partNotes: "notes", partFindings: "findings",
}

// These are flags of a weight, which is a row of numbers on the page about the time of a stack. Each flag says that one
// more number follows the wall time: the CPU time, the blame, or the index of the route.
const (
	weightHasCPU = 16 << iota
	weightHasBlame
	weightHasServed
)

// data returns the page's data of one process, as JSON that is safe inside an HTML document. If the JSON exceeds limit
// bytes, data first makes all parts less detailed. Then it leaves out the least important parts. Even without any part,
// the JSON has a few thousand bytes.
func (n *Incident) data(limit int) ([]byte, error) {
	part, without := 1.0, 0
	for {
		b := incidentBuilder{
			n: n, nodes: int(maxIncidentNodes * part), names: int(maxIncidentNames * part), text: max(int(MaxName*part), 40),
			lanes: int(maxIncidentLanes * part), without: without,
			functions: make(map[flamegraph.FuncKey]int), files: make(map[string]int), tree: Tree{},
			lines: Tree{}, texts: make(map[string]int), threads: make(map[sampler.ThreadID]int),
		}
		if part < 1 {
			n.coarsen(part)
		}
		var out bytes.Buffer
		if err := export.WriteCompactJSON(&out, b.build()); err != nil {
			return nil, err
		}
		switch {
		case out.Len() <= limit, without == len(partNames):
			return out.Bytes(), nil
		case part > leastIncident:
			part /= 2
		default:
			without++
		}
	}
}

// coarsen makes the page less detailed. It multiplies the limits of weights, columns and dumps by part, which is less
// than 1.
func (n *Incident) coarsen(part float64) {
	weights := max(int(maxIncidentWeights*part), 1)
	n.weights.shrink(weights)
	for n.weights.entries > weights && len(n.weights.slices) > 1 {
		n.weights.double()
	}
	for len(n.lanes.columns) > minIncidentColumns &&
		(n.lanes.cells > int(maxIncidentCells*part) || len(n.lanes.columns) > int(maxIncidentColumns*part)) {
		n.lanes.double()
	}
	for len(n.dumps.list) > 2 && n.dumps.threads > int(maxIncidentDumped*part) {
		n.dumps.thin()
	}
}

// incidentBuilder makes the data of a page. It numbers functions, files, texts, threads and stacks, and the page refers
// to them by these numbers.
type incidentBuilder struct {
	n                  *Incident
	nodes, names, text int // limits: of nodes, of names, and of the bytes of a text
	lanes              int // limits how many threads have a lane (a row in the timeline)
	// The field without is how many parts are left out of the page. The least important parts are left out first.
	without     int
	out         incidentData
	functions   map[flamegraph.FuncKey]int
	files       map[string]int
	tree, lines Tree
	texts       map[string]int
	threads     map[sampler.ThreadID]int
	stacks      map[keptStack]int
	// route has, for each EndpointID, the index of the endpoint's name in out.Served. An endpoint is a route or class
	// of jobs. The index is zero if the endpoint's weights were merged into another endpoint.
	route  []int64
	frames []sampler.FrameID
	// cutNS is the total time of the stacks that lack inner frames because of a limit.
	cutNS int64
	// noLane is the number of threads that have no lane (their row in the timeline), because lanes are limited.
	noLane int
}

// Tree is a tree of functions, or of functions and lines. Each node has the index of its caller's node, the function
// and the line. The index is −1 if the node has no caller.
type Tree struct {
	at   map[[3]int]int
	list [][3]int
}

// Add returns the node of a call. If the tree does not have this node yet, Add adds it. If the tree already has limit
// nodes, Add returns −1.
func (t *Tree) Add(parent, function, line, limit int) int {
	k := [3]int{parent, function, line}
	if i, ok := t.at[k]; ok {
		return i
	}
	if len(t.list) >= limit {
		return -1
	}
	if t.at == nil {
		t.at = make(map[[3]int]int)
	}
	t.at[k] = len(t.list)
	t.list = append(t.list, k)
	return len(t.list) - 1
}

// Len returns the number of nodes.
func (t *Tree) Len() int { return len(t.list) }

// Flat returns the tree as a list with two or three numbers for each node. The first is the distance in the list to
// its caller's node, or 0 if there is none. The second is its function. If lines is true, the third is its line.
func (t *Tree) Flat(lines bool) []int {
	out := make([]int, 0, 3*len(t.list))
	for i, k := range t.list {
		back := 0
		if k[0] >= 0 {
			back = i - k[0]
		}
		out = append(out, back, k[1])
		if lines {
			out = append(out, k[2])
		}
	}
	return out
}

func (b *incidentBuilder) build() *incidentData {
	n, o := b.n, &b.out
	p := n.process
	o.Title, o.PID, o.Ruby = b.words(export.ProgramName(p)), p.PID, b.words(p.RubyDescription)
	o.StartMS = float64(p.WallTime(n.startNS()).UnixMicro()) / 1e3
	o.NS, o.AllFrames = max(n.lanes.lastNS-n.startNS(), 0), n.AllFrames
	for s := range gvl.NumStates {
		o.States = append(o.States, s.String())
	}
	for x := range sampler.NumOrigins {
		o.Origins = append(o.Origins, x.String())
	}
	o.Head, o.Columns = n.facts(), n.columnsOf()
	if b.has(partFindings) {
		o.Shared = n.shared
	}
	o.Served, o.Names, o.Files, o.Texts, o.Notes = []string{""}, [][]any{}, []string{}, []string{""}, []incidentNote{}
	b.texts[""] = 0
	b.route = make([]int64, len(n.collector.Served()))
	for i, s := range n.collector.Served() {
		if at := n.collector.Standing(flamegraph.EndpointID(i)); i == 0 || int(at) != i {
			continue
		}
		b.route[i] = int64(len(o.Served))
		name := s.Name
		if name == "" {
			name = export.UnknownOf(s.Kind.String())
		}
		o.Served = append(o.Served, b.words(name))
	}
	for _, add := range []func(){
		b.addThreads, b.addSlices, b.addDumps, b.addFindings, b.addBlame, b.addRequests, b.addLocks, b.addGC, b.addHeap, b.addNotes,
	} {
		add()
	}
	o.Nodes, o.Lines = b.tree.Flat(false), b.lines.Flat(true)
	o.Limits, o.Left = n.limits(), append([]string{}, partNames[:b.without]...)
	if left := n.lanes.left + b.noLane; left > 0 && b.has(partLanes) {
		o.Limits = append(o.Limits, units.Plural(left, "thread has", "threads have")+" no lane: there are too many")
	}
	if b.cutNS > 0 {
		o.Limits = append(o.Limits, "of stacks with "+export.Share(b.cutNS, n.weights.allNS)+" of all time inner frames are left out: there are too many different ones, and these weigh least")
	}
	var text strings.Builder
	if b.has(partFigures) && export.WriteStat(&text, n.stat, n.Notes...) == nil { // writing to a Builder never fails
		o.Stat = text.String()
	}
	return o
}

// has reports whether the page includes a part, or leaves it out because of its size.
func (b *incidentBuilder) has(part int) bool { return part >= b.without }

func (b *incidentBuilder) addNotes() {
	if !b.has(partNotes) {
		return
	}
	for _, x := range b.n.Notes {
		b.out.Notes = append(b.out.Notes, incidentNote{b.n.since(x.AtNS), b.words(x.Text)})
	}
}

// words makes a text from the target printable, and cuts it to the length b.text.
func (b *incidentBuilder) words(s string) string { return cutText(s, b.text) }

// cutText makes a text printable and cuts it to limit bytes. It marks a cut with "…".
func cutText(s string, limit int) string {
	if s = flamegraph.Printable(s); len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// textID returns the number by which the page refers to a text. It is the text's index in out.Texts, to which textID
// adds new texts.
func (b *incidentBuilder) textID(s string) int {
	s = b.words(s)
	i, ok := b.texts[s]
	if !ok {
		i = len(b.out.Texts)
		b.texts[s] = i
		b.out.Texts = append(b.out.Texts, s)
	}
	return i
}

func (b *incidentBuilder) addThreads() {
	n := b.n
	figures := make(map[sampler.ThreadID]*report.StatThread, len(n.stat.Threads))
	for i := range n.stat.Threads {
		figures[n.stat.Threads[i].ID] = &n.stat.Threads[i]
	}
	b.out.Threads = []*incidentThread{}
	if !b.has(partLanes) {
		return
	}
	work := n.weights.byThread()
	list := n.lanes.ordered(work)
	shown := min(len(list), b.lanes)
	b.noLane = len(list) - shown
	for _, lane := range list[:shown] {
		info, _ := n.dict.Thread(lane.id)
		t := &incidentThread{ID: int(lane.id), Name: b.words(gvl.NameOf(lane.id, info)), TID: info.TID, First: lane.first, Cells: lane.text(), NS: lane.sum}
		var all int64
		for _, ns := range lane.sum {
			all += ns
		}
		if of := work[lane.id]; of != nil {
			t.Rests = of[gvl.Parked]*1000 >= all*995
		}
		if f := figures[lane.id]; f != nil {
			if f.CPUNS != nil {
				t.CPU = units.ProseDuration(*f.CPUNS)
			}
			if f.Waits.Count > 0 {
				t.Waits = fmt.Sprintf("%s, p99 %s, longest %s", units.Plural(int(f.Waits.Count), "wait", "waits"), export.WaitSpan(f, f.Waits.P99()), export.WaitSpan(f, f.Waits.Max()))
			}
			if f.Gone {
				t.Name += " (gone)"
			}
		}
		b.threads[lane.id] = len(b.out.Threads)
		b.out.Threads = append(b.out.Threads, t)
	}
}

// thread returns a thread's number on the page. It returns −1 if the thread has no lane, which is its row in the
// timeline.
func (b *incidentBuilder) thread(id sampler.ThreadID) int {
	if i, ok := b.threads[id]; ok {
		return i
	}
	return -1
}

func (b *incidentBuilder) threadList(ids []sampler.ThreadID) []int {
	out := []int{}
	for _, id := range ids {
		if i := b.thread(id); i >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// otherFunction is the name that the page shows for all functions beyond the limit maxIncidentNames. cutFunction is the
// name for the inner frames that a stack lost to a limit.
const (
	otherFunction = "(more functions than are kept apart)"
	cutFunction   = "(inner frames left out)"
)

func (b *incidentBuilder) function(f sampler.Frame) int {
	k := flamegraph.FuncKey{Label: f.Label + f.Mark(), File: f.File(), Line: f.FirstLine}
	if f.C { // a C frame has no path of its own, only the path of its caller
		k.File, k.Line = "", 0
	}
	i, ok := b.functions[k]
	if ok {
		return i
	}
	if len(b.out.Names) >= b.names && f.Label != otherFunction && f.Label != cutFunction {
		return b.function(sampler.Frame{Label: otherFunction, C: true})
	}
	file := -1
	if k.File != "" {
		if file, ok = b.files[k.File]; !ok {
			file = len(b.out.Files)
			b.files[k.File] = file
			b.out.Files = append(b.out.Files, b.words(k.File))
		}
	}
	i = len(b.out.Names)
	b.functions[k] = i
	library := b.words(f.Library())
	switch {
	case f.Label == otherFunction, f.Label == cutFunction:
		library = "-"
	case f.Own():
		library = ""
	case f.IsNative():
		library = "(C)"
	}
	b.out.Names = append(b.out.Names, []any{b.words(f.Label) + f.Mark(), file, max(k.Line, 0), int(f.From()), b.words(f.Gem), library})
	return i
}

// stack adds a stack to the tree t and returns the node of its innermost frame. lines is true for a tree of functions
// and lines. whole is false if the tree had no space for all frames.
func (b *incidentBuilder) stack(t *Tree, id sampler.StackID, lines bool) (at int, whole bool) {
	b.frames = b.n.dict.Frames(id, b.frames[:0])
	at = -1
	for _, fid := range slices.Backward(b.frames) {
		f := b.n.dict.Frame(fid)
		line := 0
		if lines {
			line = int(f.Marked().Line)
		}
		next := t.Add(at, b.function(f), line, b.nodes)
		if next < 0 {
			return at, false
		}
		at = next
	}
	return at, true
}

func (b *incidentBuilder) addSlices() {
	w := &b.n.weights
	b.out.SliceNS, b.out.Slices = w.sliceNS, [][]int64{}
	if !b.has(partWeights) {
		return
	}
	b.stacks = make(map[keptStack]int)
	list, ns, cutNS := w.heaviest()
	b.cutNS = cutNS
	for _, s := range list {
		at, whole := -1, true
		if s.id != 0 {
			at, whole = b.stack(&b.tree, s.id, false)
		}
		switch {
		case s.cut:
			at = max(b.tree.Add(at, b.function(sampler.Frame{Label: cutFunction, C: true}), 0, 2*b.nodes), at)
		case !whole:
			b.cutNS += ns[s]
		}
		b.stacks[s] = at
	}
	for _, s := range w.slices {
		list := []int64{}
		for _, k := range sorting.Sorted(maps.Keys(s), func(x, y flamegraph.Key) int { return x.Compare(&y) }) {
			weight := s[k]
			stack := -1
			if at := keptStackOf(&k); at != (keptStack{}) {
				stack = b.stacks[at]
			}
			wall, cpu, blame := (weight.wallNS+500)/1e3, (weight.cpuNS+500)/1e3, (weight.blameNS+500)/1e3
			if wall == 0 && cpu == 0 && blame == 0 {
				continue
			}
			flags := int64(k.State)
			more := make([]int64, 0, 3)
			for _, x := range []struct{ flag, v int64 }{{weightHasCPU, cpu}, {weightHasBlame, blame}, {weightHasServed, b.route[b.n.collector.Standing(k.Endpoint)]}} {
				if x.v != 0 {
					flags |= x.flag
					more = append(more, x.v)
				}
			}
			list = append(append(list, int64(b.thread(k.Thread)), int64(stack), flags, wall), more...)
		}
		b.out.Slices = append(b.out.Slices, list)
	}
}

func (b *incidentBuilder) addDumps() {
	b.out.Dumps = []incidentInstant{}
	if !b.has(partDumps) {
		return
	}
	for i := range b.n.dumps.list {
		d := &b.n.dumps.list[i]
		o := incidentInstant{AtNS: b.n.since(d.atNS), GVL: []string{}, Locks: []incidentWaiting{}, Dead: []string{}, Threads: []int64{}}
		for _, r := range d.ractors {
			o.GVL = append(o.GVL, b.words(b.gvlText(r, len(d.ractors) > 1)))
		}
		for _, l := range d.locks {
			o.Locks = append(o.Locks, incidentWaiting{lockText(&l), b.thread(l.Holder), b.threadList(l.Waiters)})
		}
		for _, c := range d.cycles {
			var names []string
			for _, id := range c {
				names = append(names, b.name(id))
			}
			o.Dead = append(o.Dead, b.words(strings.Join(names, " → ")))
		}
		for _, t := range d.threads {
			stack, whole := b.stack(&b.lines, t.stack, true)
			notes := t.notes
			if !whole {
				notes = append(slices.Clone(notes), "inner frames are cut: there are too many different stacks")
			}
			if len(t.resumer) > 0 {
				notes = append(slices.Clone(notes), units.Plural(len(t.resumer), "fiber that resumed it is", "fibers that resumed it are")+" not shown")
			}
			if t.serving != "" {
				notes = append([]string{t.serving}, notes...)
			}
			o.Threads = append(o.Threads, int64(b.thread(t.id)), int64(t.state), int64(b.textID(t.text)), t.lasted/1e3, int64(stack), int64(b.textID(strings.Join(notes, " · "))))
		}
		b.out.Dumps = append(b.out.Dumps, o)
	}
}

// name returns the name of a thread.
func (b *incidentBuilder) name(id sampler.ThreadID) string { return gvl.ThreadName(id, b.n.dict) }

// gvlText describes who holds a GVL, and how many threads wait for it.
func (b *incidentBuilder) gvlText(r report.DumpRactor, several bool) string {
	text := "GVL"
	if several {
		text = fmt.Sprintf("GVL of ractor %d", r.ID)
	}
	switch {
	case r.GVL.Owner != nil:
		text += " held by " + b.name(*r.GVL.Owner)
	case r.GVL.Handover != nil:
		text += " handed over to " + b.name(*r.GVL.Handover)
	default:
		text += " free"
	}
	if n := r.GVL.WaitingCount; n > 0 {
		text += ", " + units.Plural(n, "thread waits", "threads wait")
	}
	return text
}
