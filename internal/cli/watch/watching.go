// Package watch implements `ddtop record --when`. It waits until conditions are true, and records the time around this
// into a folder with limits on the number and size of recordings.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// ringBytes limits the samples of a process that ddtop keeps in memory, in bytes. ringSlack is for how much longer
	// ddtop keeps samples than the conditions need. It is for a slow disk, which may delay the recording.
	ringBytes = 64e6
	ringSlack = 15 * time.Second
	// retryAfter is how long ddtop waits after a failed recording before it tries to record the same incident again.
	retryAfter = 10 * time.Second
	// slowAfter is how long a write may take before ddtop reports that the disk does not answer.
	slowAfter = 5 * time.Second
)

// Options select what is recorded.
type Options struct {
	Conditions []measure.Condition
	// Before and After are how much time is recorded before and after an incident. The figures in the conditions of
	// --when are computed over the time in Over. Longest limits the length of a recording.
	Before, After, Over, Longest flags.Duration
	Rules                        *findings.Rules
	AsJSON                       bool
}

type watching struct {
	when   *Options
	folder *Folder
	events *run.Printer[report.WatchEvent]
	say    func(format string, args ...any)

	mu   sync.Mutex
	said string // the last reported fault; empty after a written recording
	// unwritten is the first error of a recording that could not be written. failed is the number of such recordings.
	unwritten error
	failed    int
}

type watched struct {
	*watching
	src     sampler.Source
	watch   *measure.Watch
	history *recording.History
	keeper  *sampler.Keeper
	trigger trigger

	now      *incident // the recording in progress; nil if there is none
	ofNow    bool      // set if now is a recording of the present incident, and not of the one before
	begun    bool      // a recording of the incident was begun, or its failure was printed
	recorded bool      // the incident needs no other recording
	retryNS  int64
	lastNS   int64
	// lost is the error of a failed recording of the current incident. It is nil while ddtop tries again to record the
	// same incident, because this may succeed.
	lost error
}

func (w *watching) newWatched(src sampler.Source) (*watched, error) {
	f := w.when
	p, dict := src.Process(), src.Dictionary()
	keepNS := measure.LookbackNS(f.Rules, f.Over.Value.Nanoseconds(), f.Conditions) + f.Before.Value.Nanoseconds() + ringSlack.Nanoseconds()
	history, err := recording.NewHistory(keepNS, ringBytes)
	if err != nil {
		return nil, err
	}
	return &watched{
		watching: w, src: src, history: history, watch: measure.NewWatch(p, dict, f.Rules, f.Over.Value.Nanoseconds(), f.Conditions),
		keeper:  sampler.NewKeeper(dict, max(keepNS, account.MaxBlameWindowNS)),
		trigger: trigger{before: f.Before.Value.Nanoseconds(), after: f.After.Value.Nanoseconds(), longest: f.Longest.Value.Nanoseconds()},
	}, nil
}

func (w *watched) feed(s *sampler.Sample) {
	// Samples that wait for a slow disk need names in memory. The keeper must not remove these names before the samples
	// are written.
	w.keeper.Feed(s, w.now != nil && w.now.busy() < abandonAfter)
	_ = w.history.Append(s) // an error is only possible for a sample beyond the format's limits, which is left out
	w.lastNS = s.TimeNS
	if v, ok := w.watch.Feed(s); ok {
		w.step(v)
	}
}

