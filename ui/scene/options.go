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
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/store"
)

// ExactSwitch switches exact mode (docs/reference/exact.md) of the process that is shown on and off. The screen calls
// Exact and EndExact in the background, one at a time, and ExactStatus at each picture: that one must not wait for the
// others.
type ExactSwitch interface {
	// Exact puts the probes into the process. The error says in a sentence why it can't be, and what to do; nothing is
	// in the process then.
	Exact(ctx context.Context) error
	// EndExact takes them out. The error says why they may still be there.
	EndExact() error
	ExactStatus() sampler.ExactStatus
}

// The defaults of Options.
const (
	DefaultWindow  = 30 * time.Second
	defaultRepaint = 250 * time.Millisecond
	// MaxHistory bounds the history.
	MaxHistory = time.Hour
	// MinRepaint is the shortest time between two pictures: ten a second.
	MinRepaint = 100 * time.Millisecond
)

// Options are what Run needs. Only Source must be set.
type Options struct {
	// Source is what is shown. Run runs it, and does not close it.
	Source sampler.Source
	// Group is shown instead, when it is set: several processes, each with its Source. Run follows it, and does not
	// close it.
	Group sampler.Group
	// Window is the time span on the screen; 0: DefaultWindow. History is how long the past is kept; 0:
	// DefaultHistory, and never less than Window. Repaint is the time between two pictures; 0: defaultRepaint.
	Window, History, Repaint time.Duration
	// Theme is one of Themes; "": auto.
	Theme string
	// NoColor leaves colours out; the environment's NO_COLOR does too (https://no-color.org). ASCII draws with ASCII
	// characters only.
	NoColor, ASCII bool
	// Redactor leaves what can name somebody out of everything, snapshots and recordings included; nil: nothing is left
	// out.
	Redactor *redact.Redactor
	// Args shows whole command lines in the table of processes, which may hold secrets; Redactor comes first.
	Args bool
	// NoMouse leaves the mouse to the terminal.
	NoMouse bool
	// Keys gives keys the meaning of others, by the names that Bubble Tea gives them: "f" → "space" (see CheckKey).
	Keys map[string]string
	// Rules are the findings' rules; nil: all of them with their default limits. They are not to be changed any more.
	Rules *gvl.Rules
	// WaitThreshold hides waits shorter than it from lists of waits; totals, shares and quantiles count all.
	WaitThreshold time.Duration
	// Folder is where snapshots are saved; "": the working folder.
	Folder string
	// Notice is shown at the bottom until the first key: where the output of the program is, say.
	Notice string
	// Against is another recording that the flamegraph and the top are compared with, from the beginning; nil: none.
	Against *Against
	// Exact switches exact mode on and off; nil: it is not possible (a recording, several processes).
	Exact ExactSwitch
	// Replay: the Source is a recording, so its end is not the end of a process.
	Replay bool
	// Suspend lets ctrl-z and SIGTSTP stop ddtop, the terminal given back until it is continued. Only where a shell
	// will.
	Suspend bool
	// Input and Output are the terminal; nil: standard input and output.
	Input  io.Reader
	Output io.Writer

	// Tmux: the terminal is tmux's, by the environment.
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

// SwitchFollower is an ExactSwitch of a process that can be followed by its thread switches
// (docs/reference/switches.md).
type SwitchFollower interface {
	SwitchStatus() sampler.SwitchStatus
}

// Against is another recording, with which the flamegraph and the top functions of a screen are compared.
type Against struct {
	Name    string
	Process sampler.Process
	Dict    *sampler.Dictionary
	Weights flamegraph.Snapshot
	Builder *flamegraph.Builder
}

// spanNS is how long the recording is, in ns.
func (x *Against) spanNS() int64 { return x.Weights.ToNS - x.Weights.FromNS }

// About says what it is, and of when.
func (x *Against) About() string {
	return fmt.Sprintf("%s: %s until %s", x.Name, units.ProseDuration(x.spanNS()), x.Process.WallTime(x.Weights.ToNS).Format("15:04:05"))
}

// Factor is by what its weights are multiplied to be those of as much time as others are of.
func (x *Against) Factor(of *flamegraph.Snapshot) float64 {
	return float64(of.ToNS-of.FromNS) / float64(x.spanNS())
}

// threadPattern is a thread's name without its numbers: worker-1 of one process is worker-7 of another.
func threadPattern(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// RootLike gives its threads the labels that threads of such names have in the screen's own tree.
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

// Close does nothing: the recording was read.
func (x *Against) Close() error { return nil }
