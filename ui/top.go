package ui

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// topPage lists what the time goes to, heaviest first: functions, lines, gems or files.
type topPage struct {
	flame *flameView // what it shows of whom is what this measures
	plainPage
	kind  topKind
	table table[*topRow, topKey] // of the rows that weigh something

	rows    []topRow
	all     int   // how many weigh something, with those that a search leaves out
	most    int64 // the largest weight in the order chosen
	index   map[topKey]int
	row     map[sampler.FrameID]rowOfFrame
	indexOf topKind
	indexIn sampler.Generation // the Dictionary's generation that index and row are of
	total   [2]int64           // weight of the time before and of the recent part
	blame   int64
	alloc   flamegraph.AllocEstimate // of allocations: the weights are then what was seen of them
	recent  flamegraph.Snapshot
	stacks  map[sampler.StackID]*stackWeight
	frames  []sampler.FrameID
	of      []int32 // scratch of rowsOf
	places  []rowOfFrame
	rowsBuf []*topRow
	loaded  topOf
	// before sums the weights of another recording, was what came of it; nil: the rows are not compared with one.
	before *topPage
	was    map[string]topBefore
}

// topKind is what the rows stand for.
type topKind uint8

const (
	topFunctions topKind = iota
	topLines
	topGems
	topFiles
	numTopKinds
)

var topKindNames = [numTopKinds]string{"functions", "lines", "gems", "files"}

// topOrder is what the rows are sorted by.
type topOrder string

const (
	bySelf  topOrder = "self"
	byTotal topOrder = "total"
	byBlame topOrder = "blame"
)

// topKey names a row.
type topKey struct {
	label, file string
	line        int32
}

func (k topKey) id() topKey { return k }

// topRow is what a function, line, gem or file weighs: self and total in the time before and in the recent part.
type topRow struct {
	topKey
	from        style.Provenance
	self, total [2]int64
	blame       int64
	stamp       int  // the last stack that was counted in total
	uncertain   bool // of a line: some of the frames can't be trusted
}

// rowOfFrame is a frame's place in the rows, and whether the line that it stands for can't be trusted.
type rowOfFrame struct {
	row       int32
	uncertain bool
	// own: it is the program's own code; core: a function of Ruby's core or in C.
	own, core bool
	library   string // of what is not own
}

type stackWeight struct {
	weight [2]int64
	blame  int64
}

// topOf is what the rows were summed from.
type topOf struct {
	kind         topKind
	metric       flamegraph.Metric
	idle         bool
	fromNS, toNS int64
	hides        bool // directories were hidden
	own          bool // what is not the program's own counts for what called it
	against      bool // they are compared with another recording
}

// recentParts: the last of so many parts of the time shown is the recent one, which the trend compares with the others.
const recentParts = 4

func newTopPage(c *components) *topPage {
	p := &topPage{flame: &c.flame}
	p.table = table[*topRow, topKey]{list: list[*topRow, topKey]{cursor: new(topKey)},
		columns: p.columns(), left: 1, right: 1, by: string(bySelf)}
	turn := func(n int) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd {
			p.turnTo(h, topKind((int(p.kind)+n+int(numTopKinds))%int(numTopKinds)))
			return nil
		}
	}
	sort := sortKeys("sort by self, by total or by blame", func() sorter { return &p.table })
	sort[len(sort)-1].short = "" // the least first is rarely asked for, and the footer has little room
	p.keyMap = keyMap{title: "top", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "flamegraph", help: "find it in the flamegraph", do: func(h Host) tea.Cmd { return p.enter(h) }},
		{keys: []string{"right", "l", "tab"}, show: "← →", short: "kind", help: "functions, lines, gems or files (also h, l, tab)", do: turn(+1)},
		{keys: []string{"left", "h", "shift+tab"}, do: turn(-1)},
	}, sort, []binding{
		{keys: []string{"c"}, show: "c", help: "own code, with the time of the libraries that it calls; every function",
			do: func(h Host) tea.Cmd { p.flame.toggleLibraries(); h.Refresh(); return nil }},
		{keys: []string{"w"}, show: "w", short: "weight", help: "what is measured: wall time, CPU time, waiting for the GVL, blame, allocation",
			do: func(h Host) tea.Cmd { p.flame.nextMetric(); h.Refresh(); return nil }},
		{keys: []string{"I", "shift+i"}, show: "I", short: "idle", help: "with or without the time of parked and sleeping threads",
			do: func(h Host) tea.Cmd { p.flame.showIdle = !p.flame.showIdle; h.Refresh(); return nil }},
	}, cursorKeys("", "select a row", p.move))}
	return p
}

