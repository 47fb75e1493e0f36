package ui

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestSnapshotHasTheScreensColors: the flamegraph in a snapshot has the same colours as the one on the screen. The
// colours show the origin of the code or the state of the thread.
func TestSnapshotHasTheScreensColors(t *testing.T) {
	for _, colour := range []widget.Colouring{widget.ColourByState, widget.ColourByOrigin} {
		s := hogged(t, 120, 40)
		v := &s.model.Flame
		v.Colour = colour
		s.model.Refresh()
		colors := v.SVGColors(s.model.Theme, s.model.Dict)
		var b strings.Builder
		if err := v.Tree.WriteSVGIn(&b, "title", colors); err != nil {
			t.Fatal(err)
		}
		drawn := 0
		for _, row := range v.Picture.Rows {
			for i := range row {
				c := &row[i]
				if c.Kind == flamegraph.CellAncestor || c.Node == nil || !c.Node.IsFrame() {
					continue
				}
				drawn++
				if want := `fill="` + v.CellColor(c, &s.model.Theme).Hex() + `"`; !strings.Contains(b.String(), want) {
					t.Errorf("colouring %v: %s is %s on the screen, which is not in the picture", colour, c.Node.Label, want)
				}
			}
		}
		if drawn == 0 || len(colors.Legend) == 0 || !strings.Contains(b.String(), colors.Legend[0].Text) {
			t.Errorf("colouring %v: %d frames on the screen, legend %v", colour, drawn, colors.Legend)
		}
	}
}

// TestNotesOnTheAxis: a note can cover a part of a time on the axis, such as "-25s". Then the whole time must
// disappear, because the rest, such as "5s", would look like another time.
func TestNotesOnTheAxis(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("space", "[", "[")
	s.press("m")
	s.typed("a deploy that went wrong")
	s.press("enter", "space")
	row := ""
	for _, line := range strings.Split(s.model.grid.Text(), "\n") {
		if strings.Contains(line, "a deploy that") {
			row = line
			break
		}
	}
	if row == "" {
		t.Fatalf("no note on the axis:\n%s", s.model.grid.Text())
	}
	axis := row[strings.Index(row, "a deploy"):]
	for _, word := range strings.Fields(row[:len(row)-len(axis)] + " " + axis) {
		if strings.HasSuffix(word, "s") && strings.Trim(word, "0123456789s") == "" {
			t.Errorf("%q is a part of a mark in %q", word, row)
		}
	}
}
