package profile

import (
	"io"
	"slices"

	report "github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
)

// WriteFlamegraph writes the flamegraph of one metric as an SVG file (flamegraph.Tree.WriteSVG). As on the screen,
// wall time leaves out threads at rest, and frames that are not own code are rows. With AllFrames it has both.
func WriteFlamegraph(w io.Writer, m Measured, metric flamegraph.Metric) error {
	if err := m.Enough(metric); err != nil {
		return err
	}
	o := flamegraph.Options{Metric: metric}
	what := metric.String()
	if metric == flamegraph.Wall && !m.AllFrames {
		o.States = flamegraph.AllStates &^ flamegraph.States(gvl.Parked)
		what += " without threads at rest"
	}
	title := report.ProgramName(m.Process) + " · " + what + " · " + m.Process.WallTime(m.Weights.FromNS).Format("2006-01-02 15:04:05")
	t := flamegraph.NewBuilder(m.Dict.Marked()).Build(m.Weights, o)
	if !m.AllFrames && hasOwn(t.Root) {
		t = flamegraph.Fold(t, nil).Tree
	}
	return t.WriteSVG(w, title)
}

// hasOwn reports whether a tree has frames of the program's own code. Stacks bound its depth.
func hasOwn(n *flamegraph.Node) bool {
	return n.Own || slices.ContainsFunc(n.Children, hasOwn)
}