func (p *topPage) found() string {
	return fmt.Sprintf("%d of %d %s", len(p.table.rows), p.all, topKindNames[p.kind])
}

// turnTo lists rows of another kind.
func (p *topPage) turnTo(h Host, k topKind) {
	p.kind, p.table.top = k, 0
	h.Refresh()
}

func (p *topPage) move(_ Host, by step) tea.Cmd {
	p.table.move(by)
	return nil
}

// enter looks the selected row up in the flamegraph.
func (p *topPage) enter(h Host) tea.Cmd {
	i := p.table.index()
	if i < 0 {
		return p.move(h, step{rows: +1})
	}
	what := p.table.rows[i].label
	if p.kind == topFiles {
		what = p.table.rows[i].file
	}
	if strings.HasPrefix(what, libraryRow) {
		h.Message().say("these are functions of libraries that no code of the program has called: c shows them")
		return nil
	}
	if p.kind == topGems {
		h.Message().say("a gem has no frame of its own: sort its files or functions")
		return nil
	}
	p.flame.search = regexp.MustCompile("^" + regexp.QuoteMeta(what) + "$")
	p.flame.sought = p.flame.search
	p.flame.zoom, p.flame.top, h.Scene().focus = nil, 0, onFlame
	cmd := h.Open(pageLive)
	p.flame.nextMatch(+1)
	h.Refresh()
	return cmd
}

func (p *topPage) load(sc *scene, r *store.Reading) {
	s := &sc.weights
	of := topOf{p.kind, p.flame.metric, p.flame.showIdle, s.FromNS, s.ToNS, sc.dict.HidesDirectories(), p.ownOnly(), p.flame.baseKind == againstBase && p.flame.comparing()}
	if of != p.loaded {
		if of.hides != p.loaded.hides { // the rows have other names
			p.index = nil
		}
		p.loaded = of
		from := s.ToNS - (s.ToNS-s.FromNS)/recentParts
		r.Rolling.SnapshotRange(from, s.ToNS, &p.recent)
		p.sum(s, &p.recent, sc)
		p.alloc = s.Allocations()
		p.was = p.beforeOf(sc)
	}
	p.sort()
}

// sum adds the weights up by row.
func (p *topPage) sum(whole, recent *flamegraph.Snapshot, sc *scene) {
	// A program that redefines its methods has new frames and functions all the time: those that are gone are forgotten.
	if g := sc.dict.Generation(); p.index == nil || p.indexOf != p.kind || p.indexIn != g {
		p.index, p.indexOf, p.indexIn, p.rows, p.row = make(map[topKey]int), p.kind, g, nil, make(map[sampler.FrameID]rowOfFrame)
	}
	for i := range p.rows {
		r := &p.rows[i]
		r.self, r.total, r.blame, r.stamp, r.uncertain = [2]int64{}, [2]int64{}, 0, 0, false
	}
	if p.stacks == nil {
		p.stacks = make(map[sampler.StackID]*stackWeight)
	}
	clear(p.stacks)
	p.total, p.blame = [2]int64{}, 0
	skip := flamegraph.StateSet(0)
	if p.flame.metric == flamegraph.Wall && !p.flame.showIdle {
		skip = restStates
	}
	add := func(s *flamegraph.Snapshot, part int, sign int64) {
		for i := range s.Entries {
			e := &s.Entries[i]
			if skip.Has(e.Key.State) {
				continue
			}
			w := p.stacks[e.Key.Stack]
			if w == nil {
				w = new(stackWeight)
				p.stacks[e.Key.Stack] = w
			}
			v := e.Weights.Of(p.flame.metric)
			w.weight[part] += v
			p.total[part] += v
			if sign < 0 { // the recent part is not part of the time before
				w.weight[0] -= v
				p.total[0] -= v
			} else {
				w.blame += e.Weights.BlameNS
				p.blame += e.Weights.BlameNS
			}
		}
	}
	add(whole, 0, +1)
	add(recent, 1, -1)
	stamp := 0
	for id, w := range p.stacks {
		stamp++
		p.frames = sc.dict.Frames(id, p.frames[:0])
		for i, r := range p.rowsOf(sc.dict, p.frames) {
			if i == 0 {
				r.self[0] += w.weight[0]
				r.self[1] += w.weight[1]
				r.blame += w.blame
			}
			if r.stamp != stamp {
				r.stamp = stamp
				r.total[0] += w.weight[0]
				r.total[1] += w.weight[1]
			}
		}
	}
}

