package ui

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// baseKind is what the flamegraph is compared with.
type baseKind uint8

const (
	noBase      baseKind = iota
	againstBase          // another recording
	markBase             // the time before a mark
	shownBase            // the time that was shown when the key was pressed
)

// compareAgainst compares with the other recording.
func (v *flameView) compareAgainst() {
	v.base, v.baseKind, v.baseWhen = &v.against.weights, againstBase, v.against.about()
}

// compare goes on from comparing with nothing to the other recording, if there is one, to the time before the last mark, if there is one, to the time shown now, and
// back to nothing. The stretch of time is as long as the one shown, which { and } change.
func compare(m *Model) {
	v := &m.flame
	if m.lastNS == 0 {
		return
	}
	was := v.baseKind
	v.base, v.baseKind, v.baseWhen = nil, noBase, ""
	span := style.AxisTime(m.windowNS)
	switch n := m.notes.last(m.atNS); {
	case was == noBase && v.against != nil:
		v.compareAgainst()
		m.message.say("compared from now on with " + v.baseWhen + "; = goes on to a time of this one")
	case was <= againstBase && n != nil:
		base := new(flamegraph.Snapshot)
		m.store.Read(func(r *store.Reading) { r.Rolling.SnapshotRange(n.AtNS-m.windowNS, n.AtNS, base) })
		if len(base.Entries) > 0 {
			v.base, v.baseKind = base, markBase
			v.baseWhen = fmt.Sprintf("%s before %q", span, canvas.Cut(n.Text, 20))
			m.message.say("compared from now on with the " + v.baseWhen + "; = takes the time shown now instead")
			break
		}
		fallthrough // nothing is kept of that time
	case was != shownBase:
		s := &m.weights
		v.base = &flamegraph.Snapshot{FromNS: s.FromNS, ToNS: s.ToNS, Entries: append([]flamegraph.Entry(nil), s.Entries...),
			Overflow: s.Overflow, Dropped: s.Dropped}
		v.baseKind = shownBase
		v.baseWhen = span + " until " + m.process.WallTime(m.atNS).Format("15:04:05")
		m.message.say("compared from now on with the " + v.baseWhen + ": go to another time with [ ], or wait; = stops")
	}
	m.Refresh()
}

// loadDiff compares the whole tree with the one of the base, both scaled to the same whole.
func (v *flameView) loadDiff(o flamegraph.Options, weights *flamegraph.Snapshot, dict *sampler.Dictionary) {
	v.diff, v.diffSelf, v.changes = nil, nil, nil
	if !v.comparing() {
		return
	}
	if v.baseKind == againstBase {
		v.loadAgainst(o, weights, dict)
		return
	}
	before := v.builder.Build(v.base, o)
	v.diff, v.diffSelf = make(map[*flamegraph.Node]float64), make(map[*flamegraph.Node]float64)
	if before.Root.Total == 0 || v.whole.Root.Total == 0 {
		return
	}
	d := flamegraph.Diff(before, v.whole, diffScale)
	own := make(map[string]float64)
	v.addDiff(d, own)
	v.takeChanges(own)
}

// takeChanges lists the functions whose own time changed, by how much of the whole.
func (v *flameView) takeChanges(own map[string]float64) {
	for label, delta := range own {
		if math.Abs(delta) >= leastChange {
			v.changes = append(v.changes, change{label, delta})
		}
	}
	slices.SortFunc(v.changes, func(x, y change) int {
		return cmp.Or(cmp.Compare(math.Abs(y.share), math.Abs(x.share)), cmp.Compare(x.label, y.label))
	})
}

// change is by how much of the whole a function's own time changed.
type change struct {
	label string
	share float64
}

// leastChange is the smallest change that is named.
const leastChange = 0.0005

// diffScale is what a whole tree weighs in a comparison.
const diffScale = 1 << 40

// addDiff notes by how much of the whole each node of the tree changed, and sums the changes of own time by function. Its
// depth is bounded by the tree's.
func (v *flameView) addDiff(d *flamegraph.DiffNode, own map[string]float64) {
	own[d.Label] += float64(d.SelfDelta) / diffScale
	if d.After != nil {
		v.diff[d.After] = float64(d.TotalDelta) / diffScale
		v.diffSelf[d.After] = float64(d.SelfDelta) / diffScale
	}
	for _, c := range d.Children {
		v.addDiff(c, own)
	}
}

// diffColor goes from blue (less) over grey to vermilion (more): the two ends can be distinguished with any kind of colour
// blindness.
func (v *flameView) diffColor(n *flamegraph.Node, t *style.Theme) canvas.Color {
	const full = 0.2 // of the whole
	grey := t.Background.Mix(t.Flame[style.FromThread], 0.45)
	d := v.change(n)
	s := min(math.Sqrt(math.Abs(d)/full), 1)
	if d < 0 {
		return grey.Mix(canvas.RGB(style.OkabeBlue), s)
	}
	return grey.Mix(canvas.RGB(style.OkabeVermilion), s)
}

// diffMark is the change of a node in front of its label: colour alone must not carry it.
func (v *flameView) diffMark(n *flamegraph.Node) string {
	if !v.comparing() {
		return ""
	}
	return points(v.change(n)) + " "
}

// points prints a change of a share: "+3.1", "–0.4", "±0".
func points(d float64) string {
	switch p := math.Abs(d) * 100; {
	case p < 0.05:
		return "±0"
	case d < 0:
		return fmt.Sprintf("–%.1f", p)
	default:
		return fmt.Sprintf("+%.1f", p)
	}
}

// drawChanges names the functions whose own time changed most, those that are gone too.
func (v *flameView) drawChanges(a canvas.Area, t *style.Theme) {
	about := "change of own time, in percentage points:"
	if v.baseKind == againstBase { // which has no room above on a narrow screen
		about = "own time against " + v.baseWhen + ", in points:"
	}
	x := a.Put(1, 0, about, t.Dimmed())
	for _, d := range v.changes {
		s := points(d.share) + " " + flamegraph.LabelFit(canvas.Clean(d.label), 30)
		if x+2+canvas.Width(s) > a.W {
			return
		}
		c := canvas.RGB(style.OkabeVermilion)
		if d.share < 0 {
			c = canvas.RGB(style.OkabeSkyBlue)
		}
		x = a.Put(x+2, 0, s, canvas.Style{FG: t.Readable(c), Attr: canvas.Bold})
	}
}
