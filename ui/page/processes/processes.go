package processes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:      scene.PageProcesses,
	Key:     "8",
	Help:    "a row for each process, and one flamegraph of all. enter opens a process",
	Offered: func(o scene.Offers) bool { return o.Processes },
}

// Page is view 8, with a table of processes. Below the table it shows the flamegraph, the functions or the findings, of
// all processes or of the selected one.
type Page struct {
	page.Plain
	fleet processList

	Table   widget.Table[*processRow, processKey]
	lower   lowerView
	onLower bool // the arrow keys go to the lower view

	rows      []*processRow      // a row for each sampled process
	idle      []sampler.Relative // running processes that are not sampled
	forgotten int
	all       processRow
	// worst is the worst finding of all processes. It is nil if there are no findings. worstIn is a text such as " in 3
	// of 8 +2": 3 of the 8 processes of the program have this finding, and there are 2 other findings. worstShort is
	// the short form " 3/8".
	worst               *findings.Finding
	worstIn, worstShort string

	loadedAt  time.Time
	loads     int // counts how often the rows were made
	of        scene.FlameRange
	Merged    *merger
	hides     bool // directories were hidden when Merged was begun
	mergedOf  mergedFrom
	Flame     widget.Flame
	functions widget.Table[*mergedRow, widget.TopKey]
	sum       int64
	findings  widget.List[*processFinding, findingKey]
	together  together
}

// mergedFrom identifies the data from which the view below the table was made. While these data are the same, the view
// need not be made again.
type mergedFrom struct {
	loads    int
	selected *scene.Member
	hides    bool // directories were hidden
	own      bool // the weight of other code is added to the program's own code that called it
}

// lowerView is the kind of view that is shown below the table: flamegraph, functions or findings.
type lowerView uint8

const (
	lowerFlame lowerView = iota
	lowerTop
	lowerFindings
	numLower
)

var lowerNames = [numLower]string{"flamegraph", "functions", "findings"}

// processState is the state of a process in the table.
type processState uint8

const (
	processRuns processState = iota
	processReplaced
	processExited
	processFailed
)

// processRow is a row of the table. It is about a sampled process with its main figures, all processes together, or a
// process that is not sampled.
type processRow struct {
	Of      *scene.Member     // nil for the row for all processes, and for an unsampled process
	idle    *sampler.Relative // nil unless the process is not sampled
	Process sampler.Process
	parent  int
	threads int
	state   processState
	end     string // how and when the process ended
	figures scene.Figures
	// findings are the findings at the moment on the screen, the worst first.
	findings []findings.Finding
	// lane is a small curve over the time on the screen. It shows the share of the time in which a thread held the GVL.
	// If there are several ractors, it shows this for the ractor whose GVL was held most.
	lane []float64
}

// processKey identifies a row of the table. The zero value is the row for all processes together.
type processKey struct {
	Of   *scene.Member
	idle int // the PID of an unsampled process
}

func (w *processRow) ID() processKey {
	if w.idle != nil {
		return processKey{idle: w.idle.PID}
	}
	return processKey{Of: w.Of}
}

// processFinding is a finding with its process.
type processFinding struct {
	of *scene.Member
	findings.Finding
}

type findingKey struct {
	of    *scene.Member
	title string
}

func (f *processFinding) ID() findingKey { return findingKey{f.of, f.Title} }

// RefreshProcesses is the interval at which the rows of the table are made again while the picture is live. ddtop
// measures it by the clock and not by samples: if the shown process has ended, no samples come, but the table must
// still change.
const RefreshProcesses = 500 * time.Millisecond

// processList is the source of the page's processes. List returns the sampled processes, and Relatives returns all.
type processList interface {
	List() []*scene.Member
	Relatives() (list []sampler.Relative, forgotten int)
}

