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
// wall time excludes threads at rest, and adjacent frames that are not the program's own code are merged. With
// AllFrames, the graph has all threads and all frames.
func WriteFlamegraph(w io.Writer, m Measured, metric flamegraph.Metric) error {
	return WriteFlamegraphOf(w, []Measured{m}, metric)
}

// WriteFlamegraphOf writes several processes into one flamegraph. The outermost frames are the processes, and a click
// on a process shows only this process. It leaves out processes with too few samples, unless all have too few.
func WriteFlamegraphOf(w io.Writer, list []Measured, metric flamegraph.Metric) error {
	all := len(list) > 0 && list[0].AllFrames // an option, so all processes have the same value
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

// hasOwn reports whether a tree has frames of the program's own code. It recurses as deep as the longest stack.
func hasOwn(n *flamegraph.Node) bool {
	return n.Own || slices.ContainsFunc(n.Children, hasOwn)
}
