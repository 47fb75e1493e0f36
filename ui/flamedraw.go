package ui

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// drawRule draws the line above the flamegraph, which says what it shows.
func (v *flameView) drawRule(a canvas.Area, t *style.Theme, focused bool, when string) {
	a.Fill('─', t.Rule())
	title := t.Bold()
	if focused {
		title = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	}
	x := a.Put(2, 0, " "+style.MetricName(v.metric), title)
	of := cmp.Or(v.everything, "all threads")
	if v.filter != "" {
		of = "only " + v.filter
	}
	var parts []string
	if v.search != nil { // what was asked for must not be what has no room
		parts = append(parts, v.found())
	}
	few := v.few()
	if few != "" {
		parts = append(parts, few)
	}
	if v.folding == foldLibraries {
		parts = append(parts, "own code (c)")
	}
	if v.filter != "" {
		parts = append(parts, of)
	}
	if mix := v.mostly(v.root(), leastOfAll); mix != "" {
		parts = append(parts, mix)
	}
	if v.filter == "" {
		parts = append(parts, of)
	}
	switch v.colour { // as was asked for
	case colourByState:
		parts = append(parts, "coloured by state")
	case colourByOrigin:
		parts = append(parts, "coloured by origin")
	}
	if v.metric == flamegraph.Wall && !v.showIdle {
		parts = append(parts, "idle hidden")
	}
	parts = append(parts, when)
	switch {
	case v.tree == nil:
	case v.metric == flamegraph.Allocations:
		parts = slices.Insert(parts, 0, style.Estimated(v.tree.Allocations))
	case few == "":
		parts = append(parts, samples(v.tree.Samples))
	}
	if len(v.zoom) > 0 {
		parts = append(parts, "zoomed")
	}
	right, inward, outward := "", "▼", "▲"
	if v.upward {
		inward, outward = outward, inward
	}
	if below := len(v.picture.Rows) - v.top - v.height; below > 0 && v.height > 0 {
		right = fmt.Sprintf(" %s %d deeper ", inward, below)
	}
	if v.top > 0 {
		right = fmt.Sprintf(" %s %d", outward, v.top) + right
	}
	limit := a.W - canvas.Width(right) - 3
	for _, p := range parts {
		st := t.Dimmed()
		if p == of && v.filter != "" || p == few || v.search != nil && strings.HasPrefix(p, "/") {
			st = canvas.Style{FG: t.Warn, Attr: canvas.Bold}
		}
		if x+3+canvas.Width(p) > limit {
			break
		}
		x = a.Put(x, 0, " · ", t.Dimmed())
		x = a.Put(x, 0, p, st)
	}
	a.Put(x, 0, " ", t.Rule())
	if right != "" {
		a.Put(a.W-1-canvas.Width(right), 0, right, t.Dimmed())
	}
}

// fewSamples is the number below which shares are rough: with 50, one of 50 % is right to 14 points, 19 times in 20.
const fewSamples = 50

// samples counts them in words.
func samples(n int64) string {
	if n == 1 {
		return "1 sample"
	}
	return units.Count(n) + " samples"
}

// few says that the picture rests on few samples; "" when it does not, or its weight is not told by samples: waits and blame
// are measured one by one, and an estimate of allocations has its own error.
func (v *flameView) few() string {
	if v.tree == nil || v.metric != flamegraph.Wall && v.metric != flamegraph.CPU || v.tree.Samples == 0 || v.tree.Samples >= fewSamples {
		return ""
	}
	return "only " + samples(v.tree.Samples)
}

// found says how much of the picture a search found.
func (v *flameView) found() string {
	s := "/" + stripCase(v.search.String()) + "/"
	if len(v.matches.Nodes) == 0 {
		return s + " matches no frame" // though a thread's name may
	}
	return s + " " + units.Percent(v.matches.Share)
}

// root is what all frames of the picture are in; nil: there is none yet.
func (v *flameView) root() *flamegraph.Node {
	if v.tree == nil {
		return nil
	}
	return v.tree.Root
}

// From which share of its time a state is named for the whole picture, and for a frame.
const (
	leastOfAll   = 0.1
	leastOfFrame = 0.005
)

// mostly names the two states that a frame's wall time was most in: the time of a method that reads a socket can be waiting for
// the GVL, and the frames alone don't tell. "" for other weights than wall time, which are one state's by their meaning.
func (v *flameView) mostly(n *flamegraph.Node, least float64) string {
	if n == nil || v.metric != flamegraph.Wall || n.Total == 0 {
		return ""
	}
	const most = 2
	var parts []string
	of := &n.StateTotal
	order := make([]gvl.State, len(of))
	for s := range order {
		order[s] = gvl.State(s)
	}
	slices.SortStableFunc(order, func(x, y gvl.State) int { return cmp.Compare(of[y], of[x]) })
	for _, s := range order[:most] {
		if sh := style.Share(of[s], n.Total); sh >= least {
			parts = append(parts, s.String()+" "+units.Percent(sh))
		}
	}
	return strings.Join(parts, ", ")
}

