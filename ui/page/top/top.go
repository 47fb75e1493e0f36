package top

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageTop,
	Key:    "5",
	Help:   "functions, lines, gems or files, sorted by self time, total time or blame",
	Shared: page.SearchShared,
	Make:   page.Makes(New),
}

// Page is view 5. It lists functions, lines, gems or files by their weight, the heaviest first.
type Page struct {
	Flame *widget.Flame // the flamegraph's metric, folding and search apply here, too
	page.Plain
	Kind  TopKind
	Table widget.Table[*topRow, widget.TopKey] // has only rows with a weight

	rows    []topRow
	All     int          // the number of rows with a weight, before a search
	most    int64        // the largest weight of a row, by the chosen order
	of      *widget.Rows // maps frames to rows; nil before the first Sum
	indexOf TopKind
	indexIn sampler.Generation // the Dictionary's generation to which the rows belong
	Total   [2]int64           // weights of all rows in the earlier and in the recent part of the time
	blame   int64
	Alloc   flamegraph.AllocEstimate // for the metric Allocations, whose weights count seen objects
	recent  flamegraph.Snapshot
	stacks  map[sampler.StackID]*stackWeight
	loaded  topOf
	// The field before is a second Page, which adds up the weights of the recording to compare with. The field Was has
	// the sums of this second Page, by the names of rows. Was is nil if nothing is compared.
	before *Page
	Was    map[string]topBefore
}

// TopKind is what the rows represent.
type TopKind uint8

const (
	TopFunctions TopKind = iota
	TopLines
	TopGems
	TopFiles
	numTopKinds
)

var TopKindNames = [numTopKinds]string{"functions", "lines", "gems", "files"}

// topRow is a row for a function, line, gem or file. self and total each have two weights: the first from the earlier
// part of the time on the screen, the second from the recent part (recentParts).
type topRow struct {
	widget.TopKey
	from        sampler.Origin
	self, total [2]int64
	blame       int64
	stamp       int  // number of the last stack that was counted in the field total
	uncertain   bool // some frames of this line cannot be trusted
}

type stackWeight struct {
	weight [2]int64
	blame  int64
}

// topOf identifies the data from which the rows were added up. If these data have not changed, the rows need not be
// made again.
type topOf struct {
	kind         TopKind
	metric       flamegraph.Metric
	idle         bool
	fromNS, toNS int64
	hides        bool // directories were hidden
	own          bool // the weight of other code is added to the program's own code that called it
	against      bool // the rows are compared with another recording
}

// recentParts is the number of equal parts into which the time on the screen is divided. The trend compares the last
// part (the recent one) with all parts before it.
const recentParts = 4

func New(c *widget.Parts) *Page {
	p := &Page{Flame: &c.Flame}
	p.Table = widget.Table[*topRow, widget.TopKey]{List: widget.List[*topRow, widget.TopKey]{Cursor: new(widget.TopKey)},
		Columns: p.columns(), Left: 1, Right: 1, By: string(widget.BySelf)}
	turn := func(n int) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd {
			p.turnTo(h, TopKind((int(p.Kind)+n+int(numTopKinds))%int(numTopKinds)))
			return nil
		}
	}
	sort := widget.SortKeys("sort by self, by total or by blame", func() widget.Sorter { return &p.Table })
	sort[len(sort)-1].Short = "" // the footer has little room, and reversing the order is rarely needed
	p.KeyMap = scene.KeyMap{Title: "top", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "flamegraph", Help: "show it in the flamegraph", Do: func(h scene.Host) tea.Cmd { return p.enter(h) }},
		{Keys: []string{"right", "l", "tab"}, Show: "← →", Short: "kind", Help: "functions, lines, gems or files (also h, l, tab)", Do: turn(+1)},
		{Keys: []string{"left", "h", "shift+tab"}, Do: turn(-1)},
	}, sort, []scene.Binding{
		{Keys: []string{"c"}, Show: "c", Help: "own code with the time of the libraries that it calls, or every function",
			Do: func(h scene.Host) tea.Cmd { p.Flame.ToggleLibraries(); h.Refresh(); return nil }},
		{Keys: []string{"w"}, Show: "w", Short: "weight", Help: "what is measured: wall time, CPU time, waiting for the GVL, blame, allocation",
			Do: func(h scene.Host) tea.Cmd { p.Flame.NextMetric(); h.Refresh(); return nil }},
		{Keys: []string{"I", "shift+i"}, Show: "I", Short: "idle", Help: "show or hide the time of parked and sleeping threads",
			Do: func(h scene.Host) tea.Cmd { p.Flame.ShowIdle = !p.Flame.ShowIdle; h.Refresh(); return nil }},
	}, widget.CursorKeys("", "select a row", p.move))}
	return p
}

