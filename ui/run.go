package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
)

// The defaults of Options.
const (
	DefaultWindow  = 30 * time.Second
	defaultRepaint = 250 * time.Millisecond
	// MaxHistory bounds the history.
	MaxHistory = time.Hour
	// minRepaint is the shortest time between two pictures: ten a second.
	minRepaint = 100 * time.Millisecond
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
	tmux bool
}

func (o Options) withDefaults() Options {
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
	o.Repaint = max(o.Repaint, minRepaint)
	if o.Folder == "" {
		o.Folder = "."
	}
	return o
}

// newStore returns the Store that a screen with these options shows.
func newStore(src sampler.Source, o Options) (*store.Store, error) {
	return store.New(src, store.Options{History: o.History, Rules: o.Rules, Redactor: o.Redactor})
}

// ErrNoSource is returned by Run without a Source.
var ErrNoSource = errors.New("the screen has nothing to show: no source")

// Run shows a Source until the person quits or ctx ends. It returns nil then, also when the target had ended; an error
// when the Source failed (the screen said so and stayed) or the terminal can't be used. The terminal is restored in
// every case, a panic included. Run handles no signals but SIGTSTP (Options.Suspend): a caller that wants them to end the
// screen ends ctx with them.
func Run(ctx context.Context, o Options) error {
	if o.Source == nil && o.Group == nil {
		return ErrNoSource
	}
	if os.Getenv("NO_COLOR") != "" {
		o.NoColor = true
	}
	if r, ok := o.Source.(interface{ Duration() time.Duration }); ok && o.Replay { // a recording can be longer than what is kept of a process
		o.History = min(max(o.History, r.Duration()+time.Second), MaxHistory)
	}
	o.tmux = os.Getenv("TMUX") != ""
	if o.Group != nil {
		if o.Replay {
			o.History = min(max(o.History, longestRecording(o.Group)+time.Second), MaxHistory)
		}
		return runGroup(ctx, o.withDefaults())
	}
	o = o.withDefaults()
	samples, err := newStore(o.Source, o)
	if err != nil {
		return err
	}
	model, err := NewModel(samples, o)
	if err != nil {
		return err
	}
	sampling, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { samples.Run(sampling) })
	err = show(ctx, model, o)
	stop()
	done.Wait()
	recErr := store.LeaveRecordings(samples)
	if err == nil {
		err = samples.State().Err
	}
	return errors.Join(err, recErr)
}

// modesPerSecond is how often Bubble Tea looks whether there is something to write to the terminal, which are no pictures: each
// look wakes up Go's scheduler, which costs more than it does.
const modesPerSecond = 4

// show runs the program on the terminal until it ends.
func show(ctx context.Context, model painted, o Options) error {
	var opts []tea.ProgramOption
	if o.Input != nil {
		opts = append(opts, tea.WithInput(o.Input))
	}
	torn, thinned := newTornAnswers(time.Now), mouseFilter(time.Now)
	opts = append(opts, tea.WithFilter(func(m tea.Model, msg tea.Msg) tea.Msg { return thinned(m, torn.filter(msg)) }))
	p, paint := newProgram(ctx, model, o.Output, opts...)
	if o.Suspend {
		defer stopOnSIGTSTP(p, o.park)()
	}
	left := make(chan struct{})
	go leaveUnread(ctx, left, o.Output)
	err := paint.run(p)
	close(left)
	if err == nil || errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return fmt.Errorf("the screen stopped: %w", err)
}

// unreadFor is how long the end of a screen waits for its terminal to take what is being written.
const unreadFor = time.Second

// leaveUnread lets a screen end whose terminal nobody reads any more, a connection that hangs: what it was told to write last
// would hold it forever. It begins when ctx ends, and is done when the screen has been left.
func leaveUnread(ctx context.Context, left <-chan struct{}, out io.Writer) {
	if out == nil {
		out = os.Stdout
	}
	terminal, ok := out.(*os.File)
	if !ok {
		return
	}
	select {
	case <-left:
		return
	case <-ctx.Done():
	}
	again := time.NewTicker(unreadFor)
	defer again.Stop()
	for {
		select {
		case <-left:
			return
		case <-again.C:
			if dropUnread(terminal.Fd()) != nil {
				return // no terminal, or none any more: writing to it fails
			}
		}
	}
}
