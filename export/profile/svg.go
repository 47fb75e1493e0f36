package profile

import (
	"io"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
)

// WriteFlamegraph writes the flamegraph of one metric as an SVG file (flamegraph.Tree.WriteSVG). As on the screen, wall
// time leaves out threads that are parked or asleep, and says so.
func WriteFlamegraph(w io.Writer, m Measured, metric flamegraph.Metric) error {
	if err := m.Enough(metric); err != nil {
		return err
	}
	o := flamegraph.Options{Metric: metric}
	what := metric.String()
	if metric == flamegraph.Wall {
		o.States = flamegraph.AllStates &^ flamegraph.States(gvl.Parked, gvl.Sleeping)
		what += " without parked and sleeping threads"
	}
	title := export.ProgramName(m.Process) + " · " + what + " · " + m.Process.WallTime(m.Weights.FromNS).Format("2006-01-02 15:04:05")
	return flamegraph.NewBuilder(m.Dict.Marked()).Build(m.Weights, o).WriteSVG(w, title)
}
