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
// and EndExact in the background, never both at the same time. It calls ExactStatus for each picture. So ExactStatus
// must not wait for a running Exact or EndExact.
type ExactSwitch interface {
	// Exact puts the probes of exact mode into the process. If it fails, the process has no probes. The error is a
	// sentence that says why, and what the user can do.
	Exact(ctx context.Context) error
	// EndExact removes the probes. If it fails, the error says why they may still be there.
	EndExact() error
	ExactStatus() sampler.ExactStatus
}

// A NativeSwitch switches the reading of C stacks of running threads (docs/reference/native.md) on and off. The screen
// calls Start and End in the background, never both at the same time. On and Failed must not wait for a running Start
// or End.
type NativeSwitch interface {
	// Start begins to read C stacks. If it fails, the error is a sentence that says why, and what the user can do.
	Start(ctx context.Context) error
	End() error
	On() bool
	// Failed returns why no C stacks can be taken. It is empty if they can be taken, or if this was not tried.
	Failed() string
}

// A HeapReader reads the heap of a process from outside, while the process continues to run (docs/tasks/heap.md). Its
// methods take seconds, so the screen calls them in the background.
type HeapReader interface {
	// Count counts the objects of the heap. If the parameter memory is true, it also returns what the resident memory
	// consists of. The MemoryParts are nil if this cannot be read.
	Count(ctx context.Context, memory bool) (*sampler.HeapCount, *sampler.MemoryParts, error)
	// Explain returns lines of text that say which objects refer to the objects of a class. If class is empty, they
	// list the largest objects. progress receives how many pages have been copied. hurry returns true when the user
	// wants the answer quickly. From then on the copying takes a whole CPU, even if this exceeds the budget.
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
	// Group is shown instead of Source if it is not nil. It is a set of processes, each with its Source. Run follows
	// the Group and does not close it.
	Group sampler.Group
	// Window is the time span on the screen, by default DefaultWindow. History is how much of the past is kept, by
	// default DefaultHistory, and at least Window. Repaint is the time between two pictures, by default
	// defaultRepaint.
	Window, History, Repaint time.Duration
	// Theme is the name of one of the Themes. An empty name means "auto".
	Theme string
	// NoColor leaves colours out, as NO_COLOR in the environment does (https://no-color.org). ASCII draws with ASCII
	// characters only.
	NoColor, ASCII bool
	// Redactor removes data that identifies people or machines from everything, including snapshots and recordings. If
	// it is nil, nothing is removed.
	Redactor *redact.Redactor
	// Args shows whole command lines in the table of processes. They may contain secrets. If there is a Redactor, they
	// are not shown.
	Args bool
	// NoMouse leaves the mouse to the terminal.
	NoMouse bool
	// Keys gives keys the meaning of other keys. The key "f" with the value "space" makes f do what space does (see
	// CheckKey). The names are Bubble Tea's.
	Keys map[string]string
	// Rules are the rules of findings. Nil means all rules with their default thresholds. The caller must not change
	// them after Run starts.
	Rules *findings.Rules
	// WaitThreshold is the length below which lists of waits do not show a wait. Totals, shares and quantiles count all
	// waits.
	WaitThreshold time.Duration
	// Folder is where snapshots are saved, by default the working folder.
	Folder string
	// Notice is a text at the bottom of the screen that disappears at the first key press. For example, it names the
	// file with the program's output.
	Notice string
	// Against is another recording with which the flamegraph and the top functions are compared. It may be nil.
	Against *Against
	// Exact switches exact mode on and off. It is nil if this is impossible: for a recording, and for several
	// processes.
	Exact ExactSwitch
	// Native switches C stacks of running threads on and off. It is nil if this is impossible, in the same cases as for
	// Exact.
	Native NativeSwitch
	// Heap returns the reader of the heap of a process. It is nil if no heap can be read, as for a recording.
	Heap func(pid int) HeapReader
	// Below is true if the caller can also show the descendants of the target. When the user wants to see them, Run
	// returns ErrBelow.
	Below bool
	// Replay is true if the Source is a recording. In this case the end of the Source is not the end of a process.
	Replay bool
	// Suspend lets ctrl-z and SIGTSTP stop ddtop. The terminal is given back until ddtop is continued. It must be set
	// only if there is a shell that can continue ddtop.
	Suspend bool
	// Input and Output are the terminal, by default standard input and output.
	Input  io.Reader
	Output io.Writer

	// Tmux is true if ddtop runs in tmux, according to the environment variables.
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

// A SwitchFollower is an ExactSwitch that also reports whether ddtop follows its process by thread switches
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

// spanNS returns the length of the recording, in ns.
func (x *Against) spanNS() int64 { return x.Weights.ToNS - x.Weights.FromNS }

// About returns a text with the recording's name, its length, and the time of its end.
func (x *Against) About() string {
	return fmt.Sprintf("%s: %s until %s", x.Name, units.ProseDuration(x.spanNS()), x.Process.WallTime(x.Weights.ToNS).Format("15:04:05"))
}

// Factor returns the factor by which the recording's weights must be multiplied to compare them with the snapshot of.
// It is the ratio of their lengths.
func (x *Against) Factor(of *flamegraph.Snapshot) float64 {
	return float64(of.ToNS-of.FromNS) / float64(x.spanNS())
}

// threadPattern returns a thread's name without digits. Threads with the same pattern are compared: worker-1 of one
// process matches worker-7 of another.
func threadPattern(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// RootLike returns a function that labels the recording's threads so that they match threads of the shown process. The
// parameter own is the shown process's snapshot. A thread of the recording gets the label that root returns for a
// thread with a similar name (threadPattern) in own. If there is no such thread, its label is its name.
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
