package widget

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// baseKind is the kind of data with which the flamegraph is compared, such as an earlier time or another recording.
type baseKind uint8

const (
	NoBase      baseKind = iota
	AgainstBase          // another recording
	MarkBase             // the time before a mark
	ShownBase            // the time that was shown when the key was pressed
)

// CompareAgainst compares with the other recording.
func (v *flameBase) CompareAgainst() {
	v.Base, v.BaseKind, v.BaseWhen = &v.Against.Weights, AgainstBase, v.Against.About()
}

// loadDiff compares the tree of all frames with a second tree. The second tree is made from the weights in Base, or
// from another recording. In both trees, the weights are shares of the tree's total.
func (v *Flame) loadDiff(o flamegraph.Options, weights *flamegraph.Snapshot, dict *sampler.Dictionary) {
	v.Diff, v.diffSelf, v.Changes = nil, nil, nil
	if !v.Comparing() {
		return
	}
	if v.BaseKind == AgainstBase {
		v.loadAgainst(o, weights, dict)
		return
	}
	before := v.Builder.Build(v.Base, o)
	v.compare(before, v.Whole, flamegraph.Diff{BeforeWhole: float64(before.Root.Total), AfterWhole: float64(v.Whole.Root.Total)})
}

// compare computes how much the share of each node of the tree has changed. It also lists the functions whose own time
// (without callees) has changed.
func (v *flameBase) compare(before, after *flamegraph.Tree, d flamegraph.Diff) {
	v.Diff, v.diffSelf = make(map[*flamegraph.Node]float64), make(map[*flamegraph.Node]float64)
	if d.BeforeWhole == 0 || d.AfterWhole == 0 {
		return
	}
	own := make(map[string]float64)
	d.Visit = func(after *flamegraph.Node, label string, self, total float64) {
		own[label] += self
		if after != nil {
			v.Diff[after], v.diffSelf[after] = total, self
		}
	}
	d.Trees(before, after)
	for label, delta := range own {
		if math.Abs(delta) >= LeastChange {
			v.Changes = append(v.Changes, change{label, delta})
		}
	}
	sorting.By(v.Changes, func(x, y change) int {
		return cmp.Or(cmp.Compare(math.Abs(y.Share), math.Abs(x.Share)), cmp.Compare(x.Label, y.Label))
	})
}

// change says how much a function's own time (without callees) has changed, as a share of the total time.
type change struct {
	Label string
	Share float64
}

// LeastChange is the smallest change of a share that the list shows: 0.05 percentage points. Smaller changes would be
// shown as 0 (Points).
const LeastChange = 0.0005

// diffColor returns the colour that shows how a node has changed: blue for less, grey for the same, vermilion for more.
// People with any kind of colour blindness can distinguish blue and vermilion.
func (v *Flame) diffColor(n *flamegraph.Node, t *style.Theme) canvas.Color {
	const full = 0.2 // the change, as a share of the total, that has the full colour
	grey := t.Background.Mix(t.Flame[sampler.OriginUnknown], 0.45)
	d := v.change(n)
	s := min(math.Sqrt(math.Abs(d)/full), 1)
	if d < 0 {
		return grey.Mix(canvas.RGB(style.OkabeBlue), s)
	}
	return grey.Mix(canvas.RGB(style.OkabeVermilion), s)
}

// diffMark returns how a node has changed, as text. It is written before the node's label, because colour alone must
// not carry this information.
func (v *Flame) diffMark(n *flamegraph.Node) string {
	if !v.Comparing() {
		return ""
	}
	return Points(v.change(n)) + " "
}

// Points returns how much a share has changed, as text in percentage points: "+3.1", "–0.4", "±0".
func Points(d float64) string {
	switch p := math.Abs(d) * 100; {
	case p < 0.05:
		return "±0"
	case d < 0:
		return fmt.Sprintf("–%.1f", p)
	default:
		return fmt.Sprintf("+%.1f", p)
	}
}

// DrawChanges lists the functions whose own time (without callees) has changed most. It also has functions that are
// called only in the other time or recording.
func (v *flameBase) DrawChanges(a canvas.Area, t *style.Theme) {
	about := "change of own time, in percentage points:"
	if v.BaseKind == AgainstBase { // on a narrow screen, the line above has no room for the recording's name
		about = "own time against " + v.BaseWhen + ", in points:"
	}
	x := a.Put(1, 0, about, t.Dimmed())
	for _, d := range v.Changes {
		s := Points(d.Share) + " " + flamegraph.LabelFit(canvas.Clean(d.Label), 30)
		if x+2+canvas.Width(s) > a.W {
			return
		}
		c := canvas.RGB(style.OkabeVermilion)
		if d.Share < 0 {
			c = canvas.RGB(style.OkabeSkyBlue)
		}
		x = a.Put(x+2, 0, s, canvas.Style{FG: t.Readable(c), Attr: canvas.Bold})
	}
}