// step checks the conditions of the second that has just ended, and begins, continues or ends a recording.
func (w *watched) step(v measure.Verdict) {
	w.reap(v.AtNS)
	turn := w.trigger.step(v.AtNS, v.Causes)
	if turn == turnBegin {
		w.countLost() // counts the previous incident if ddtop could not record it
		w.ofNow, w.begun, w.recorded, w.retryNS = false, false, false, 0
		e := w.event("began", w.trigger.cause)
		first, _ := w.history.Span()
		e.StartNS, e.EndNS = max(w.trigger.fromNS, first), v.AtNS
		w.events.Add(e)
	}
	if w.trigger.active && w.now == nil && !w.recorded && v.AtNS >= w.retryNS {
		w.now, w.ofNow = w.startIncident(w.trigger.cause, w.trigger.fromNS, w.trigger.beganNS, v.Findings), true
		w.begun = true
	}
	if w.now != nil && !w.begun && !w.recorded && (turn == turnEnd || turn == turnSpent) {
		w.begun = true // so that this failure is printed only once
		e := w.event("failed", w.trigger.cause)
		e.Text = "the disk has not answered since the recording before it"
		w.events.Add(e)
		w.count(fmt.Errorf("recording %s of process %d to %s: %s", w.trigger.cause.Condition, w.src.Process().PID, w.folder.path, e.Text))
	}
	if w.now == nil || !w.ofNow {
		return
	}
	switch turn {
	case turnEnd:
		w.now.write(order{toNS: v.AtNS, last: true})
		w.ofNow = false
	case turnSpent:
		w.say("process %d: %s goes on after %s: its recording ends here, and the next begins when it has been over for %s",
			w.src.Process().PID, w.trigger.cause.Condition, w.when.Longest.Value, w.when.After.Value)
		w.now.write(order{toNS: v.AtNS, last: true})
		w.ofNow = false
	default:
		w.now.write(order{toNS: v.AtNS})
	}
}

// reap checks the current recording. If the recording has ended, reap reports its success or failure. If the disk does
// not answer, reap prints a message.
func (w *watched) reap(nowNS int64) {
	if w.now == nil {
		return
	}
	select {
	case <-w.now.done:
	default:
		if w.now.busy() > slowAfter {
			w.sayOnce("slow", "writing to %s has not come back for %v; watching goes on", w.folder.path, slowAfter)
		}
		return
	}
	switch in := w.now; {
	case in.failed == nil:
		w.written(in)
		w.recorded = w.recorded || w.ofNow
	case w.ofNow:
		w.fail(in)
		w.retryNS = nowNS + retryAfter.Nanoseconds()
	default:
		w.fail(in)
	}
	w.now, w.ofNow = nil, false
}

// written handles a recording that was written successfully. After this, sayOnce may repeat messages that it has
// already printed. If the recording is as large as --size allows, written says so.
func (w *watched) written(in *incident) {
	w.mu.Lock()
	w.said = ""
	w.mu.Unlock()
	if in.full {
		w.say("process %d: its recording takes all of the --size, and ends", w.src.Process().PID)
	}
}

// fail reports why a recording could not be written. If several recordings in a row fail for the same reason, it
// reports the reason only once.
func (w *watched) fail(in *incident) {
	in.lost = cmp.Or(in.lost, w.failureOf(in))
	if w.ofNow { // countLost counts this error later, unless a new recording of the incident succeeds
		w.lost = in.lost
	} else {
		w.count(in.lost)
	}
	var why string
	var errno syscall.Errno
	if errors.As(in.failed, &errno) {
		why = errno.Error()
	} else {
		why = in.failed.Error()
	}
	if w.sayOnce(why, "process %d: recording %s: %v; watching goes on, and what is the same is not said again", w.src.Process().PID, in.cause.Condition, in.failed) {
		e := w.event("failed", in.cause)
		e.Text = in.failed.Error()
		w.events.Add(e)
	}
}

func (w *watched) failureOf(in *incident) error {
	return fmt.Errorf("recording %s of process %d: %w", in.cause.Condition, w.src.Process().PID, in.failed)
}

// countLost counts the last incident as failed if ddtop could not write any recording of it.
func (w *watched) countLost() {
	if w.lost != nil {
		w.count(w.lost)
		w.lost = nil
	}
}

// count counts a recording that ddtop could not write. Because of it, ddtop later ends with an error.
func (w *watching) count(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed++; w.unwritten == nil {
		w.unwritten = err
	}
}

// failure returns the error with which ddtop ends if it could not write recordings. It returns nil if it could write
// all of them.
func (w *watching) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed > 1 {
		return fmt.Errorf("%w; %s failed", w.unwritten, units.Plural(w.failed-1, "more recording", "more recordings"))
	}
	return w.unwritten
}