// ownOnly reports whether what is not the program's own counts for what called it. Gems are listed to see what they take.
func (p *topPage) ownOnly() bool { return p.flame.folding == foldLibraries && p.kind != topGems }

// libraryRow begins the name of a row that stands for the functions of a library.
const libraryRow = "⋯ "

// rowsOf returns the rows of a stack, innermost first: its self is that of the first. Of own code alone these are those of its own
// frames and, of functions, the ones in C that these call; of a stack without any, one of the library that it is in.
func (p *topPage) rowsOf(dict *sampler.Dictionary, frames []sampler.FrameID) []*topRow {
	p.of = p.of[:0]
	if !p.ownOnly() {
		for _, f := range frames {
			p.of = append(p.of, p.at(dict, f).row)
		}
		return p.pointers(p.of)
	}
	p.places = p.places[:0]
	for _, f := range frames {
		p.places = append(p.places, p.at(dict, f))
	}
	if library := ownRows(p.places, p.kind == topFunctions, true, &p.of); len(p.of) == 0 && len(frames) > 0 {
		p.of = append(p.of, p.rowNamed(topKey{label: libraryRow + library}, style.FromGem))
	}
	return p.pointers(p.of)
}

// ownRows appends the rows of a stack's own frames, innermost first, and, with core, those of the functions in C that these call. It
// returns the library that the stack is in otherwise. Without own, the rows of all frames are appended.
func ownRows(frames []rowOfFrame, core, own bool, rows *[]int32) (library string) {
	library = "ruby"
	last := -1
	for i := range frames {
		switch at := &frames[i]; {
		case !own:
			*rows = append(*rows, at.row)
		case at.own:
			last = i
			*rows = append(*rows, at.row)
		case at.core && core && i+1 < len(frames) && frames[i+1].own && i == last+1:
			last = i // it called nothing but own code
			*rows = append(*rows, at.row)
		case !at.core:
			library = at.library
		}
	}
	return library
}

// pointers are the rows with these indexes. It is called when there are no more to come for a stack.
func (p *topPage) pointers(indexes []int32) []*topRow {
	p.rowsBuf = p.rowsBuf[:0]
	for _, i := range indexes {
		p.rowsBuf = append(p.rowsBuf, &p.rows[i])
	}
	return p.rowsBuf
}

// at returns a frame's place. Which one it is is looked up once for each frame.
func (p *topPage) at(dict *sampler.Dictionary, id sampler.FrameID) rowOfFrame {
	if at, ok := p.row[id]; ok {
		r := &p.rows[at.row]
		r.uncertain = r.uncertain || at.uncertain
		return at
	}
	f := dict.Frame(id)
	from := style.ProvenanceOf(f)
	file := cmp.Or(f.AbsolutePath, f.Path)
	var k topKey
	switch {
	case p.kind == topGems:
		k.label = from.String()
		if f.Gem != "" && from == style.FromGem {
			k.label = f.Gem
		}
	case f.C && p.kind != topFunctions:
		k.label = "C functions"
		if p.kind == topLines {
			k.label = f.Label
		}
	case p.kind == topFiles:
		k.label, k.file = file, file
	case p.kind == topLines:
		k = topKey{f.Label, file, f.Line}
	case f.C:
		k.label = f.Label
	default:
		k = topKey{f.Label, file, f.FirstLine}
	}
	at := rowOfFrame{row: p.rowNamed(k, from), uncertain: p.kind == topLines && f.Uncertain, own: f.Own(), core: from == style.FromCore, library: f.Library()}
	p.row[id] = at
	r := &p.rows[at.row]
	r.uncertain = r.uncertain || at.uncertain
	return at
}

