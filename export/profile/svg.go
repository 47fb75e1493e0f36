package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// WriteFlamegraph writes the flamegraph of one metric as an SVG file (flamegraph.Tree.WriteSVG). As on the screen,
// wall time leaves out threads at rest, and frames that are not own code are rows. With AllFrames it has both.
func WriteFlamegraph(w io.Writer, m Measured, metric flamegraph.Metric) error {
	return WriteFlamegraphOf(w, []Measured{m}, metric)
}

// WriteFlamegraphOf writes several processes into one flamegraph, whose outermost frames are the processes: a click on
// one shows it alone. A process with too few samples is left out, unless all have too few.
func WriteFlamegraphOf(w io.Writer, list []Measured, metric flamegraph.Metric) error {
	all := len(list) > 0 && list[0].AllFrames // an option: all have the same
	o := flamegraph.Options{Metric: metric}
	what := metric.String()
	if metric == flamegraph.Wall && !all {
		o.States = flamegraph.AllStates &^ flamegraph.States(gvl.Parked)
		what += " without threads at rest"
	}
	var trees []*flamegraph.Tree
	var lacks error
	for i := range list {
		m := &list[i]
		if err := m.Enough(metric); err != nil {
			lacks = err
			continue
		}
		if len(list) > 1 {
			name := fmt.Sprintf("%s [%d]", export.ProgramName(m.Process), m.Process.PID)
			o.Root = func(sampler.ThreadID) string { return name }
		}
		trees = append(trees, flamegraph.NewBuilder(m.Dict.Marked()).Build(m.Weights, o))
	}
	if len(trees) == 0 {
		return lacks
	}
	name := export.ProgramName(list[0].Process)
	if len(list) > 1 {
		name = flamegraph.Printable(cmp.Or(list[0].Process.Title, "ruby")) + ", " + units.Plural(len(list), "process", "processes")
	}
	title := name + " · " + what + " · " + list[0].Process.WallTime(list[0].Weights.FromNS).Format("2006-01-02 15:04:05")
	t := flamegraph.Joined(trees)
	if !all && hasOwn(t.Root) {
		t = flamegraph.Fold(t, nil).Tree
	}
	return t.WriteSVG(w, title)
}

// hasOwn reports whether a tree has frames of the program's own code. Stacks bound its depth.
func hasOwn(n *flamegraph.Node) bool {
	return n.Own || slices.ContainsFunc(n.Children, hasOwn)
}