func New(f processList) *Page {
	p := &Page{fleet: f, Merged: NewMerger()}
	p.Table = widget.Table[*processRow, processKey]{List: widget.List[*processRow, processKey]{Cursor: new(processKey)}, Columns: p.Columns(),
		Left: 1, Right: 1, Natural: asInTheTree, Unsorted: inTree, By: inTree}
	p.findings.Cursor = new(findingKey)
	p.functions = widget.Table[*mergedRow, widget.TopKey]{List: widget.List[*mergedRow, widget.TopKey]{Cursor: new(widget.TopKey)},
		Columns: p.FunctionColumns(), Left: 1, Right: 1, By: string(widget.BySelf)}
	beside := func(n int) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd {
			if p.onLower && p.lower == lowerFlame {
				p.Flame.SelectBeside(n)
			}
			h.Refresh()
			return nil
		}
	}
	p.KeyMap = scene.KeyMap{Title: "processes", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "open", Help: "open the process in all views. In the flamegraph: zoom. On a finding: go to its cause",
			Do: func(h scene.Host) tea.Cmd { return p.enter(h) }},
		{Keys: []string{"tab", "shift+tab"}, Show: "tab", Short: "below", Help: "move between the table and the part below it",
			Do: func(h scene.Host) tea.Cmd { p.onLower = !p.onLower; h.Refresh(); return nil }},
		{Keys: []string{"v"}, Show: "v", Short: "view", Help: "show the flamegraph, the functions or the findings below the table",
			Do: func(h scene.Host) tea.Cmd {
				p.lower = (p.lower + 1) % numLower
				p.functions.Reset()
				p.findings.Reset()
				h.Refresh()
				return nil
			}},
	}, widget.CursorKeys("", "select a process, a frame, a line", p.move), []scene.Binding{
		{Keys: []string{"left", "h"}, Show: "← →", Help: "select the frame beside it (also h, l)", When: func(scene.Host) bool { return p.onLower && p.lower == lowerFlame }, Do: beside(-1)},
		{Keys: []string{"right", "l"}, Do: beside(+1)},
	}, widget.SortKeys("sort by the next or previous column", func() widget.Sorter {
		if p.onLower && p.lower == lowerTop {
			return &p.functions
		}
		return &p.Table
	}), []scene.Binding{
		{Keys: []string{"w"}, Show: "w", Short: "weight", Help: "what is measured: wall time, CPU time, waiting for the GVL, blame",
			Do: func(h scene.Host) tea.Cmd { p.nextMetric(); h.Refresh(); return nil }},
		{Keys: []string{"I", "shift+i"}, Show: "I", Help: "show or hide the time of parked and sleeping threads",
			Do: func(h scene.Host) tea.Cmd {
				p.Flame.ShowIdle = !p.Flame.ShowIdle
				p.mergedOf = mergedFrom{}
				h.Refresh()
				return nil
			}},
		{Keys: []string{"c"}, Show: "c", Help: "show own code, with gems and Ruby as one row (⋯), fold long runs only, or show every frame",
			Do: func(h scene.Host) tea.Cmd { p.Flame.NextFolding(); h.Refresh(); return nil }},
		{Keys: []string{"esc"}, Show: "esc", Short: "back", Always: true, Help: "go back one step: the zoom, the part below the table, the selection",
			When: func(scene.Host) bool { return len(p.Flame.Zoom) > 0 || p.onLower || *p.Table.Cursor != (processKey{}) },
			Do:   func(h scene.Host) tea.Cmd { p.back(h); return nil }},
	}, p.actions())}
	return p
}

func (p *Page) About(sc *scene.Scene) string {
	running := 0
	halted := make(map[string]int)
	for _, w := range p.rows {
		switch {
		case w.halted() != nil:
			halted[w.halted().Word]++
		case w.state == processRuns:
			running++
		}
	}
	var parts []string
	if running < len(p.rows) {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}
	for _, h := range []*scene.Halt{&scene.ProcessStopped, &scene.ProcessFrozen} {
		if n := halted[h.Word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h.Word))
		}
	}
	if by := p.Table.Sorted(inTree); by != "" {
		parts = append(parts, by)
	}
	return strings.Join(append(parts, sc.When()), " · ")
}

// Detail describes what the user has selected: a frame, a line or a process.
func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	switch i, k := p.functions.Index(), p.findings.Index(); {
	case p.onLower && p.lower == lowerFlame:
		return p.Flame.Detail(p.Merged.Dict)
	case p.onLower && p.lower == lowerTop && i >= 0:
		r := p.functions.Rows[i]
		code, where := gvl.AddLine(r.Label, r.where())
		return code, style.Beside(where, fmt.Sprintf("self %s  total %s", units.Duration(r.Self), units.Duration(r.total)))
	case p.onLower && p.lower == lowerFindings && k >= 0:
		f := p.findings.Rows[k]
		return f.Title, f.Text + "  → " + f.Next
	}
	r := &p.all
	if i := p.Table.Index(); i >= 0 {
		r = p.Table.Rows[i]
	}
	switch {
	case r.idle != nil:
		return fmt.Sprintf("%s %d", sc.Showable(r.idle.Title), r.idle.PID), "not sampled: " + sc.Showable(r.idle.Why)
	case r.Of == nil:
		return "all processes", "↑ ↓ select one   enter opens it   ( ) go from one to the next in every view"
	}
	parts := []string{fmt.Sprintf("child of %d", r.parent), r.Process.RubyDescription}
	if r.parent == 0 {
		parts = parts[1:]
	}
	if r.figures.LockHz > 0 {
		parts = append(parts, fmt.Sprintf("read %s/%s of %s/%s", style.Rate(r.figures.StackHz), style.Rate(r.figures.LockHz), style.Rate(r.Process.StackRate), style.Rate(r.Process.LockRate)))
	}
	if r.end != "" {
		parts = append(parts, r.end)
	}
	return fmt.Sprintf("%s %d", titleOf(sc, &r.Process), r.Process.PID), strings.Join(parts, "  ")
}

