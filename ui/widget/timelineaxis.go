package widget

import (
	"strings"
	"time"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// DrawAxis draws the heads of the timeline's columns and the time axis; now is the word for its end, and then for the moment that the
// column beside the names is about.
func (v *Timeline) DrawAxis(a canvas.Area, t *style.Theme, g *scene.Regions, focused bool, now, then string) {
	st := t.Dimmed()
	title := st
	if focused {
		title = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	}
	counted := v.Threads.Counted()
	if canvas.Width(counted) > g.NameW-1 {
		counted, _, _ = strings.Cut(counted, " threads")
	}
	x := a.Put(1, 0, canvas.Cut(counted, g.NameW-1), title)
	// Rows above and below those that are drawn.
	hidden := strings.TrimRight(v.Hidden(), " ")
	a.Put(x, 0, canvas.Cut(hidden, g.NameW+g.NowW-x), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	if x+canvas.Width(hidden) <= g.NameW {
		a.Put(g.NameW+1, 0, then, st)
	}
	axis := a.Sub(g.CellsX, 0, g.CellsW, 1)
	axis.PutRight(0, now, st)
	right := axis.W - canvas.Width(now) - 1
	left := 0
	if v.FrameCells != nil {
		left = v.FrameCells.draw(axis, t)
	}
	v.DrawTicks(axis, left, right, st)
	v.Shares.drawHead(a.Sub(a.W-g.SharesW, 0, g.SharesW, 1), t)
}

// blankShare: up to a tenth of the time axis stays blank on the left.
const BlankShare = 10

// CellAt returns which of n cells is in column x of w: one a column, the newest at the right edge, or, when there
// are much fewer cells than columns, each over several; -1: none.
func CellAt(x, n, w int) int {
	if n == 0 {
		return -1
	}
	if w-n <= w/BlankShare {
		return x - (w - n)
	}
	return x * n / w
}

// tickSteps are the distances that the marks of a time axis may have.
var tickSteps = []time.Duration{100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute}

// tickColumns is the least distance of two marks.
const tickColumns = 8

// DrawTicks marks round times on the axis, from the column left up to the column right.
func (v *Timeline) DrawTicks(axis canvas.Area, left, right int, st canvas.Style) {
	span := v.ToNS - v.FromNS
	if span <= 0 || v.Cells == 0 {
		return
	}
	first, columns := 0, axis.W
	if axis.W-v.Cells <= axis.W/BlankShare {
		first, columns = axis.W-v.Cells, v.Cells
	}
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if int64(columns)*int64(s) >= tickColumns*span {
			step = s
			break
		}
	}
	for ago := (span + int64(step)/20) / int64(step) * int64(step); ago > 0; ago -= int64(step) {
		x := max(first, 0) + max(0, int((span-ago)*int64(columns)/span))
		if label := "-" + style.AxisTime(ago); x >= left && x+canvas.Width(label) < right {
			axis.Put(x, 0, label, st)
		}
	}
}
