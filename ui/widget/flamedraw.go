package widget

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

// DrawRule draws the line above the flamegraph. Its text says what the flamegraph shows.
func (v *Flame) DrawRule(a canvas.Area, t *style.Theme, focused bool, when string) {
	a.Fill('─', t.Rule())
	title := t.Bold()
	if focused {
		title = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	}
	x := a.Put(2, 0, " "+style.MetricName(v.Metric), title)
	of := cmp.Or(v.Everything, "all threads")
	if v.Filter != "" {
		of = "only " + v.Filter
	}
	var parts []string
	if v.Search != nil { // the search is written first, because its match may be in a frame that is not visible
		parts = append(parts, v.Found())
	}
	few := v.Few()
	if few != "" {
		parts = append(parts, few)
	}
	if v.rest >= mostlyRest {
		parts = append(parts, units.FinePercent(1-v.rest)+" of the time, idle hidden")
	}
	if v.Folding == FoldLibraries {
		parts = append(parts, "own code (c)")
	}
	if v.Filter != "" {
		parts = append(parts, of)
	}
	if mix := v.mostly(v.root(), leastOfAll); mix != "" {
		parts = append(parts, mix)
	}
	if v.Filter == "" {
		parts = append(parts, of)
	}
	switch v.Colour { // say what the colours mean only if the user chose them
	case ColourByState:
		parts = append(parts, "coloured by state")
	case ColourByOrigin:
		parts = append(parts, "coloured by origin")
	}
	if v.Metric == flamegraph.Wall && !v.ShowIdle && v.rest < mostlyRest {
		parts = append(parts, "idle hidden")
	}
	parts = append(parts, when)
	switch {
	case v.Tree == nil:
	case v.Metric == flamegraph.Allocations:
		parts = slices.Insert(parts, 0, style.Estimated(v.Tree.Allocations))
	// exact waits have a time but no samples, so do not write a number of samples
	case few == "" && (v.Tree.Samples > 0 || v.Tree.Root.Total == 0):
		parts = append(parts, Samples(v.Tree.Samples))
	}
	if len(v.Zoom) > 0 {
		parts = append(parts, "zoomed")
	}
	right, inward, outward := "", "▼", "▲"
	if v.Upward {
		inward, outward = outward, inward
	}
	if below := len(v.Picture.Rows) - v.Top - v.Height; below > 0 && v.Height > 0 {
		right = fmt.Sprintf(" %s %d deeper ", inward, below)
	}
	if v.Top > 0 {
		right = fmt.Sprintf(" %s %d", outward, v.Top) + right
	}
	limit := a.W - canvas.Width(right) - 3
	for _, p := range parts {
		st := t.Dimmed()
		if p == of && v.Filter != "" || p == few || v.Search != nil && strings.HasPrefix(p, "/") {
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

// FewSamples is a number of samples. If a flamegraph has fewer, its shares are inexact. For example, with 50 samples a
// share of 50 % is within 14 percentage points of the true share, 19 times in 20.
const FewSamples = 50

// Samples returns a text with a number of samples: "1 sample" or the plural.
func Samples(n int64) string {
	if n == 1 {
		return "1 sample"
	}
	return units.Count(n) + " samples"
}

// Few returns a note if the flamegraph is made from few samples. Otherwise it returns "". For some metrics it also
// returns "", because they are not counted in samples. Waits and blame are measured one by one, and an estimate of
// allocations has its own error.
func (v *Flame) Few() string {
	if v.Tree == nil || v.Metric != flamegraph.Wall && v.Metric != flamegraph.CPU || v.Tree.Samples == 0 || v.Tree.Samples >= FewSamples {
		return ""
	}
	return "only " + Samples(v.Tree.Samples)
}

// Found returns the text of the search, and which share of the flamegraph's time matches it.
func (v *Flame) Found() string {
	s := "/" + StripCase(v.Search.String()) + "/"
	if len(v.Matches.Nodes) == 0 {
		return s + " matches no frame" // this is possible if only the name of a thread matches
	}
	return s + " " + units.Percent(v.Matches.Share)
}

// root returns the node at the root of the picture, which contains all others. It is nil before the first picture.
func (v *flamePicture) root() *flamegraph.Node {
	if v.Tree == nil {
		return nil
	}
	return v.Tree.Root
}

// leastOfAll and leastOfFrame are shares of the time. A state with a smaller share is left out (Flame.mostly).
// leastOfAll is for the whole flamegraph, and leastOfFrame for a single frame.
const (
	leastOfAll   = 0.1
	leastOfFrame = 0.005
)

// mostly returns the names of the two states in which most of a frame's wall time was spent. The frames alone do not
// show this. For example, a method that reads a socket may have spent its time waiting for the GVL. The method returns
// "" for other metrics, because all the weight of such a metric is in one state.
func (v *Flame) mostly(n *flamegraph.Node, least float64) string {
	if n == nil || v.Metric != flamegraph.Wall || n.Total == 0 {
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

// unsure reports whether ddtop has seen too few allocations to say which functions allocate most.
func (v *Flame) unsure() bool {
	return v.Tree != nil && v.Metric == flamegraph.Allocations && !v.Tree.Allocations.Enough()
}

// Draw draws the picture.
func (v *Flame) Draw(a canvas.Area, t *style.Theme, focused, color bool) {
	if v.Tree == nil || v.Tree.Root.Total == 0 || v.unsure() {
		text := "nothing measured yet"
		switch {
		case v.unsure():
			text = style.TooFew(v.Tree.Allocations)
		case v.Tree != nil && v.Tree.Excluded > 0 && !v.ShowIdle && v.Metric == flamegraph.Wall:
			text = "all of it waited for work, was parked or asleep   I shows it"
		case v.Tree != nil && (v.Tree.Samples > 0 || v.Metric == flamegraph.Blame || v.Metric == flamegraph.Wait):
			text = style.NothingOf(v.Metric)
		}
		a.Put(3, a.H/2, canvas.Cut(text, a.W-6), t.Dimmed())
		return
	}
	for y := range a.H {
		i := v.rowAt(y, a.H)
		if i < 0 {
			continue
		}
		row := v.Picture.Rows[i]
		for i := range row {
			v.drawCell(a.Sub(row[i].X, y, row[i].W, 1), &row[i], t, focused, color)
		}
	}
}

func (v *Flame) drawCell(a canvas.Area, c *flamegraph.Cell, t *style.Theme, focused, color bool) {
	if c.Kind == flamegraph.CellBlank || a.W == 0 {
		return
	}
	bg := v.CellColor(c, t)
	st := style.On(bg)
	label := ""
	if c.Node != nil {
		label = c.Node.Text()
		gap, ok := v.gaps[c.Node]
		if ok {
			label = gap
		}
		if ok || c.Node.Kind == flamegraph.RunNode && !v.byState() && !v.Comparing() {
			bg = t.Background.Mix(t.Flame[sampler.OriginUnknown], 0.35)
			st = canvas.Style{FG: style.Toward(t.Dim, t.Text, bg), BG: bg}
		}
	}
	text := c.Text
	// in c.Text, the layout has replaced an escape character by U+FFFD, but views show it as ␛
	if clean := canvas.Clean(label); clean != label {
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
	// do not cut the number, because a part of it would be wrong
	if sign, _ := utf8.DecodeRuneInString(mark); canvas.Width(mark) > a.W {
		mark = string(sign)
	}
	if c.Node != nil && c.Node.Own && v.byState() && !v.Comparing() {
		st.Attr |= canvas.Bold
	}
	hit := c.Node != nil && v.Matches.Nodes[c.Node]
	switch {
	case hit:
		st = canvas.Style{FG: canvas.RGB(style.BlackText), BG: canvas.RGB(style.OkabeYellow), Attr: canvas.Bold | canvas.Underline}
	case v.Search != nil:
		st = style.On(t.Background.Mix(bg, 0.35))
		st.FG = style.Toward(t.Dim, t.Text, st.BG)
	}
	selected := c.Node != nil && c.Node == v.SelNode
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
		// The last column of a frame's cell is paler. Otherwise two cells of the same colour beside each other would
		// look like one.
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
	// Without colours, a cell is drawn as its label and a bar that fills the rest of its width. A space separates it
	// from the next cell.
	bar := '░'
	if selected {
		a.Fill(' ', st)
		bar = ' '
	}
	if a.W == 1 && !hit { // write no letter: it would look like the start of the next label
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

// foreignStrength is how strong a state's colour is on frames of libraries. On the program's own frames it is stronger,
// so that they stand out.
const foreignStrength = 0.72

// CellColor returns the colour of a frame. The colour shows the state in which most of the frame's time was spent, or
// the origin of its code. The frame's name makes the colour lighter or darker. So neighbours differ, and a frame's
// colour is the same in each picture.
func (v *Flame) CellColor(c *flamegraph.Cell, t *style.Theme) canvas.Color {
	n := c.Node
	switch {
	case n == nil:
		return t.Background.Mix(t.Flame[sampler.OriginUnknown], 0.6)
	case c.Kind == flamegraph.CellAncestor:
		return t.Background.Mix(t.Flame[sampler.OriginUnknown], 0.5)
	case v.Comparing():
		return v.diffColor(n, t)
	case !n.IsFrame() && !v.byState():
		return t.Flame[sampler.OriginUnknown]
	}
	h := fnv.New32a()
	h.Write([]byte(n.Label))
	shade := float64(h.Sum32()%7)/6*0.24 - 0.12
	base := t.Flame[v.origins[n.Frame]]
	if v.byState() { // code of libraries is paler
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

// Detail returns a text about the selected frame: its name, place, share and origin.
func (v *Flame) Detail(dict *sampler.Dictionary) (name, rest string) {
	n := v.SelNode
	if n == nil || v.Tree == nil || v.Tree.Root.Total == 0 || v.unsure() {
		return "", ""
	}
	total := float64(v.Tree.Root.Total)
	var parts []string
	origin := ""
	name, place := n.Code()
	if n.IsFrame() {
		if place != "" {
			parts = append(parts, place)
		}
		frame := dict.Frame(n.Frame)
		origin = style.OriginOf(frame).String()
		switch {
		case n.C:
			origin = "C function"
		case frame.Origin == sampler.OriginEval:
			origin = frame.Origin.String()
		case frame.Gem != "":
			origin += " " + frame.Gem
		}
	}
	sum := style.Measure(v.Metric, n.Total)
	if v.Metric.IsTime() && n.Total > v.Tree.ToNS-v.Tree.FromNS {
		sum += " thread-time" // several threads ran at the same time, and their times are added up
	}
	weights := []string{fmt.Sprintf("total %.1f %%", float64(n.Total)/total*100)}
	switch {
	case !v.Inverted:
		weights = append(weights, fmt.Sprintf("self %.1f %%", float64(n.Self)/total*100))
	case n.Parent == v.Tree.Root: // the first frame is the one that was executed
		weights[0] = "self" + strings.TrimPrefix(weights[0], "total")
	}
	if mix := v.mostly(n, leastOfFrame); mix != "" {
		weights = append(weights, mix)
	}
	if n.Uncertain {
		weights = append(weights, "uncertain")
	}
	weights = append(weights, sum)
	// If the text is too long, its end is cut. So the origin comes last: the frame's colour can show it, too.
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
	return name, strings.Join(parts, "  ")
}

// SVGColors returns the colours of the flamegraph on the screen, so that an SVG file can use the same colours.
func (v *Flame) SVGColors(t style.Theme, dict *sampler.Dictionary) *flamegraph.SVGColors {
	if v.Base != nil {
		return nil // the tree of the SVG has no data about the differences
	}
	seen := *v                                              // a copy, because the view can change while the file is written
	seen.origins = make(map[sampler.FrameID]sampler.Origin) // of all frames of the tree
	out := &flamegraph.SVGColors{Fill: func(n *flamegraph.Node) (string, bool) {
		if n.IsFrame() {
			seen.origins[n.Frame] = style.OriginOf(dict.Frame(n.Frame))
		}
		c := seen.CellColor(&flamegraph.Cell{Node: n}, &t)
		return c.Hex(), style.On(c).FG == canvas.RGB(style.WhiteText)
	}}
	if v.byState() {
		for s := range gvl.NumStates {
			out.Legend = append(out.Legend, flamegraph.SVGLegend{Color: t.States[s].Hex(), Text: gvl.State(s).String()})
		}
		return out
	}
	for o := sampler.OriginApp; o <= sampler.OriginCore; o++ {
		out.Legend = append(out.Legend, flamegraph.SVGLegend{Color: t.Flame[o].Hex(), Text: o.String()})
	}
	out.Legend = append(out.Legend, flamegraph.SVGLegend{Color: t.Flame[sampler.OriginUnknown].Hex()})
	return out
}
