package scene

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/store"
)

// An ExactSwitch switches exact mode (docs/reference/exact.md) of the shown process on and off. The screen calls Exact
// and EndExact in the background, one at a time. It calls ExactStatus for each picture, so ExactStatus must not wait
// for the other two.
type ExactSwitch interface {
	// Exact puts the probes into the process. If it fails, nothing is in the process, and the error is a sentence with
	// the reason and what to do.
	Exact(ctx context.Context) error
	// EndExact removes the probes. If it fails, the error says why they may still be there.
	EndExact() error
	ExactStatus() sampler.ExactStatus
}

// A NativeSwitch switches C stacks of running threads (docs/reference/native.md) on and off. The screen calls Start and
// End in the background, one at a time. On and Failed must not wait for them.
type NativeSwitch interface {
	// Start fails with a sentence that has the reason and what to do.
	Start(ctx context.Context) error
	End() error
	On() bool
	// Failed returns why no stacks can be taken. It is empty if they can, or if that was not tried.
	Failed() string
}

// A HeapReader reads the heap of a process from outside, while the process runs on (docs/tasks/heap.md). Its methods
// take seconds. The screen calls them in the background.
type HeapReader interface {
	// Count counts the objects. If the parameter memory is true, Count also returns what the resident memory consists
	// of. These MemoryParts are nil if they cannot be read.
	Count(ctx context.Context, memory bool) (*sampler.HeapCount, *sampler.MemoryParts, error)
	// Explain returns lines of text: what holds the objects of a class, or the largest objects if class is empty.
	// progress receives how many pages have been copied. hurry returns true as soon as the user wants the answer
	// quickly. Then the rest is copied with a whole CPU, even if this exceeds the budget.
	Explain(ctx context.Context, class string, hurry func() bool, progress func(done, total int)) (string, error)
}

// The defaults of Options.
const (
	DefaultWindow  = 30 * time.Second
	defaultRepaint = 250 * time.Millisecond
	// MaxHistory is the longest allowed Options.History.
	MaxHistory = time.Hour
	// MinRepaint is the shortest time between two pictures: ten per second.
	MinRepaint = 100 * time.Millisecond
)

// Options are the options of Run. Either Source or Group must be set. All other fields are optional.
type Options struct {
	// Source is the process or recording to show. Run runs it and does not close it.
	Source sampler.Source
	// Group is shown instead of Source if it is not nil: several processes, each with its Source. Run follows it and
	// does not close it.
	Group sampler.Group
	// Window is the time span on the screen, by default DefaultWindow. History is how much of the past is kept, by
	// default DefaultHistory, and at least Window. Repaint is the time between two pictures, by default
	// defaultRepaint.
	Window, History, Repaint time.Duration
	// Theme is one of Themes. Empty means auto.
	Theme string
	// NoColor leaves colours out, as NO_COLOR in the environment does (https://no-color.org). ASCII draws with ASCII
	// characters only.
	NoColor, ASCII bool
	// Redactor removes identifying data from everything, including snapshots and recordings. Nil removes nothing.
	Redactor *redact.Redactor
	// Args shows whole command lines in the table of processes, which may hold secrets. Redactor overrides it.
	Args bool
	// NoMouse leaves the mouse to the terminal.
	NoMouse bool
	// Keys gives keys the meaning of other keys, by Bubble Tea's names: "f" → "space" (see CheckKey).
	Keys map[string]string
	// Rules are the rules of findings. Nil means all rules with their default thresholds. The caller must not change
	// them after Run starts.
	Rules *findings.Rules
	// WaitThreshold hides shorter waits in lists of waits. Totals, shares and quantiles count all waits.
	WaitThreshold time.Duration
	// Folder is where snapshots are saved, by default the working folder.
	Folder string
	// Notice is shown at the bottom until the first key press, for example the file with the program's output.
	Notice string
	// Against is another recording with which the flamegraph and the top functions are compared. It may be nil.
	Against *Against
	// Exact switches exact mode on and off. It is nil if this is impossible: for a recording, and for several
	// processes.
	Exact ExactSwitch
	// Native switches C stacks of running threads on and off. It is nil if this is impossible, as Exact is.
	Native NativeSwitch
	// Heap returns the reader of the heap of a process. It is nil if no heap can be read, as for a recording.
	Heap func(pid int) HeapReader
	// Below is true if the caller can also show the processes below the target. Run then returns ErrBelow when the
	// user wants to see them.
	Below bool
	// Replay is true if the Source is a recording. Then its end is not the end of a process.
	Replay bool
	// Suspend lets ctrl-z and SIGTSTP stop ddtop and give the terminal back until ddtop goes on. Set it only if a shell
	// can let ddtop go on.
	Suspend bool
	// Input and Output are the terminal, by default standard input and output.
	Input  io.Reader
	Output io.Writer

	// Tmux is true if the environment shows that the terminal is tmux's.
	Tmux bool
}

func (o Options) WithDefaults() Options {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.History <= 0 {
		o.History = store.DefaultHistory
	}
	o.History = min(max(o.History, o.Window), MaxHistory)
	if o.Repaint <= 0 {
		o.Repaint = defaultRepaint
	}
	o.Repaint = max(o.Repaint, MinRepaint)
	if o.Folder == "" {
		o.Folder = "."
	}
	return o
}

// A SwitchFollower is an ExactSwitch that also reports whether its process is followed by its thread switches
// (docs/reference/switches.md).
type SwitchFollower interface {
	SwitchStatus() sampler.SwitchStatus
}

// Against is another recording with which the flamegraph and the top functions are compared.
type Against struct {
	Name    string
	Process sampler.Process
	Dict    *sampler.Dictionary
	Weights flamegraph.Snapshot
	Builder *flamegraph.Builder
}

// spanNS is how long the recording is, in ns.
func (x *Against) spanNS() int64 { return x.Weights.ToNS - x.Weights.FromNS }

// About returns a text with the recording's name, its length, and the time of its end.
func (x *Against) About() string {
	return fmt.Sprintf("%s: %s until %s", x.Name, units.ProseDuration(x.spanNS()), x.Process.WallTime(x.Weights.ToNS).Format("15:04:05"))
}

// Factor returns the factor that scales the recording's weights to the length of another snapshot.
func (x *Against) Factor(of *flamegraph.Snapshot) float64 {
	return float64(of.ToNS-of.FromNS) / float64(x.spanNS())
}

// threadPattern returns a thread's name without digits, because worker-1 of one process matches worker-7 of another.
func threadPattern(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// RootLike returns a function that labels the recording's threads, so that they match threads of the shown process. A
// thread gets the label that root gives to a thread with a similar name (threadPattern) in own, the process's
// snapshot. If there is none, its label is its name.
func (x *Against) RootLike(root func(sampler.ThreadID) string, own *flamegraph.Snapshot, dict *sampler.Dictionary) func(sampler.ThreadID) string {
	if root == nil {
		return nil
	}
	seen := make(map[sampler.ThreadID]struct{})
	for i := range own.Entries {
		seen[own.Entries[i].Key.Thread] = struct{}{}
	}
	labels := make(map[string]string)
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if p := threadPattern(gvl.ThreadName(id, dict)); labels[p] == "" {
			labels[p] = root(id)
		}
	}
	return func(id sampler.ThreadID) string {
		name := gvl.ThreadName(id, x.Dict)
		if label, ok := labels[threadPattern(name)]; ok {
			return label
		}
		return name
	}
}

// Close does nothing, because the recording was already read in full.
func (x *Against) Close() error { return nil }