func (p *Page) Found() string {
	return fmt.Sprintf("%d of %d %s", len(p.Table.Rows), p.All, TopKindNames[p.Kind])
}

// turnTo makes the page list what k says: functions, lines, gems or files.
func (p *Page) turnTo(h scene.Host, k TopKind) {
	p.Kind, p.Table.Top = k, 0
	h.Refresh()
}

func (p *Page) move(_ scene.Host, by widget.Step) tea.Cmd {
	p.Table.Move(by)
	return nil
}

// enter is the action of the key enter: it opens the flamegraph and selects the row's code there. If no row is
// selected, it only selects a row.
func (p *Page) enter(h scene.Host) tea.Cmd {
	i := p.Table.Index()
	if i < 0 {
		return p.move(h, widget.Step{Rows: +1})
	}
	what := p.Table.Rows[i].Label
	if p.Kind == TopFiles {
		what = p.Table.Rows[i].File
	}
	if strings.HasPrefix(what, widget.LibraryRow) {
		h.Message().Say("these are functions of libraries that no code of the program has called: c shows them")
		return nil
	}
	if p.Kind == TopGems {
		h.Message().Say("a gem has no frame of its own: sort its files or functions")
		return nil
	}
	p.Flame.Search = regexp.MustCompile("^" + regexp.QuoteMeta(what) + "$")
	p.Flame.Sought = p.Flame.Search
	p.Flame.Zoom, p.Flame.Top, h.Showing().Focus = nil, 0, scene.OnFlame
	cmd := h.Open(scene.PageLive)
	p.Flame.NextMatch(+1)
	h.Refresh()
	return cmd
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	s := &sc.Weights
	of := topOf{p.Kind, p.Flame.Metric, p.Flame.ShowIdle, s.FromNS, s.ToNS, sc.Dict.HidesDirectories(), p.ownOnly(), p.Flame.BaseKind == widget.AgainstBase && p.Flame.Comparing()}
	if of != p.loaded {
		if of.hides != p.loaded.hides { // hiding directories changes the names of rows
			p.of = nil
		}
		p.loaded = of
		from := s.ToNS - (s.ToNS-s.FromNS)/recentParts
		r.Rolling.SnapshotRange(from, s.ToNS, &p.recent)
		p.Sum(s, &p.recent, sc)
		p.Alloc = s.Allocations()
		p.Was = p.beforeOf(sc)
	}
	p.Sort()
}

