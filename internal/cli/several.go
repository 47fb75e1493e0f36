package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// openGroup attaches to the processes named and, with --children, to those below them. pending: what was named has just
// been started, so that no Ruby need be there yet. Which processes are not followed exactly that were to be is said.
func (t *target) openGroup(ctx context.Context, pending bool, say func(format string, args ...any)) (group, error) {
	return t.openGroupTelling(ctx, pending, say, layoutProgress(t.names))
}

// openGroupTelling is openGroup that reports how far the reading of debug information is, also of a process that comes later.
func (t *target) openGroupTelling(ctx context.Context, pending bool, say func(format string, args ...any), progress func(path string, done, total int)) (group, error) {
	if t.pause {
		stayAwake()
	}
	g, err := live.OpenGroup(ctx, t.pids, live.GroupOptions{Children: t.children, Pending: pending, Options: t.attaching(progress)})
	if err != nil {
		return nil, err
	}
	return t.exact.group(ctx, g, tellExact(say), false)
}

// measuring is what measureGroup does with each process: it measures for the length of time and returns what came of it, and
// a note why it ended early ("" when it did not).
type measuring[T any] func(ctx context.Context, src sampler.Source, length time.Duration) (T, string, error)

// measureGroup measures all processes of a group, those that come later for the rest of the time. What came of them is in the
// order in which they were found. A process that can't be measured is said, and is not an error while there are others.
func measureGroup[T any](ctx context.Context, g sampler.Group, length time.Duration, std Streams, measure measuring[T]) ([]T, error) {
	type result struct {
		value T
		note  string
		err   error
	}
	until := time.Now().Add(length)
	if length == unlimited {
		until = time.Now().Add(24 * 365 * time.Hour)
	}
	following, stop := context.WithDeadline(ctx, until)
	defer stop()
	var results []*result
	var running sync.WaitGroup
	err := g.Follow(following, func(src sampler.Source) {
		r := new(result)
		results = append(results, r)
		running.Go(func() {
			defer g.Done(src)
			r.value, r.note, r.err = measure(ctx, src, time.Until(until))
		})
	})
	running.Wait()
	if err != nil && !errors.Is(err, sampler.ErrEnded) {
		return nil, err
	}
	var out []T
	var failed []error
	interrupted := ""
	for _, r := range results {
		switch {
		case r.err != nil:
			failed = append(failed, r.err)
		case ctx.Err() != nil:
			interrupted = r.note // the same for all
			out = append(out, r.value)
		default:
			sayNote(std, r.note)
			out = append(out, r.value)
		}
	}
	sayNote(std, interrupted)
	if len(out) == 0 {
		if len(failed) > 0 {
			return nil, fmt.Errorf("%w: %w", errNothingOfAny, failed[0])
		}
		return nil, errNothingOfAny
	}
	for _, err := range failed {
		if !errors.Is(err, errNothing) { // what ended at once is among those that have ended
			std.sayErr(err)
		}
	}
	return out, nil
}

// errNothingOfAny is returned when none of several processes lived long enough to be measured.
var errNothingOfAny = errors.New("none of the processes could be measured")

// measureStats is stat of each process.
func measureStats(ctx context.Context, g sampler.Group, length time.Duration, j judgement, std Streams) ([]export.ProcessStat, error) {
	return measureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (export.ProcessStat, string, error) {
		stat, note, err := measureStat(ctx, src, left, j)
		return export.ProcessStat{Process: src.Process(), Stat: stat}, note, err
	})
}

// statGroup is `ddtop stat` of several processes.
func (t *target) statGroup(ctx context.Context, length time.Duration, j judgement, std Streams, asJSON bool) error {
	g, err := t.openGroup(ctx, false, std.say)
	if err != nil {
		return err
	}
	defer g.Close()
	list, err := measureStats(ctx, g, length, j, std)
	if err != nil {
		return err
	}
	relatives, forgotten := g.Relatives()
	if asJSON {
		return export.WriteStatsJSON(std.results(ctx), list, relatives, forgotten)
	}
	return export.WriteStats(std.results(ctx), list, relatives, forgotten)
}

// dumpGroup is `ddtop dump` of several processes: after measuring them, where that was asked for, one after the other.
func (f *dumpFlags) dumpGroup(ctx context.Context, std Streams) error {
	g, err := f.openGroup(ctx, false, std.say)
	if err != nil {
		return err
	}
	defer g.Close()
	length := max(f.length.Value, time.Nanosecond) // those known are handed out in any case
	list, err := measureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (export.ProcessDump, string, error) {
		if f.length.Value == 0 {
			left = 0
		}
		d, note, err := f.make(ctx, src.(*live.Source), left)
		return export.ProcessDump{Process: src.Process(), Dump: d}, note, err
	})
	if err != nil {
		return err
	}
	relatives, forgotten := g.Relatives()
	if f.asJSON {
		return export.WriteDumpsJSON(std.results(ctx), list, relatives, forgotten)
	}
	return export.WriteDumps(std.results(ctx), list, relatives, forgotten)
}

// recordingNames makes the names of the files of several processes: FILE-PID.ddtop, and FILE-PID-2.ddtop when the process
// has become another Ruby by exec.
type recordingNames struct {
	mu   sync.Mutex
	seen map[int]int
}

func (n *recordingNames) next(out output, pid int) output {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = make(map[int]int)
	}
	n.seen[pid]++
	ext := filepath.Ext(string(out))
	name := fmt.Sprintf("%s-%d", strings.TrimSuffix(string(out), ext), pid)
	if n.seen[pid] > 1 {
		name += fmt.Sprintf("-%d", n.seen[pid])
	}
	return output(name + ext)
}

// measureCommands measures the program that was started and all Rubies below it, to the program's end.
func measureCommands(ctx context.Context, c *command, f *rootFlags, std Streams) error {
	t := f.target
	if t.pause && !c.pausable {
		return errNoPidfd
	}
	t.pids = flags.PIDs{c.pid()}
	g, err := t.openGroup(ctx, true, std.say)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	quiet := std
	quiet.Err = io.Discard // that processes end is what is waited for
	list, err := measureStats(ctx, g, unlimited, f.judgement(), quiet)
	if errors.Is(err, errNothingOfAny) {
		return errEndedBefore
	}
	if err != nil {
		return err
	}
	relatives, forgotten := g.Relatives()
	return export.WriteStats(std.Err, list, relatives, forgotten)
}