// unsure reports whether too few allocations were seen to say whose they are.
func (v *flameView) unsure() bool {
	return v.tree != nil && v.metric == flamegraph.Allocations && !v.tree.Allocations.Enough()
}

// draw draws the picture.
func (v *flameView) draw(a canvas.Area, t *style.Theme, focused, color bool) {
	if v.tree == nil || v.tree.Root.Total == 0 || v.unsure() {
		text := "nothing measured yet"
		switch {
		case v.unsure():
			text = style.TooFew(v.tree.Allocations)
		case v.tree != nil && v.tree.Excluded > 0 && !v.showIdle && v.metric == flamegraph.Wall:
			text = "all of it waited for work, was parked or asleep   I shows it"
		case v.tree != nil && (v.tree.Samples > 0 || v.metric == flamegraph.Blame || v.metric == flamegraph.Wait):
			text = style.NothingOf(v.metric)
		}
		a.Put(3, a.H/2, canvas.Cut(text, a.W-6), t.Dimmed())
		return
	}
	for y := range a.H {
		i := v.rowAt(y, a.H)
		if i < 0 {
			continue
		}
		row := v.picture.Rows[i]
		for i := range row {
			v.drawCell(a.Sub(row[i].X, y, row[i].W, 1), &row[i], t, focused, color)
		}
	}
}

func (v *flameView) drawCell(a canvas.Area, c *flamegraph.Cell, t *style.Theme, focused, color bool) {
	if c.Kind == flamegraph.CellBlank || a.W == 0 {
		return
	}
	bg := v.cellColor(c, t)
	st := style.On(bg)
	label := ""
	if c.Node != nil {
		label = c.Node.Text()
		gap, ok := v.gaps[c.Node]
		if ok {
			label = gap
		}
		if ok || c.Node.Kind == flamegraph.RunNode && !v.byState() && !v.comparing() {
			bg = t.Background.Mix(t.Flame[style.FromThread], 0.35)
			st = canvas.Style{FG: style.Toward(t.Dim, t.Text, bg), BG: bg}
		}
	}
	text := c.Text
	if clean := canvas.Clean(label); clean != label { // ␛ for an escape, as in all views; the layout is that of files, which have U+FFFD
		label, text = clean, flamegraph.LabelFit(clean, a.W)
	}
	fit := func(w int) string { return flamegraph.LabelFit(label, w) }
	if c.Node != nil && c.Node.Kind == flamegraph.RunNode {
		fit = func(w int) string { return canvas.Clean(c.Node.Fit(w)) }
	}
	mark := ""
	if c.Node != nil {
		mark = v.diffMark(c.Node)
	}
	if sign, _ := utf8.DecodeRuneInString(mark); canvas.Width(mark) > a.W { // a number that is cut is another
		mark = string(sign)
	}
	if c.Node != nil && c.Node.Own && v.byState() && !v.comparing() {
		st.Attr |= canvas.Bold
	}
	hit := c.Node != nil && v.matches.Nodes[c.Node]
	switch {
	case hit:
		st = canvas.Style{FG: canvas.RGB(style.BlackText), BG: canvas.RGB(style.OkabeYellow), Attr: canvas.Bold | canvas.Underline}
	case v.search != nil:
		st = style.On(t.Background.Mix(bg, 0.35))
		st.FG = style.Toward(t.Dim, t.Text, st.BG)
	}
	selected := c.Node != nil && c.Node == v.selNode
	if selected {
		st = canvas.Style{FG: t.Background, BG: t.Text, Attr: canvas.Bold}
		if !color {
			st.Attr |= canvas.Reverse
		}
		if !focused {
			st = canvas.Style{FG: t.Text, BG: t.Selection, Attr: canvas.Bold | canvas.Underline}
		}
	}
	if color {
		a.Fill(' ', st)
		x := 0
		if a.W > 3 {
			x = 1
		}
		if (mark != "" || canvas.Width(text) > a.W-x-1) && c.Node != nil && a.W > 3 {
			text = mark + fit(a.W-x-1-canvas.Width(mark))
		}
		a.Put(x, 0, text, st)
		// The last column is half as strong, so that two cells of one colour are two cells.
		if !selected && a.W > 1 {
			last := st
			last.BG = t.Background.Mix(st.BG, 0.55)
			last.FG = st.FG
			if canvas.Width(text)+x < a.W {
				a.Rune(a.W-1, 0, ' ', last)
			}
		}
		return
	}
	// Without colour a cell is its label and a bar to its end, with a space to the next one.
	bar := '░'
	if selected {
		a.Fill(' ', st)
		bar = ' '
	}
	if a.W == 1 && !hit { // a letter would read as the first of what is beside it
		text = string(bar)
	}
	if c.Node != nil && (mark != "" || canvas.Width(text) > a.W-1) && a.W > 1 {
		text = mark + fit(a.W-1-canvas.Width(mark))
	}
	x := a.Put(0, 0, text, st)
	for x++; x < a.W-1; x++ {
		a.Rune(x, 0, bar, canvas.Style{Attr: st.Attr &^ canvas.Underline})
	}
}

