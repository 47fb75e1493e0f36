package profile

import (
	"fmt"
	"io"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// WriteFlamegraph writes the flamegraph of one metric as an SVG file (flamegraph.Tree.WriteSVG). As on the screen, wall
// time leaves out threads that are parked or asleep, and says so.
func WriteFlamegraph(w io.Writer, m Measured, metric flamegraph.Metric) error {
	return WriteFlamegraphOf(w, []Measured{m}, metric)
}

// WriteFlamegraphOf writes several processes into one flamegraph, whose outermost frames are the processes: a click on
// one shows it alone. A process with too few samples is left out, unless all have too few.
func WriteFlamegraphOf(w io.Writer, list []Measured, metric flamegraph.Metric) error {
	o := flamegraph.Options{Metric: metric}
	what := metric.String()
	if metric == flamegraph.Wall {
		o.States = flamegraph.AllStates &^ flamegraph.States(gvl.Parked, gvl.Sleeping)
		what += " without parked and sleeping threads"
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
		name = flamegraph.Printable(list[0].Process.Title) + ", " + units.Plural(len(list), "process", "processes")
	}
	title := name + " · " + what + " · " + list[0].Process.WallTime(list[0].Weights.FromNS).Format("2006-01-02 15:04:05")
	return flamegraph.Joined(trees).WriteSVG(w, title)
}
