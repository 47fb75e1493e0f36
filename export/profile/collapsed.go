package profile

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

// WriteCollapsed writes Brendan Gregg's collapsed stacks. Each thread, stack and state is a line:
//
//	thread;outer;inner;[state] N
//
// N is the metric's value: a time in µs, rounded, or a number of samples or objects. Lines that round to 0 are left
// out. Semicolons and line breaks in names are replaced, because the format has no escapes. If m.Own is set, threads
// with the same name share their lines.
func WriteCollapsed(w io.Writer, m Measured, metric flamegraph.Metric) error {
	if err := m.Enough(metric); err != nil {
		return err
	}
	m = m.Marked()
	out := bufio.NewWriter(w)
	if m.Own {
		m.collapseOwn(out, metric)
		return out.Flush()
	}
	var frames []sampler.FrameID
	value := m.Weights.Values(metric)
	for _, e := range m.Ordered(false, false) {
		v := CollapsedValue(value(e.Weights), metric)
		if v <= 0 {
			continue
		}
		fmt.Fprint(out, CollapsedName(gvl.ThreadName(e.Key.Thread, m.Dict)))
		frames = m.Dict.Frames(e.Key.Stack, frames[:0])
		slices.Reverse(frames)
		for _, f := range frames {
			fmt.Fprintf(out, ";%s", CollapsedName(m.Dict.Frame(f).Label))
		}
		if len(frames) == 0 {
			fmt.Fprintf(out, ";%s", flamegraph.NoStack)
		}
		fmt.Fprintf(out, ";[%s] %d\n", e.Key.State, v)
	}
	return out.Flush()
}

// CollapsedValue converts a weight into the unit that collapsed stacks use: µs, samples or objects.
func CollapsedValue(v int64, metric flamegraph.Metric) int64 {
	if metric.IsTime() {
		v = (v + 500) / 1000
	}
	return v
}

// collapseOwn writes the tree of the program's own code. Adjacent frames of other code are merged into one frame. The
// name of this frame does not say how many frames were merged. So the name is the same in two measurements, and they
// can be compared.
func (m Measured) collapseOwn(out *bufio.Writer, metric flamegraph.Metric) {
	whole := flamegraph.NewBuilder(m.Dict).Build(m.Weights, flamegraph.Options{Metric: metric,
		Root: func(id sampler.ThreadID) string {
			info, _ := m.Dict.Thread(id)
			info.Twin = 0
			return gvl.NameOf(id, info)
		}})
	var write func(n *flamegraph.Node, path string) // recursion is as deep as the tree
	write = func(n *flamegraph.Node, path string) {
		for st, v := range n.StateSelf {
			if v = CollapsedValue(v, metric); v > 0 {
				fmt.Fprintf(out, "%s;[%s] %d\n", path, gvl.State(st), v)
			}
		}
		for _, c := range n.Children {
			name := c.Label
			switch c.Kind {
			case flamegraph.RunNode:
				name = "⋯ " + c.Libraries()
			case flamegraph.NoStackNode:
				name = flamegraph.NoStack
			}
			write(c, path+";"+CollapsedName(name))
		}
	}
	for _, thread := range flamegraph.Fold(whole, nil).Tree.Root.Children {
		write(thread, CollapsedName(thread.Label))
	}
}

var collapsedReplacer = strings.NewReplacer(";", ":", "\n", " ", "\r", " ")

func CollapsedName(s string) string { return flamegraph.Printable(collapsedReplacer.Replace(s)) }