// foreignStrength is how strong the colour of a state is on frames that are not the program's own.
const foreignStrength = 0.72

// cellColor is the colour of a frame: by the state it was most in, or by where its code comes from, a little lighter or darker by its name, so that
// neighbours can be distinguished and a frame keeps its colour.
func (v *flameView) cellColor(c *flamegraph.Cell, t *style.Theme) canvas.Color {
	n := c.Node
	switch {
	case n == nil:
		return t.Background.Mix(t.Flame[style.FromThread], 0.6)
	case c.Kind == flamegraph.CellAncestor:
		return t.Background.Mix(t.Flame[style.FromThread], 0.5)
	case v.comparing():
		return v.diffColor(n, t)
	case !n.IsFrame() && !v.byState():
		return t.Flame[style.FromThread]
	}
	h := fnv.New32a()
	h.Write([]byte(n.Label))
	shade := float64(h.Sum32()%7)/6*0.24 - 0.12
	base := t.Flame[v.origins[n.Frame]]
	if v.byState() { // what is not the program's own is weaker
		if base = t.States[n.TopState()]; !n.Own && !t.Flat {
			base = t.Background.Mix(base, foreignStrength)
		}
	}
	if t.Few {
		return base
	}
	if shade < 0 {
		return base.Mix(canvas.RGB(style.BlackText), -shade)
	}
	return base.Mix(canvas.RGB(style.WhiteText), shade)
}

// detail describes the selected frame: its name, place, share and origin.
func (v *flameView) detail(dict *sampler.Dictionary) (name, rest string) {
	n := v.selNode
	if n == nil || v.tree == nil || v.tree.Root.Total == 0 || v.unsure() {
		return "", ""
	}
	total := float64(v.tree.Root.Total)
	var parts []string
	origin := ""
	if n.IsFrame() {
		if n.File != "" {
			parts = append(parts, fmt.Sprintf("%s:%d", n.File, n.Line))
		}
		frame := dict.Frame(n.Frame)
		origin = style.ProvenanceOf(frame).String()
		switch {
		case n.C:
			origin = "C function"
		case frame.Origin == sampler.OriginEval:
			origin = frame.Origin.String()
		case frame.Gem != "":
			origin += " " + frame.Gem
		}
	}
	sum := style.Measure(v.metric, n.Total)
	if v.metric.IsTime() && n.Total > v.tree.ToNS-v.tree.FromNS {
		sum += " thread-time" // several threads at a time: more than passed on the clock
	}
	weights := []string{fmt.Sprintf("total %.1f %%", float64(n.Total)/total*100)}
	switch {
	case !v.inverted:
		weights = append(weights, fmt.Sprintf("self %.1f %%", float64(n.Self)/total*100))
	case n.Parent == v.tree.Root: // callees first: what is first was executed, the others called it
		weights[0] = "self" + strings.TrimPrefix(weights[0], "total")
	}
	if mix := v.mostly(n, leastOfFrame); mix != "" {
		weights = append(weights, mix)
	}
	if n.Uncertain {
		weights = append(weights, "uncertain")
	}
	weights = append(weights, sum)
	// The colour says where the code comes from, too: this is the first to be left out.
	parts = append(parts, weights...)
	if origin != "" {
		parts = append(parts, origin)
	}
	if gap, ok := v.gaps[n]; ok {
		return gap + " from " + n.Label, strings.Join(parts, "  ") + "  c unfolds"
	}
	if n.Kind == flamegraph.RunNode {
		parts = append(parts, "enter opens")
	}
	return n.Text(), strings.Join(parts, "  ")
}

// stack is that of the selected frame: it and its callers.
func (v *flameView) stack() (title string, lines []string) {
	n := v.selNode
	if n == nil {
		return "", nil
	}
	title = canvas.Clean(n.Text())
	for n = v.wholeNode(flamegraph.PathOf(n)); n != nil && n.Parent != nil; n = n.Parent {
		line := n.Label
		if n.File != "" {
			line += " (" + style.LineIn(n.File, n.Line, n.Uncertain) + ")"
		}
		lines = append(lines, canvas.Clean(line))
	}
	return title, lines
}
