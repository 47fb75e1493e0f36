package scene

import (
	"context"
	"io"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
)

// ExactSwitch switches exact mode (docs/exact.md) of the process that is shown on and off. The screen calls Exact and EndExact in the
// background, one at a time, and ExactStatus at each picture: that one must not wait for the others.
type ExactSwitch interface {
	// Exact puts the probes into the process. The error says in a sentence why it can't be, and what to do; nothing is in the process
	// then.
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
	// Group is shown instead, when it is set: several processes, each with its Source. Run follows it, and does not close it.
	Group sampler.Group
	// Window is the stretch of time on the screen; 0: DefaultWindow. History is how long the past is kept; 0:
	// DefaultHistory, and never less than Window. Repaint is the time between two pictures; 0: defaultRepaint.
	Window, History, Repaint time.Duration
	// Theme is one of Themes; "": auto.
	Theme string
	// NoColor leaves colours out; the environment's NO_COLOR does too (https://no-color.org). ASCII draws with ASCII
	// characters only.
	NoColor, ASCII bool
	// Redactor leaves what can name somebody out of everything, snapshots and recordings included; nil: nothing is left out.
	Redactor *sampler.Redactor
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
	// Suspend lets ctrl-z and SIGTSTP stop ddtop, the terminal given back until it is continued. Only where a shell will.
	Suspend bool
	// Input and Output are the terminal; nil: standard input and output.
	Input  io.Reader
	Output io.Writer

	// tmux: the terminal is tmux's, by the environment.
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

// SwitchFollower is an ExactSwitch of a process that can be followed by its thread switches (docs/switches.md).
type SwitchFollower interface {
	SwitchStatus() sampler.SwitchStatus
}