// rowNamed returns the index of a row, which is made at its first sight.
func (p *topPage) rowNamed(k topKey, from style.Provenance) int32 {
	i, ok := p.index[k]
	if !ok {
		i = len(p.rows)
		p.index[k] = i
		p.rows = append(p.rows, topRow{topKey: k, from: from})
	}
	return int32(i)
}

func (r *topRow) weight(by topOrder) int64 {
	switch by {
	case byTotal:
		return r.total[0] + r.total[1]
	case byBlame:
		return r.blame
	}
	return r.self[0] + r.self[1]
}

// sort orders the rows that weigh something.
func (p *topPage) sort() {
	t := &p.table
	t.rows, p.most, p.all = t.rows[:0], 0, 0
	for i := range p.rows {
		r := &p.rows[i]
		w := r.weight(topOrder(t.by))
		if w > 0 || r.weight(byTotal) > 0 {
			p.all++
			if re := p.flame.listed(); re == nil || re.MatchString(r.label) || re.MatchString(r.file) {
				t.rows = append(t.rows, r)
			}
		}
		p.most = max(p.most, w)
	}
	t.sort(t.rows)
}

// heavier is the order of rows by a weight, the heaviest first.
func heavier(by topOrder) func(x, y *topRow) int {
	return func(x, y *topRow) int {
		return cmp.Or(cmp.Compare(y.weight(by), x.weight(by)), cmp.Compare(y.weight(byTotal), x.weight(byTotal)),
			cmp.Compare(x.label, y.label), cmp.Compare(x.file, y.file), cmp.Compare(x.line, y.line))
	}
}

// trend compares a row's share in the recent part of the time with that before: +1 it grows, -1 it shrinks, 0 it is
// steady or there is too little to tell.
func (p *topPage) trend(r *topRow) int {
	const least, relative = 0.02, 0.2
	parts := r.self
	if topOrder(p.table.by) == byTotal {
		parts = r.total
	}
	before, now := style.Share(parts[0], p.total[0]), style.Share(parts[1], p.total[1])
	switch d := now - before; {
	case p.total[0] <= 0 || p.total[1] <= 0:
	case d > max(least, relative*before):
		return +1
	case -d > max(least, relative*before):
		return -1
	}
	return 0
}

func (p *topPage) about(sc *scene) string {
	s := fmt.Sprintf("%s by %s · %s", topKindNames[p.kind], p.table.by, style.MetricName(p.flame.metric))
	if p.was != nil {
		s = "against " + p.flame.baseWhen + " · " + s
	}
	if p.flame.listed() != nil {
		s = fmt.Sprintf("%d of %d ", len(p.table.rows), p.all) + s
	}
	if few := p.flame.few(); few != "" { // which must not be what has no room
		s = few + " · " + s
	}
	if p.ownOnly() {
		s += " · own code (c)"
	}
	switch {
	case p.flame.metric == flamegraph.Wall && !p.flame.showIdle:
		s += " · idle hidden"
	case p.flame.metric == flamegraph.Allocations:
		s += ", " + style.Estimated(p.alloc)
	}
	return s + " · " + sc.when()
}

func (p *topPage) detail(sc *scene) (name, rest string) {
	i := p.table.index()
	if i < 0 || p.nothing(sc) != "" {
		return "", ""
	}
	r := p.table.rows[i]
	rest = fmt.Sprintf("self %s  total %s  made others wait %s", p.measure(sc, r.weight(bySelf)), p.measure(sc, r.weight(byTotal)), units.Duration(r.blame))
	if r.file != "" && r.file != r.label {
		rest = style.LineIn(r.file, r.line, r.uncertain) + "  " + rest
	}
	return r.label, rest
}

// measure prints a weight. What was seen of the allocations stands for a share of all.
func (p *topPage) measure(sc *scene, n int64) string {
	if p.flame.metric == flamegraph.Allocations {
		n = int64(style.Share(n, p.alloc.Seen) * float64(p.alloc.Objects))
	}
	return style.Measure(p.flame.metric, n)
}

// nothing says why there is nothing to list; "" when there is.
func (p *topPage) nothing(sc *scene) string {
	switch {
	case p.flame.metric == flamegraph.Allocations && !p.alloc.Enough():
		return style.TooFew(p.alloc)
	case len(p.table.rows) == 0:
		return style.NothingOf(p.flame.metric)
	}
	return ""
}
