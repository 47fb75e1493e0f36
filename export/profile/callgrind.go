package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// callgrindEvents are the costs in a callgrind file, in the order of their columns.
var callgrindEvents = [...]struct {
	name   string
	metric flamegraph.Metric
}{
	{"WallNS", flamegraph.Wall}, {"CPUNS", flamegraph.CPU}, {"GVLWaitNS", flamegraph.Wait}, {"BlameNS", flamegraph.Blame},
	{"Samples", flamegraph.Samples},
}

// callgrindSamples is the index of the event "Samples" in callgrindEvents.
const callgrindSamples = len(callgrindEvents) - 1

// callgrindCost has a value for each of callgrindEvents.
type callgrindCost [len(callgrindEvents)]int64

func (c *callgrindCost) add(w *flamegraph.Weights) {
	for i, e := range callgrindEvents {
		c[i] += w.Of(e.metric)
	}
}

func (c *callgrindCost) text() string {
	words := make([]string, len(c))
	for i, v := range c {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, " ")
}

// callgrindPlace is a line in a function. The field function is an index in callgrindWriter.functions.
type callgrindPlace struct{ function, line int32 }

// callgrindCall is a call from a place to a function.
type callgrindCall struct {
	from   callgrindPlace
	callee int32
}

type callgrindFunction struct {
	flamegraph.FuncKey
	self  map[int32]*callgrindCost // the cost of the function itself, by line
	calls map[callgrindCall]*callgrindCost
}

type callgrindWriter struct {
	dict      *sampler.Dictionary
	functions []callgrindFunction
	index     map[flamegraph.FuncKey]int32
	places    map[sampler.FrameID]callgrindPlace
	total     callgrindCost
	frames    []sampler.FrameID
	seen      []callgrindCall
}

// WriteCallgrind writes costs by function, line and call in Callgrind's format, for KCachegrind and callgrind_annotate.
// A sampler does not see how often a function is called. So the written count of a call is the number of stacks that
// contain the call. It is at least 1, because viewers add the cost of a call with count 0 to the caller's own cost. If
// recursion repeats a call in a stack, the call counts once.
func WriteCallgrind(w io.Writer, m Measured, metric flamegraph.Metric) error {
	return WriteCallgrindOf(w, []Measured{m}, metric)
}

// WriteCallgrindOf writes several processes into one file, as Callgrind itself does: each process is a part of the
// file. In KCachegrind, the user chooses the parts to show.
func WriteCallgrindOf(w io.Writer, list []Measured, _ flamegraph.Metric) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "# callgrind format\n")
	numbers := callgrindNames{callgrindNumbers{}, callgrindNumbers{}}
	for i, m := range list {
		if i > 0 {
			fmt.Fprintln(out)
		}
		writeCallgrindPart(out, m, i+1, len(list), numbers)
	}
	return out.Flush()
}

func writeCallgrindPart(out *bufio.Writer, m Measured, part, of int, names callgrindNames) {
	c := callgrindWriter{dict: m.Dict.Marked(), index: make(map[flamegraph.FuncKey]int32), places: make(map[sampler.FrameID]callgrindPlace)}
	for _, e := range m.Ordered(false, false) {
		c.add(&e)
	}
	name := callgrindName(export.ProgramName(m.Process))
	fmt.Fprintf(out, "version: 1\ncreator: ddtop\npid: %d\ncmd: %s\n", m.Process.PID, name)
	if of > 1 {
		fmt.Fprintf(out, "part: %d\n", part)
	}
	for _, text := range comments(m) {
		fmt.Fprintf(out, "desc: %s\n", callgrindName(text))
	}
	fmt.Fprint(out, "positions: line\nevents:")
	for _, e := range callgrindEvents {
		fmt.Fprintf(out, " %s", e.name)
	}
	fmt.Fprintf(out, "\nsummary: %s\n", c.total.text())
	c.write(out, names)
}

// callgrindNames abbreviates the names of files and functions. All parts of a file share these abbreviations.
type callgrindNames struct{ files, functions callgrindNumbers }

func (c *callgrindWriter) add(e *flamegraph.Entry) {
	c.total.add(&e.Weights)
	c.frames = c.dict.Frames(e.Key.Stack, c.frames[:0])
	if len(c.frames) == 0 {
		c.frames = append(c.frames, 0)
	}
	at := c.at(c.frames[0])
	self := c.functions[at.function].self
	if self[at.line] == nil {
		self[at.line] = new(callgrindCost)
	}
	self[at.line].add(&e.Weights)
	c.seen = c.seen[:0]
	for _, frame := range c.frames[1:] {
		call := callgrindCall{c.at(frame), at.function}
		at = call.from
		if slices.Contains(c.seen, call) {
			continue
		}
		c.seen = append(c.seen, call)
		calls := c.functions[at.function].calls
		if calls[call] == nil {
			calls[call] = new(callgrindCost)
		}
		calls[call].add(&e.Weights)
	}
}

// at returns the place (function and line) of a frame. If id is zero, there is no frame. The place is then in the
// function with the name flamegraph.NoStack.
func (c *callgrindWriter) at(id sampler.FrameID) callgrindPlace {
	if p, ok := c.places[id]; ok {
		return p
	}
	k, p := flamegraph.FuncKey{Label: flamegraph.NoStack}, callgrindPlace{}
	if id != 0 {
		f := c.dict.Frame(id)
		k, p.line = flamegraph.FuncKey{Label: callgrindName(f.Label), File: callgrindName(f.File()), Line: f.FirstLine}, f.Line
	}
	n, ok := c.index[k]
	if !ok {
		n = int32(len(c.functions))
		c.functions = append(c.functions, callgrindFunction{k, make(map[int32]*callgrindCost), make(map[callgrindCall]*callgrindCost)})
		c.index[k] = n
	}
	p.function = n
	c.places[id] = p
	return p
}

func (c *callgrindWriter) write(out *bufio.Writer, n callgrindNames) {
	files, names := n.files, n.functions
	for i := range c.functions {
		f := &c.functions[i]
		fmt.Fprintf(out, "\nfl=%s\nfn=%s\n", files.of(f.File), names.of(f.Label))
		for _, line := range slices.SortedFunc(maps.Keys(f.self), cmp.Compare[int32]) {
			fmt.Fprintf(out, "%d %s\n", line, f.self[line].text())
		}
		calls := sorting.Sorted(maps.Keys(f.calls), func(x, y callgrindCall) int {
			return cmp.Or(cmp.Compare(x.from.line, y.from.line), cmp.Compare(x.callee, y.callee))
		})
		for _, call := range calls {
			callee := &c.functions[call.callee]
			fmt.Fprintf(out, "cfi=%s\ncfn=%s\ncalls=%d %d\n%d %s\n", files.of(callee.File), names.of(callee.Label),
				max(f.calls[call][callgrindSamples], 1), callee.Line, call.from.line, f.calls[call].text())
		}
	}
}

// callgrindNumbers assigns numbers to names, as abbreviations. The file has "(3) name" where a name first occurs, and
// then only "(3)".
type callgrindNumbers map[string]int

func (n callgrindNumbers) of(name string) string {
	if id, ok := n[name]; ok {
		return fmt.Sprintf("(%d)", id)
	}
	n[name] = len(n) + 1
	if name == "" {
		name = "???"
	}
	return fmt.Sprintf("(%d) %s", len(n), name)
}

// callgrindName returns a name without the characters that have a special meaning in Callgrind's format.
func callgrindName(s string) string {
	return strings.TrimSpace(flamegraph.Printable(strings.NewReplacer("\n", " ", "\r", " ").Replace(s)))
}
