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

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// newStore returns the Store for a screen with these options.
func newStore(src sampler.Source, o scene.Options) (*store.Store, error) {
	return store.New(src, store.Options{History: o.History, Rules: o.Rules, Redactor: o.Redactor})
}

// ErrNoSource is returned by Run if the options have no Source.
var ErrNoSource = errors.New("the screen has nothing to show: no source")

// ErrBelow is returned by Run if the user has asked to see the descendants of the target, too (Options.Below).
var ErrBelow = errors.New("the processes below are to be watched")

// Run shows a Source until the user quits or ctx ends. It then returns nil, even if the target has ended. It returns an
// error if the Source failed (the screen shows this error, too), or if the terminal cannot be used. Run restores the
// terminal in every case, also after a panic. It handles no signal except SIGTSTP (Options.Suspend). To end the screen
// at a signal, end ctx.
func Run(ctx context.Context, o scene.Options) error {
	if o.Source == nil && o.Group == nil {
		return ErrNoSource
	}
	if os.Getenv("NO_COLOR") != "" {
		o.NoColor = true
	}
	// the history must hold the whole recording, which can be longer than the history of a process
	if r, ok := o.Source.(interface{ Duration() time.Duration }); ok && o.Replay {
		o.History = min(max(o.History, r.Duration()+time.Second), scene.MaxHistory)
	}
	o.Tmux = os.Getenv("TMUX") != ""
	if o.Group != nil {
		if o.Replay {
			o.History = min(max(o.History, longestRecording(o.Group)+time.Second), scene.MaxHistory)
		}
		return runGroup(ctx, o.WithDefaults())
	}
	o = o.WithDefaults()
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
	if err == nil && model.toBelow && ctx.Err() == nil {
		err = ErrBelow
	}
	return errors.Join(err, recErr)
}

// modesPerSecond is how often per second Bubble Tea checks for output other than pictures, such as changes of the
// terminal's modes. Each check wakes up Go's scheduler, which costs more than the check itself. A change of modes can
// wait a second. If the user waits for an output, it is written at once and does not depend on these checks (writeMsg,
// overwriteMsg).
const modesPerSecond = 1

// show runs a screen on the terminal until it ends.
func show(ctx context.Context, model painted, o scene.Options) error {
	var opts []tea.ProgramOption
	if o.Input != nil {
		opts = append(opts, tea.WithInput(o.Input))
	}
	torn, thinned := newTornAnswers(time.Now), mouseFilter(time.Now)
	opts = append(opts, tea.WithFilter(func(m tea.Model, msg tea.Msg) tea.Msg { return thinned(m, torn.filter(msg)) }))
	p, paint := newProgram(ctx, model, o.Output, opts...)
	if o.Suspend {
		defer stopOnSIGTSTP(p, func() (resume func()) { return park(o) })()
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

// unreadFor is how long ddtop, when it ends, waits until the terminal has accepted the last output.
const unreadFor = time.Second

// leaveUnread lets ddtop end even if its terminal accepts no output, for example because the connection hangs.
// Otherwise ddtop's last write would block forever. After the end of ctx, it waits for unreadFor and then drops the
// output that the terminal has not accepted. It does this again and again, until left is closed.
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
				return // there is no terminal, or it was closed
			}
		}
	}
}

// ErrNothingToCompare is returned if the recording has fewer than two samples. Nothing can be compared with it.
var ErrNothingToCompare = errors.New("there is nothing in it to compare with")

// LoadAgainst reads a recording with which the screen is then compared. If the recording is longer than MaxHistory,
// only its end is used. The parameter name is the name of the recording on the screen.
func LoadAgainst(ctx context.Context, src sampler.Source, name string, o scene.Options) (*scene.Against, error) {
	o.Source = src
	if r, ok := src.(interface{ Duration() time.Duration }); ok {
		o.History = min(max(store.DefaultHistory, r.Duration()+time.Second), scene.MaxHistory)
	}
	of, err := newStore(src, o.WithDefaults())
	if err != nil {
		return nil, err
	}
	of.Run(ctx)
	if err := errors.Join(of.State().Err, ctx.Err()); err != nil {
		return nil, err
	}
	x := &scene.Against{Name: name, Process: of.Process(), Dict: of.Dict, Builder: flamegraph.NewBuilder(of.Dict)}
	of.Read(func(r *store.Reading) {
		if r.LastNS != 0 {
			first, _ := r.Timeline.Range()
			r.Rolling.SnapshotRange(first, r.LastNS, &x.Weights)
		}
	})
	if x.Weights.ToNS <= x.Weights.FromNS || len(x.Weights.Entries) == 0 {
		return nil, ErrNothingToCompare
	}
	return x, nil
}
