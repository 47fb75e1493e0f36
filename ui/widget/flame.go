package widget

import (
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// loadAgainst compares the tree of all frames with a tree from another recording. It scales the other tree to the same
// length of time. It matches functions only by their names, because files and lines differ between versions of a
// program.
func (v *Flame) loadAgainst(o flamegraph.Options, weights *flamegraph.Snapshot, dict *sampler.Dictionary) {
	x := v.Against
	o.Root = x.RootLike(o.Root, weights, dict)
	before := x.Builder.Build(&x.Weights, o)
	factor := x.Factor(weights)
	whole := float64(v.Whole.Root.Total)
	if whole == 0 {
		whole = float64(before.Root.Total) * factor
	}
	v.compare(before, v.Whole, flamegraph.Diff{BeforeWhole: whole / factor, AfterWhole: whole, ByName: true})
}

// Comparing reports whether the flamegraph shows a comparison. If a single thread or route is selected, there is no
// comparison with another recording, because this thread or route may not exist there.
func (v *Flame) Comparing() bool {
	return v.Base != nil && (v.BaseKind != AgainstBase || v.Filter == "")
}

// FlameLook is how the user wants flamegraphs to be drawn. With several processes, all of their screens share it.
type FlameLook struct {
	Metric   flamegraph.Metric
	ShowIdle bool
	Folding  Folding
	Colour   Colouring
	Inverted bool // true if the callees come first, and their callers after them
	Upward   bool // true if the first row is at the bottom
	Search   *regexp.Regexp
	// Sought is the present search if another view started it, to show one function in the flamegraph. It is then the
	// same pointer as Search. A search that was started in this way does not filter lists.
	Sought *regexp.Regexp
}

// Listed returns the search pattern that filters the rows of lists. It is nil if all rows are listed.
func (l *FlameLook) Listed() *regexp.Regexp {
	if l.Search == l.Sought {
		return nil
	}
	return l.Search
}

// Colouring says what the colour of a frame means: a state of threads or the origin of the code.
type Colouring uint8

const (
	// colourByItself means that ddtop chooses what colours show. For wall time they show the state. For other metrics
	// they show the origin of the code. There the state would say nothing, because nearly all of such a metric's weight
	// is in one state.
	colourByItself Colouring = iota
	ColourByState
	ColourByOrigin
)

// byState reports whether the colour of a frame shows a thread's state: the one in which most of the frame's time was
// spent.
func (l *FlameLook) byState() bool {
	return l.Colour == ColourByState || l.Colour == colourByItself && l.Metric == flamegraph.Wall
}

// NextColouring switches what colours show: the state, or the origin of the code.
func (l *FlameLook) NextColouring() {
	if l.byState() {
		l.Colour = ColourByOrigin
	} else {
		l.Colour = ColourByState
	}
}

// Flame is a flamegraph on the screen. Its tree is made again for every picture, so nodes exist only for one picture.
// The selection and the zoom are therefore stored as paths of functions.
type Flame struct {
	FlameLook
	flameShape
	flameBase
	flamePicture
	Builder  *flamegraph.Builder
	origins  map[sampler.FrameID]sampler.Origin
	Endpoint flamegraph.EndpointID // only the time of this endpoint is shown; zero means all time
	Filter   string                // describes the selected threads; empty for all
	// Everything says what the flamegraph shows while Filter is empty. If Everything is empty too, the text is "all
	// threads".
	Everything string
	// rest is the share of the time in which threads had nothing to do. It is zero if the flamegraph also shows this
	// time.
	rest float64
}

// flameShape says which functions the user has hidden, and on which function the user has focused.
type flameShape struct {
	// hidden has the labels of functions that the flamegraph leaves out. If focused is not empty, the flamegraph has
	// only the stacks that contain this function.
	hidden  map[string]bool
	focused string
}

// flameBase has the weights with which the flamegraph is compared, and the result of the comparison.
type flameBase struct {
	// Base has the weights with which the shown weights are compared. It is nil if nothing is compared. BaseWhen is a
	// text that names the time or recording of Base. Diff says how much each node's share of the whole has changed.
	// diffSelf says this for each node's own time. Changes are the functions whose own time has changed, the largest
	// change first.
	Base     *flamegraph.Snapshot
	BaseWhen string
	BaseKind baseKind
	Against  *scene.Against // another recording; nil if there is none
	Diff     map[*flamegraph.Node]float64
	diffSelf map[*flamegraph.Node]float64
	Changes  []change
}

// flamePicture is the tree of a flamegraph, the part of it that is visible, and the selection.
type flamePicture struct {
	// Whole is the tree of all frames. Tree is the tree that is shown. It is Whole, or the tree in own, in which the
	// frames of libraries are folded.
	Whole, Tree *flamegraph.Tree
	own         *flamegraph.Folded          // the tree of own code; nil if libraries are not folded
	Fold        *flamegraph.Folded          // the tree with folded runs of frames; nil if runs are not folded
	gaps        map[*flamegraph.Node]string // labels of rows of left-out frames, by their outermost frame
	Picture     flamegraph.Picture
	Matches     flamegraph.Matches
	inRun       map[*flamegraph.Node]*flamegraph.Node // for a run that the search matches, its heaviest matching frame

	Zoom     flamegraph.Path
	Selected flamegraph.Path
	SelNode  *flamegraph.Node
	Top      int // first row of the picture that is drawn
	Height   int // rows that were drawn last time

	// depth is how many rows the screen keeps free for the flamegraph. depthNS is the last time at which the flamegraph
	// needed all of these rows.
	depth   int
	depthNS int64
}

// restOf returns in which share of the threads' time they had nothing to do. If threads is nil, it counts all threads.
func restOf(weights *flamegraph.Snapshot, threads map[sampler.ThreadID]bool) float64 {
	var rest, all int64
	for i := range weights.Entries {
		e := &weights.Entries[i]
		if threads != nil && !threads[e.Key.Thread] {
			continue
		}
		w := e.Weights.Of(flamegraph.Wall)
		all += w
		if RestStates.Has(e.Key.State) {
			rest += w
		}
	}
	return style.Share(rest, all)
}

// mostlyRest is a share of time. The flamegraph leaves out the time in which threads rest. If the rest is at least
// mostlyRest of the time, the caption says so. Otherwise an idle process would look busy.
const mostlyRest = .95

// maxPictureRows limits how many rows the picture has. A stack of Rails has about 150 frames.
const maxPictureRows = 2000

// Build makes a tree from the weights. Then it makes the picture of this tree, for an area of the given width and
// number of rows.
func (v *Flame) Build(weights *flamegraph.Snapshot, dict *sampler.Dictionary, threads map[sampler.ThreadID]bool, root func(sampler.ThreadID) string,
	width, rows int) {
	if v.Builder == nil {
		v.Builder = flamegraph.NewBuilder(dict)
		v.origins = make(map[sampler.FrameID]sampler.Origin)
	}
	o := flamegraph.Options{Metric: v.Metric, Threads: threads, Root: root}
	v.rest = 0
	if !v.ShowIdle && v.Metric == flamegraph.Wall {
		o.States = flamegraph.AllStates &^ RestStates
		v.rest = restOf(weights, threads)
	}
	o = v.options(o)
	v.Whole = v.Builder.Build(weights, o)
	v.Tree, v.own = v.Whole, nil
	v.loadDiff(o, weights, dict)
	if v.Folding == FoldLibraries {
		v.foldLibraries()
	}
	v.lay(dict, width)
	if v.Folding == FoldByItself && v.hidesOwn(rows) {
		v.setFolding(FoldLibraries)
		v.lay(dict, width)
	}
}

// lay computes where in the picture each node of the tree is drawn.
func (v *Flame) lay(dict *sampler.Dictionary, width int) {
	zoom, _ := v.Tree.Find(v.Zoom)
	v.findMatches(zoom)
	tree := v.Tree
	if v.Fold = nil; v.Folding != FoldLibraries && v.Folding != FoldNothing {
		v.Fold = flamegraph.FoldStraight(tree, zoom, func(n *flamegraph.Node) bool { return v.Matches.Nodes[n] })
		tree = v.Fold.Tree
	}
	v.Picture = flamegraph.Layout(tree, v.drawn(zoom), width, maxPictureRows)
	// leave out the row of the root, because the line above the flamegraph says what the root is
	if len(v.Zoom) == 0 && len(v.Picture.Rows) > 0 {
		v.Picture.Rows = v.Picture.Rows[1:]
	}
	v.SelNode = nil
	if len(v.Selected) > 0 {
		n, ok := v.Tree.Find(v.Selected)
		if !ok && n.Kind == flamegraph.RunNode { // the selected frame was in this run while the run was open
			v.Selected, ok = flamegraph.PathOf(n), true
		}
		if ok {
			v.SelNode = v.original(v.drawn(n))
		}
	}
	v.gaps = make(map[*flamegraph.Node]string)
	// otherwise, in a program that redefines methods, frames of older pictures would take more and more memory
	clear(v.origins)
	for _, row := range v.Picture.Rows {
		for i := range row {
			n := row[i].Node
			if n == nil {
				continue
			}
			whole := v.original(n)
			if n.Kind != whole.Kind {
				v.gaps[whole] = n.Label
			}
			n = whole
			row[i].Node = n
			if n.Frame != 0 {
				if _, ok := v.origins[n.Frame]; !ok {
					v.origins[n.Frame] = style.OriginOf(dict.Frame(n.Frame))
				}
			}
		}
	}
}

// holdDepthNS is for how long the screen keeps rows free that the flamegraph needed before, in ns. Without it, the
// picture would jump with every deep call.
const holdDepthNS = int64(10e9)

// RowsWanted returns how many rows the screen should keep free for the flamegraph. It is zero if this is not known yet.
func (v *flamePicture) RowsWanted(nowNS int64) int {
	n := len(v.Picture.Rows)
	if n >= v.depth || nowNS-v.depthNS > holdDepthNS || nowNS < v.depthNS {
		v.depth, v.depthNS = n, nowNS
	}
	return v.depth
}

// Fit scrolls the flamegraph so that the selected frame is visible in an area of height rows.
func (v *flamePicture) Fit(height int) {
	v.Height = height
	if y, _, ok := v.Find(v.SelNode); ok {
		v.Top = min(v.Top, y)
		v.Top = max(v.Top, y-height+1)
	}
	v.Top = max(0, min(v.Top, len(v.Picture.Rows)-height))
}

// Find returns in which row of the picture a node is drawn, and at which index in this row. ok is false if the picture
// does not have the node.
func (v *flamePicture) Find(n *flamegraph.Node) (y, i int, ok bool) {
	if n == nil {
		return 0, 0, false
	}
	for y, row := range v.Picture.Rows {
		for i := range row {
			if row[i].Node == n {
				return y, i, true
			}
		}
	}
	return 0, 0, false
}

func (v *flamePicture) SelectNode(n *flamegraph.Node) {
	if n != nil && n.Parent != nil {
		v.Selected = flamegraph.PathOf(n)
	}
}

// First makes sure that a frame in the picture is selected. If no frame is selected, or the picture does not have it,
// First selects the heaviest frame of the first row and returns true.
func (v *flamePicture) First() bool {
	if _, _, ok := v.Find(v.SelNode); ok {
		return false
	}
	if v.Tree == nil {
		return true
	}
	zoom, _ := v.Tree.Find(v.Zoom)
	if len(v.Zoom) > 0 {
		v.SelectNode(zoom)
	} else {
		v.SelectNode(heaviest(zoom))
	}
	return true
}

func heaviest(n *flamegraph.Node) *flamegraph.Node {
	var best *flamegraph.Node
	for _, c := range n.Children {
		if best == nil || c.Total > best.Total {
			best = c
		}
	}
	return best
}

func (v *FlameLook) NextMetric() {
	i := slices.Index(style.Metrics, v.Metric)
	v.Metric = style.Metrics[(i+1)%len(style.Metrics)]
}

// Stack returns the selected frame and its callers as lines of text.
func (v *Flame) Stack() (title string, lines []string) {
	n := v.SelNode
	if n == nil {
		return "", nil
	}
	title = canvas.Clean(n.Text())
	for n = v.wholeNode(flamegraph.PathOf(n)); n != nil && n.Parent != nil; n = n.Parent {
		line := style.CodeIn(n.Label, n.File, n.Line, n.Uncertain)
		lines = append(lines, canvas.Clean(line))
	}
	return title, lines
}

// SelectAt selects the frame that is drawn at a place of the flamegraph's area. The area has height rows.
func (v *Flame) SelectAt(x, y, height int) {
	if y = v.rowAt(y, height); y < 0 {
		return
	}
	row := v.Picture.Rows[y]
	for i := range row {
		if c := &row[i]; c.Node != nil && x >= c.X && x < c.X+c.W {
			v.SelectNode(c.Node)
		}
	}
}

// HideSelected hides the selected function: the flamegraph leaves it out.
func (v *Flame) HideSelected() {
	if v.First() || !v.SelNode.IsFrame() {
		return
	}
	if v.hidden == nil {
		v.hidden = make(map[string]bool)
	}
	v.hidden[v.SelNode.Label] = true
	if p := v.SelNode.Parent; p != nil && p.Parent != nil {
		v.Selected = flamegraph.PathOf(p)
	} else {
		v.Selected = nil
	}
	v.Zoom = nil
}

// FocusSelected makes the flamegraph show only the stacks that contain the selected function.
func (v *Flame) FocusSelected() {
	if v.First() || !v.SelNode.IsFrame() {
		return
	}
	v.focused = v.SelNode.Label
	v.Zoom = nil
}

// Shaped reports whether the flamegraph lacks stacks because of the user's choice: functions are hidden, or the user
// has focused on one. Unshape shows all stacks again.
func (v *flameShape) Shaped() bool { return len(v.hidden) > 0 || v.focused != "" }

func (v *flameShape) Unshape() { v.hidden, v.focused = nil, "" }

// Shape returns a text that says how the flamegraph is arranged, and which functions it leaves out.
func (v *Flame) Shape() string {
	s := "callers first"
	if v.Inverted {
		s = "callees first"
	}
	if v.Upward {
		s += ", at the bottom"
	}
	var more []string // this text comes first, so that it is not cut off
	if v.focused != "" {
		more = append(more, "only with "+v.focused)
	}
	if n := len(v.hidden); n > 0 {
		more = append(more, units.Plural(n, "function", "functions")+" hidden (esc)")
	}
	if v.Base != nil {
		more = append(more, "compared with "+v.BaseWhen)
		if !v.Comparing() {
			more = append(more, "all threads alone")
		}
	}
	if len(more) > 0 {
		s = strings.Join(more, ", ") + style.Between + s
	}
	return s
}

// options adds the user's choices to the options o, with which a tree is made.
func (v *Flame) options(o flamegraph.Options) flamegraph.Options {
	o.Endpoint = v.Endpoint
	if v.Inverted {
		o.Inverted, o.Root = true, nil
	}
	if len(v.hidden) > 0 {
		o.Hide = func(f *sampler.Frame) bool { return v.hidden[f.Label] }
	}
	if v.focused != "" {
		o.Keep = regexp.MustCompile("^" + regexp.QuoteMeta(v.focused) + "$")
	}
	return o
}

// FlameKeys are the keys of a flamegraph.
func FlameKeys(v *Flame) scene.KeyMap {
	do := func(change func()) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { change(); h.Refresh(); return nil }
	}
	return scene.KeyMap{Title: "flamegraph", Bindings: []scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "zoom", Help: "zoom into the selected frame", Do: do(v.ZoomIn)},
		{Keys: []string{"up", "k"}, Show: "↑ ↓", Help: "select the caller or the heaviest callee (also k, j). In view 1 the timeline shows when it runs", Do: do(v.up)},
		{Keys: []string{"down", "j"}, Do: do(v.Down)},
		{Keys: []string{"left", "h"}, Show: "← →", Help: "select the frame beside it (also h, l)", Do: do(func() { v.SelectBeside(-1) })},
		{Keys: []string{"right", "l"}, Do: do(func() { v.SelectBeside(+1) })},
		{Keys: []string{"pgup"}, Show: "pgup pgdn", Help: "scroll a deep flamegraph", Do: do(func() { v.pageBy(-1) })},
		{Keys: []string{"pgdown"}, Do: do(func() { v.pageBy(+1) })},
		{Keys: []string{"home", "g"}, Do: do(v.toRoot)},
	}}
}

// ignoreCase makes a search ignore case. It is put before the pattern if the pattern has no upper-case letter.
const ignoreCase = "(?i)"

func StripCase(s string) string {
	if len(s) >= len(ignoreCase) && s[:len(ignoreCase)] == ignoreCase {
		return s[len(ignoreCase):]
	}
	return s
}

// CompileSearch compiles the text of a search. The search ignores case, unless the text has an upper-case letter.
func CompileSearch(s string) (*regexp.Regexp, error) {
	for _, r := range s {
		if r >= 'A' && r <= 'Z' {
			return regexp.Compile(s)
		}
	}
	return regexp.Compile(ignoreCase + s)
}
