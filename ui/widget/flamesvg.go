package widget

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// SVGColors are the colours of the flamegraph as it is on the screen, for a picture of it.
func (v *Flame) SVGColors(t style.Theme, dict *sampler.Dictionary) *flamegraph.SVGColors {
	if v.Base != nil {
		return nil // what differs from another time is not in the tree
	}
	seen := *v                                                // the view goes on changing while the file is written
	seen.origins = make(map[sampler.FrameID]style.Provenance) // of the whole tree, not of what had room alone
	out := &flamegraph.SVGColors{Fill: func(n *flamegraph.Node) (string, bool) {
		if n.IsFrame() {
			seen.origins[n.Frame] = style.ProvenanceOf(dict.Frame(n.Frame))
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
	for p := range style.NumProvenances {
		out.Legend = append(out.Legend, flamegraph.SVGLegend{Color: t.Flame[p].Hex(), Text: style.Provenance(p).String()})
	}
	return out
}
