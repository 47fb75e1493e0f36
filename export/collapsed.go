package export

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// WriteCollapsed writes Brendan Gregg's collapsed stacks: one line a thread, stack and state, "thread;outer;inner;[state]
// N", N in µs of the metric rounded to the nearest (or samples, or objects), lines that round to 0 left out. Semicolons and
// line breaks in names are replaced, since the format has no escapes.
func WriteCollapsed(w io.Writer, m Measured, metric flamegraph.Metric) error {
	if err := m.enough(metric); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	var frames []sampler.FrameID
	value := m.Weights.Values(metric)
	for _, e := range m.ordered() {
		v := value(e.Weights)
		if metric.IsTime() {
			v = (v + 500) / 1000
		}
		if v <= 0 {
			continue
		}
		fmt.Fprint(out, collapsedName(gvl.ThreadName(e.Key.Thread, m.Dict)))
		frames = m.Dict.Frames(e.Key.Stack, frames[:0])
		slices.Reverse(frames)
		for _, f := range frames {
			fmt.Fprintf(out, ";%s", collapsedName(m.Dict.Frame(f).Label))
		}
		if len(frames) == 0 {
			fmt.Fprintf(out, ";%s", noStackName)
		}
		fmt.Fprintf(out, ";[%s] %d\n", e.Key.State, v)
	}
	return out.Flush()
}

var collapsedReplacer = strings.NewReplacer(";", ":", "\n", " ", "\r", " ")

func collapsedName(s string) string { return flamegraph.Printable(collapsedReplacer.Replace(s)) }