// move moves the cursor up or down. The cursor is in the list that has the focus.
func (p *Page) move(h scene.Host, by widget.Step) tea.Cmd {
	switch {
	case !p.onLower:
		p.Table.Move(by)
		return p.choose(h)
	case p.lower == lowerFlame && by.Rows+by.Screens < 0:
		p.Flame.SelectParent()
	case p.lower == lowerFlame:
		p.Flame.SelectChild()
	case p.lower == lowerTop:
		p.functions.Move(by)
	default:
		p.findings.Move(by)
	}
	h.Refresh()
	return nil
}

// choose makes the view below the table show the process on which the table's cursor is.
func (p *Page) choose(h scene.Host) tea.Cmd {
	p.onLower, p.Flame.Zoom, p.Flame.Selected = false, nil, nil
	p.functions.Reset()
	p.findings.Reset()
	h.Refresh()
	return nil
}

// enter is the action of the key enter. It opens the selected process, or the cause of the selected finding. In the
// flamegraph it zooms.
func (p *Page) enter(h scene.Host) tea.Cmd {
	to, k := p.Table.Cursor.Of, p.findings.Index()
	switch {
	case p.onLower && p.lower == lowerFlame:
		p.Flame.ZoomIn()
		h.Refresh()
		return nil
	case p.onLower && p.lower == lowerFindings && k >= 0:
		f := p.findings.Rows[k]
		return h.GoToFinding(scene.FindingID{Of: f.of, Rule: f.Finding.ID})
	case p.onLower:
		return nil
	case p.Table.Cursor.idle != 0:
		h.Message().Fail("it is not sampled, so there is nothing to show")
		return nil
	}
	if to == nil {
		return p.move(h, widget.Step{Rows: +1})
	}
	return h.OpenProcess(to)
}

func (p *Page) back(h scene.Host) {
	switch {
	case p.Flame.ZoomOut():
	case p.onLower:
		p.onLower = false
	default:
		*p.Table.Cursor = processKey{}
	}
	h.Refresh()
}

// nextMetric selects the next metric for the flamegraph. It skips the number of allocations. Each process has its own
// estimate of this number, and such estimates cannot be added up.
func (p *Page) nextMetric() {
	p.Flame.NextMetric()
	if p.Flame.Metric == flamegraph.Allocations {
		p.Flame.NextMetric()
	}
	p.mergedOf = mergedFrom{}
}

// Load reads the data of all processes. The Store of the shown process is already locked, so Load uses r to read it.
func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	list := p.fleet.List()
	of := scene.FlameRange{AtNS: sc.AtNS, WindowNS: sc.WindowNS, Frozen: sc.Frozen}
	now, hides := sc.Now(), sc.Dict.HidesDirectories()
	stale := len(list) != len(p.rows) || p.loads == 0 || of.Frozen != p.of.Frozen || of.WindowNS != p.of.WindowNS ||
		hides != p.mergedOf.hides || of.Frozen && of.AtNS != p.of.AtNS || !of.Frozen && now.Sub(p.loadedAt) >= RefreshProcesses || now.Before(p.loadedAt)
	if stale {
		p.loadedAt, p.of = now, of
		p.loads++
		p.loadRows(sc, r, list)
	}
	p.order()
	want := mergedFrom{p.loads, p.Table.Cursor.Of, hides, p.Flame.Folding == widget.FoldLibraries}
	if want != p.mergedOf {
		p.mergedOf = want
		p.merge(sc, r, list)
	}
	p.functions.Sort(p.functions.Rows)
	if p.onLower {
		p.functions.Settle()
		p.findings.Settle()
	}
}

// read calls fn with a reading of a process's Store. The caller has already locked the Store of the shown process. So
// if of is the shown process, read calls fn with r.
func read(sc *scene.Scene, r *store.Reading, of *scene.Member, fn func(*store.Reading)) {
	if of.Store.Dict == sc.Dict {
		fn(r)
		return
	}
	of.Store.Read(fn)
}