// sayOnce prints a message, unless why is the same as in the previous call and no recording was written in between.
func (w *watching) sayOnce(why, format string, args ...any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said == why {
		return false
	}
	w.said = why
	w.say(format, args...)
	return true
}

// finish completes the current recording. It waits for the disk until giveUp is closed.
func (w *watched) finish(giveUp <-chan struct{}) {
	defer w.countLost()
	if w.now == nil {
		return
	}
	if w.ofNow {
		var end *sampler.End
		if e, ok := w.src.End(); ok {
			end = &e
		}
		select {
		case <-w.now.done: // the recording has failed
		default:
			w.now.write(order{toNS: w.lastNS, last: true, end: end})
		}
	}
	var err error
	select {
	case <-w.now.done:
		if w.now.failed == nil {
			return
		}
		err = cmp.Or(w.now.lost, w.failureOf(w.now))
	case <-giveUp:
		err = fmt.Errorf("recording %s of process %d to %s: %w: what it has not taken is lost", w.now.cause.Condition, w.src.Process().PID, w.folder.path,
			recording.ErrSlow)
	}
	w.count(err)
}

// follow watches one process until it or ctx ends.
func (w *watching) follow(ctx context.Context, src sampler.Source, giveUp <-chan struct{}) {
	one, err := w.newWatched(src)
	if err == nil {
		err = src.Run(ctx, one.feed)
		one.finish(giveUp)
	}
	p := src.Process()
	switch end, ended := src.End(); {
	case ended:
		w.say("process %d (%s) has ended: %s", p.PID, run.ShortName(p.Name()), end.Reason)
	case errors.Is(err, sampler.ErrGaveWay):
		w.say("process %d (%s) makes room for a process of another user", p.PID, run.ShortName(p.Name()))
	case err != nil && !errors.Is(err, sampler.ErrEnded):
		w.say("process %d (%s) can't be read any more: %v", p.PID, run.ShortName(p.Name()), err)
	}
}

// run watches the processes of a group until ctx ends. It also returns if all processes have ended and no new one can
// come.
func (w *watching) run(ctx context.Context, g sampler.Group) error {
	telling, stop := context.WithCancel(ctx)
	defer stop()
	go run.KeepTelling(telling, g, func(r sampler.Relative) {
		w.say("process %d (%s) can't be watched: %s", r.PID, run.ShortName(r.Title), r.Why)
	})
	giveUp, over := run.PatienceFor(ctx, run.WithinEnd)
	defer over()
	all, err := sampler.FollowEach(ctx, g, func(src sampler.Source) func() {
		return func() { w.follow(ctx, src, giveUp) }
	})
	select {
	case <-all:
	case <-giveUp:
		select {
		case <-all: // all recordings ended, or their failures were reported
		case <-time.After(run.LastLook): // a goroutine may still be reading its process
		}
	}
	if errors.Is(err, sampler.ErrEnded) {
		err = nil
	}
	return cmp.Or(err, w.failure())
}

// Run records the incidents of a group's processes until ctx ends. It also returns if all processes have ended and no
// new one can come. The function cancel ends ctx.
func Run(ctx context.Context, cancel func(), g sampler.Group, o *Options, folder *Folder, std run.Streams) error {
	to := std.Results(ctx)
	events := run.Print(func(e report.WatchEvent) error {
		if o.AsJSON {
			return export.WriteWatchEventJSON(to, e)
		}
		return export.WriteWatchEvent(to, e)
	}, cancel)
	folder.removed = func(path string, size int64) {
		events.Add(report.WatchEvent{Time: time.Now(), Event: "removed", Path: path, Bytes: size})
	}
	w := &watching{when: o, folder: folder, events: events, say: std.Say}
	var conditions []string
	for _, c := range o.Conditions {
		conditions = append(conditions, c.String())
	}
	std.Say("waiting for %s", strings.Join(conditions, " or "))
	err := w.run(ctx, g)
	return errors.Join(err, events.Close(std.Say))
}
