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
// and EndExact in the background, never both at the same time. It calls ExactStatus for each picture, so ExactStatus
// must return at once, even while Exact or EndExact is running.
type ExactSwitch interface {
	// Exact puts the probes of exact mode into the process. If this fails, the process has no probes. The error is then
	// a sentence that says why, and what the user can do about it.
	Exact(ctx context.Context) error
	// EndExact removes the probes from the process. If this fails, the error says why they may still be there.
	EndExact() error
	ExactStatus() sampler.ExactStatus
}

// A NativeSwitch switches the reading of running threads' C stacks (docs/reference/native.md) on and off. The screen
// calls Start and End in the background, never both at the same time. On and Failed must return at once, even while
// Start or End is running.
type NativeSwitch interface {
	// Start begins to read C stacks. If this fails, the error is a sentence that says why, and what the user can do
	// about it.
	Start(ctx context.Context) error
	End() error
	On() bool
	// Failed returns why ddtop cannot read C stacks. It is empty if ddtop can read them, or has not tried.
	Failed() string
}

// A HeapReader reads the heap of a process from outside, while the process continues to run (docs/tasks/heap.md). Its
// methods take seconds, so the screen calls them in the background.
type HeapReader interface {
	// Count counts the objects of the heap. If the parameter memory is true, it also returns which kinds of memory make
	// up the resident memory. The MemoryParts are nil if ddtop cannot read this.
	Count(ctx context.Context, memory bool) (*sampler.HeapCount, *sampler.MemoryParts, error)
	// Explain returns lines of text that say which objects refer to the objects of a class. If class is empty, the
	// lines list the largest objects instead. While Explain copies the heap, it calls progress with the number of pages
	// copied so far. hurry returns true when the user wants the answer quickly. From then on Explain copies with a
	// whole CPU, even if this exceeds ddtop's budget.
	Explain(ctx context.Context, class string, hurry func() bool, progress func(done, total int)) (string, error)
}

// The defaults of Options.
const (
	DefaultWindow  = 30 * time.Second
	defaultRepaint = 250 * time.Millisecond
	// MaxHistory is the longest allowed Options.History.
	MaxHistory = time.Hour
	// MinRepaint is the shortest time between two pictures that the user can set: ten pictures per second.
	MinRepaint = 100 * time.Millisecond
)

// Options are the options of Run. Either Source or Group must be set. All other fields are optional.
type Options struct {
	// Source is the process or recording to show. Run calls its method Run, but does not close it.
	Source sampler.Source
	// Group is a set of processes, each with its Source. If it is not nil, the screen shows it instead of Source. Run
	// follows the Group and does not close it.
	Group sampler.Group
	// Window is the length of the time on the screen, by default DefaultWindow. History is how much of the past is
	// kept, by default DefaultHistory, and at least Window. Repaint is the time between two pictures, by default
	// defaultRepaint.
	Window, History, Repaint time.Duration
	// Theme is the name of one of the colour themes (Themes). An empty name means "auto".
	Theme string
	// NoColor makes the screen use no colours, as NO_COLOR in the environment does (https://no-color.org). ASCII makes
	// it use only ASCII characters.
	NoColor, ASCII bool
	// Redactor removes data that identifies people or machines from the screen, and from snapshots and recordings. If
	// it is nil, nothing is removed.
	Redactor *redact.Redactor
	// Args makes the table of processes show whole command lines. They may contain secrets. With a Redactor they are
	// never shown.
	Args bool
	// NoMouse leaves the mouse to the terminal.
	NoMouse bool
	// Keys gives keys the meaning of other keys. If the key "f" has the value "space", f does what space does (see
	// CheckKey). The names are Bubble Tea's.
	Keys map[string]string
	// Rules are the rules by which findings are raised. Nil means all rules with their default thresholds. The caller
	// must not change them after Run starts.
	Rules *findings.Rules
	// WaitThreshold is the least length of waits in lists of waits. Totals, shares and quantiles include all waits.
	WaitThreshold time.Duration
	// Folder is the folder in which snapshots are saved, by default the working folder.
	Folder string
	// Notice is a text at the bottom of the screen. It disappears at the first key press. For example, it names the
	// file to which the program's output goes.
	Notice string
	// Against is another recording with which the screen compares the flamegraph and the top functions. It may be nil.
	Against *Against
	// Exact switches exact mode on and off. It is nil if exact mode is impossible: for a recording, and for several
	// processes.
	Exact ExactSwitch
	// Native switches the reading of running threads' C stacks on and off. It is nil if this is impossible: for a
	// recording, and for several processes.
	Native NativeSwitch
	// Heap returns a reader for the heap of a process. It is nil if the heap cannot be read, as for a recording.
	Heap func(pid int) HeapReader
	// Below is true if the caller can also show the descendants of the target. If the user then asks to see them, Run
	// returns ErrBelow.
	Below bool
	// Replay is true if the Source is a recording. The end of the Source then does not mean that a process has ended.
	Replay bool
	// Suspend lets ctrl-z and SIGTSTP stop ddtop, as they stop other programs. Until ddtop is continued, the shell has
	// the terminal. Suspend must be set only if there is a shell that can continue ddtop.
	Suspend bool
	// Input and Output are the terminal. By default they are standard input and output.
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

// Against is another recording, with which the screen compares the flamegraph and the top functions.
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

// Factor returns the factor by which the recording's weights must be multiplied before they are compared with a
// snapshot. It scales the recording to the length of the snapshot.
func (x *Against) Factor(of *flamegraph.Snapshot) float64 {
	return float64(of.ToNS-of.FromNS) / float64(x.spanNS())
}

// threadPattern returns a thread's name without digits. Threads with the same pattern are compared with each other. For
// example, worker-1 of one process is compared with worker-7 of another.
func threadPattern(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// RootLike returns a function that labels the recording's threads so that they match threads of the shown process. The
// parameter own is the shown process's snapshot. If own has a thread with a similar name (threadPattern), the
// recording's thread gets the label that root returns for the thread in own. Otherwise the label is the thread's name.
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

// Close does nothing, because the recording was read in full and nothing is open.
func (x *Against) Close() error { return nil }