// merge prepares the data of the view below the table. These are the merged weights of all processes, or the weights of
// the selected process.
func (p *Page) merge(sc *scene.Scene, r *store.Reading, list []*scene.Member) {
	if hides := sc.Dict.HidesDirectories(); hides != p.hides || p.Merged.full() {
		p.hides, p.Merged, p.Flame.Builder = hides, NewMerger(), nil
		p.Flame.Zoom, p.Flame.Selected = nil, nil
	}
	selected := p.Table.Cursor.Of
	p.Merged.begin(list)
	for _, of := range list {
		redact.HideDirectories(of.Store.Dict, p.hides)
		if selected != nil && selected != of {
			continue
		}
		read(sc, r, of, func(r *store.Reading) {
			to := r.LastNS
			if sc.Frozen {
				to = sc.AtNS
			}
			if r.LastNS != 0 && (sc.Frozen || sc.Opt.Replay || !of.Store.State().Done) {
				p.Merged.Add(of, r, to-sc.WindowNS, to)
			} else if r.LastNS != 0 && selected == of { // the process has ended, so show its last moments
				p.Merged.Add(of, r, to-sc.WindowNS, to)
			}
		})
	}
	var rows []mergedRow
	rows, p.sum = p.Merged.Functions(p.Flame.Metric, p.Flame.ShowIdle, p.Flame.Folding == widget.FoldLibraries)
	p.functions.Rows = p.functions.Rows[:0]
	for i := range rows {
		p.functions.Rows = append(p.functions.Rows, &rows[i])
	}
}

// buildFlame builds the merged flamegraph, in which the processes are below the root. Workers that have the same
// program and the same parent process share one box, because they run the same code.
func (p *Page) buildFlame(width, height int) {
	v := &p.Flame
	v.Everything, v.Filter = "all processes", ""
	if of := p.Table.Cursor.Of; of != nil {
		process := of.Store.Process()
		v.Filter = fmt.Sprintf("%s %d", process.Name(), process.PID)
	}
	type workers struct {
		title  string
		parent int
	}
	times, roots := make(map[workers]int), make(map[*scene.Member]string, len(p.rows))
	for _, w := range p.rows {
		if w.state == processRuns {
			times[workers{w.Process.Title, w.parent}]++
		}
	}
	for _, w := range p.rows {
		roots[w.Of] = fmt.Sprintf("%s %d", w.Process.Name(), w.Process.PID)
		if n := times[workers{w.Process.Title, w.parent}]; n > 1 && w.parent != 0 && p.Table.Cursor.Of == nil {
			roots[w.Of] = fmt.Sprintf("%s ×%d", w.Process.Title, n)
		}
	}
	v.Build(&p.Merged.Whole, p.Merged.Dict, nil, func(id sampler.ThreadID) string { return roots[p.Merged.owner[id]] }, width, height)
}

// actions returns the keys that save, copy, mark or record a process. They act on the selected process, and not on the
// process that the user opened last.
func (p *Page) actions() []scene.Binding {
	act := func(a scene.Action) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { return p.act(h, a) }
	}
	return []scene.Binding{
		{Keys: []string{"s"}, Show: "s y m W", Help: "save, copy, mark or record the selected process", Do: act(scene.SaveAction)},
		{Keys: []string{"y"}, Do: act(scene.CopyAction)},
		{Keys: []string{"Y", "shift+y"}, Do: act(scene.CopySummaryAction)},
		{Keys: []string{"m"}, Do: act(scene.NoteAction)},
		{Keys: []string{"W", "shift+w"}, Do: act(scene.RecordAction)},
	}
}

// Meant returns the process on which a key such as save should act: the process of the selected row or finding, or the
// only process. It is nil if there is no such process.
func (p *Page) Meant() *scene.Member {
	switch k := p.findings.Index(); {
	case p.onLower && p.lower == lowerFindings && k >= 0:
		return p.findings.Rows[k].of
	case p.Table.Cursor.Of != nil:
		return p.Table.Cursor.Of
	case p.Table.Cursor.idle != 0: // the process is not sampled
	case len(p.rows) == 1:
		return p.rows[0].Of
	}
	return nil
}

// act does an action, such as saving, with the selected process.
func (p *Page) act(h scene.Host, a scene.Action) tea.Cmd {
	to := p.Meant()
	switch {
	case to == nil && p.Table.Cursor.idle != 0:
		h.Message().Fail("it is not sampled, so there is nothing to take from it")
	case to == nil:
		h.Message().Fail("of which process? ↑ ↓ select one, and press the key again")
	default:
		return h.Act(to, a)
	}
	return nil
}