// Sum adds up the weights by row.
func (p *Page) Sum(whole, recent *flamegraph.Snapshot, sc *scene.Scene) {
	// Rows of an earlier generation are dropped. A program that redefines its methods has new frames and functions all
	// the time, so old rows would take more and more memory.
	if g := sc.Dict.Generation(); p.of == nil || p.indexOf != p.Kind || p.indexIn != g {
		p.indexOf, p.indexIn, p.rows = p.Kind, g, nil
		p.of = &widget.Rows{Key: p.key, ByLine: p.Kind == TopLines, Core: p.Kind == TopFunctions,
			Add: func(k widget.TopKey, from sampler.Origin) { p.rows = append(p.rows, topRow{TopKey: k, from: from}) }}
		p.of.Forget()
	}
	for i := range p.rows {
		r := &p.rows[i]
		r.self, r.total, r.blame, r.stamp, r.uncertain = [2]int64{}, [2]int64{}, 0, 0, false
	}
	if p.stacks == nil {
		p.stacks = make(map[sampler.StackID]*stackWeight)
	}
	clear(p.stacks)
	p.Total, p.blame = [2]int64{}, 0
	skip := flamegraph.StateSet(0)
	if p.Flame.Metric == flamegraph.Wall && !p.Flame.ShowIdle {
		skip = widget.RestStates
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
			v := e.Weights.Of(p.Flame.Metric)
			w.weight[part] += v
			p.Total[part] += v
			if sign < 0 { // the earlier time does not include the recent part
				w.weight[0] -= v
				p.Total[0] -= v
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
		for i, at := range p.of.Of(sc.Dict, id, p.ownOnly(), func(row int32) { p.rows[row].uncertain = true }) {
			r := &p.rows[at]
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

// ownOnly reports whether the list shows only the program's own code. The weight of libraries is then added to the code
// that called them. In the list of gems, each gem must have a row, so there ownOnly is false.
func (p *Page) ownOnly() bool { return p.Flame.Folding == widget.FoldLibraries && p.Kind != TopGems }

// key names the row of a frame.
func (p *Page) key(f *sampler.Frame, from sampler.Origin) widget.TopKey {
	k := widget.KeyOfFunction(f)
	switch {
	case p.Kind == TopGems && f.Gem != "" && from == sampler.OriginGem:
		return widget.TopKey{Label: f.Gem}
	case p.Kind == TopGems:
		return widget.TopKey{Label: from.String()}
	case p.Kind == TopFiles && f.C:
		return widget.TopKey{Label: "C functions"}
	case p.Kind == TopFiles:
		return widget.TopKey{Label: k.File, File: k.File}
	case p.Kind == TopLines && !f.C:
		k.Line = f.Line
	}
	return k
}

func (r *topRow) Weight(by widget.TopOrder) int64 {
	switch by {
	case widget.ByTotal:
		return r.total[0] + r.total[1]
	case widget.ByBlame:
		return r.blame
	}
	return r.self[0] + r.self[1]
}

// Sort orders the rows with a weight.
func (p *Page) Sort() {
	t := &p.Table
	t.Rows, p.most, p.All = t.Rows[:0], 0, 0
	for i := range p.rows {
		r := &p.rows[i]
		w := r.Weight(widget.TopOrder(t.By))
		if w > 0 || r.Weight(widget.ByTotal) > 0 {
			p.All++
			if re := p.Flame.Listed(); re == nil || re.MatchString(r.Label) || re.MatchString(r.File) {
				t.Rows = append(t.Rows, r)
			}
		}
		p.most = max(p.most, w)
	}
	t.Sort(t.Rows)
}

// heavier returns a function that compares rows by a weight, for sorting. The row with the largest weight comes first.
func heavier(by widget.TopOrder) func(x, y *topRow) int {
	return func(x, y *topRow) int {
		return cmp.Or(cmp.Compare(y.Weight(by), x.Weight(by)), cmp.Compare(y.Weight(widget.ByTotal), x.Weight(widget.ByTotal)),
			cmp.Compare(x.Label, y.Label), cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line))
	}
}

// trend says whether a row's share grows. It compares the share in the recent part of the time on the screen with the
// share in the earlier part. It returns 1 if the share has grown, -1 if it has shrunk, and 0 if it is steady or
// unknown.
func (p *Page) trend(r *topRow) int {
	const least, relative = 0.02, 0.2
	parts := r.self
	if widget.TopOrder(p.Table.By) == widget.ByTotal {
		parts = r.total
	}
	before, now := style.Share(parts[0], p.Total[0]), style.Share(parts[1], p.Total[1])
	switch d := now - before; {
	case p.Total[0] <= 0 || p.Total[1] <= 0:
	case d > max(least, relative*before):
		return +1
	case -d > max(least, relative*before):
		return -1
	}
	return 0
}

func (p *Page) About(sc *scene.Scene) string {
	s := fmt.Sprintf("%s by %s · %s", TopKindNames[p.Kind], p.Table.By, style.MetricName(p.Flame.Metric))
	if p.Was != nil {
		s = "against " + p.Flame.BaseWhen + " · " + s
	}
	if p.Flame.Listed() != nil {
		s = fmt.Sprintf("%d of %d ", len(p.Table.Rows), p.All) + s
	}
	if few := p.Flame.Few(); few != "" { // put first, so that it is not cut off
		s = few + " · " + s
	}
	if p.ownOnly() {
		s += " · own code (c)"
	}
	switch {
	case p.Flame.Metric == flamegraph.Wall && !p.Flame.ShowIdle:
		s += " · idle hidden"
	case p.Flame.Metric == flamegraph.Allocations:
		s += ", " + style.Estimated(p.Alloc)
	}
	return s + " · " + sc.When()
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	i := p.Table.Index()
	if i < 0 || p.nothing(sc) != "" {
		return "", ""
	}
	r := p.Table.Rows[i]
	rest = fmt.Sprintf("self %s  total %s  made others wait %s", p.measure(sc, r.Weight(widget.BySelf)), p.measure(sc, r.Weight(widget.ByTotal)), units.Duration(r.blame))
	name = r.Label
	if r.File != "" && r.File != r.Label {
		var where string
		name, where = gvl.AddLine(name, style.LineIn(r.File, r.Line, r.uncertain))
		rest = style.Beside(where, rest)
	}
	return name, rest
}

// measure returns a weight as text. For allocations, it first estimates the number of all objects, because ddtop sees
// only a part of them.
func (p *Page) measure(sc *scene.Scene, n int64) string {
	if p.Flame.Metric == flamegraph.Allocations {
		n = int64(style.Share(n, p.Alloc.Seen) * float64(p.Alloc.Objects))
	}
	return style.Measure(p.Flame.Metric, n)
}

// nothing returns a text that says why the list is empty. It returns "" if the list has rows.
func (p *Page) nothing(sc *scene.Scene) string {
	switch {
	case p.Flame.Metric == flamegraph.Allocations && !p.Alloc.Enough():
		return style.TooFew(p.Alloc)
	case len(p.Table.Rows) == 0:
		return style.NothingOf(p.Flame.Metric)
	}
	return ""
}

// beforeOf returns the weights that the rows have in the recording to compare with, by their labels. They are scaled to
// the length of the time on the screen. It is nil if nothing is compared.
func (p *Page) beforeOf(sc *scene.Scene) map[string]topBefore {
	v := p.Flame
	if v.BaseKind != widget.AgainstBase || v.Filter != "" {
		p.before = nil
		return nil
	}
	if p.before == nil {
		p.before = &Page{Flame: v}
	}
	b := p.before
	b.Kind = p.Kind
	other := scene.Scene{Dict: v.Against.Dict}
	b.Sum(&v.Against.Weights, new(flamegraph.Snapshot), &other)
	factor := v.Against.Factor(&sc.Weights)
	out := make(map[string]topBefore, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		t := out[r.Name()]
		t.Self += int64(float64(r.self[0]) * factor)
		t.total += int64(float64(r.total[0]) * factor)
		t.blame += int64(float64(r.blame) * factor)
		out[r.Name()] = t
	}
	return out
}

// topBefore has the weights of a row in the recording to compare with.
type topBefore struct{ Self, total, blame int64 }

func (t topBefore) weight(by widget.TopOrder) int64 {
	switch by {
	case widget.ByTotal:
		return t.total
	case widget.ByBlame:
		return t.blame
	}
	return t.Self
}

// Name returns the name of the row. The same function, line, gem or file has the same name in another recording.
func (r *topRow) Name() string {
	if r.Label != "" {
		return r.Label
	}
	return fmt.Sprintf("%s:%d", r.File[strings.LastIndexByte(r.File, '/')+1:], r.Line)
}
