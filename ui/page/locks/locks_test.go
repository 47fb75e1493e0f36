package locks

import (
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestNoPlaceIsSelectedByItself: the place of which no stack was read is one like the others.
func TestNoPlaceIsSelectedByItself(t *testing.T) {
	p := New(new(widget.Parts))
	for _, b := range []flamegraph.PlaceSum{{Place: flamegraph.Place{Method: "Order#total"}, NS: 2}, {NS: 1}} {
		row := placeRow{&b}
		p.ByPlace.Rows, p.Both.Rows = append(p.ByPlace.Rows, row), append(p.Both.Rows, row.ID())
	}
	if i := p.ByPlace.Index(); i != -1 {
		t.Errorf("row %d is selected", i)
	}
	p.move(nil, widget.Step{Rows: scene.MaxRows})
	if i := p.ByPlace.Index(); i != 1 {
		t.Errorf("row %d is selected, of the last one", i)
	}
}
