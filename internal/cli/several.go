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
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/program"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// openGroup attaches to the processes named and, with --children, to those below them. pending: what was named has just
// been started, so that no Ruby need be there yet. Which processes are not followed exactly that were to be is said.
func (t *target) openGroup(ctx context.Context, pending bool, say func(format string, args ...any)) (exact.Group, error) {
	return t.openGroupTelling(ctx, pending, say, layoutProgress(t.names))
}

// openGroupTelling is openGroup that reports how far the reading of debug information is, also of a process that comes later.
func (t *target) openGroupTelling(ctx context.Context, pending bool, say func(format string, args ...any), progress func(path string, done, total int)) (exact.Group, error) {
	if t.pause {
		exact.StayAwake()
	}
	g, err := live.OpenGroup(ctx, t.pids, live.GroupOptions{Children: t.children, Pending: pending, Options: t.attaching(progress)})
	if err != nil {
		return nil, err
	}
	return t.exact.Group(ctx, g, run.TellExact(say), false)
}

// measureStats is stat of each process.
func measureStats(ctx context.Context, g sampler.Group, length time.Duration, j judgement, std run.Streams) ([]export.ProcessStat, error) {
	return run.MeasureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (export.ProcessStat, string, error) {
		stat, note, err := measureStat(ctx, src, left, j)
		return export.ProcessStat{Process: src.Process(), Stat: stat}, note, err
	})
}

// statGroup is `ddtop stat` of several processes.
func (t *target) statGroup(ctx context.Context, length time.Duration, j judgement, std run.Streams, asJSON bool) error {
	g, err := t.openGroup(ctx, false, std.Say)
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
		return export.WriteStatsJSON(std.Results(ctx), list, relatives, forgotten)
	}
	return export.WriteStats(std.Results(ctx), list, relatives, forgotten)
}

// dumpGroup is `ddtop dump` of several processes: after measuring them, where that was asked for, one after the other.
func (f *dumpFlags) dumpGroup(ctx context.Context, std run.Streams) error {
	g, err := f.openGroup(ctx, false, std.Say)
	if err != nil {
		return err
	}
	defer g.Close()
	length := max(f.length.Value, time.Nanosecond) // those known are handed out in any case
	list, err := run.MeasureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (export.ProcessDump, string, error) {
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
		return export.WriteDumpsJSON(std.Results(ctx), list, relatives, forgotten)
	}
	return export.WriteDumps(std.Results(ctx), list, relatives, forgotten)
}

// recordingNames makes the names of the files of several processes: FILE-PID.ddtop, and FILE-PID-2.ddtop when the process
// has become another Ruby by exec.
type recordingNames struct {
	mu   sync.Mutex
	seen map[int]int
}

func (n *recordingNames) next(out run.Output, pid int) run.Output {
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
	return run.Output(name + ext)
}

// measureCommands measures the program that was started and all Rubies below it, to the program's end.
func measureCommands(ctx context.Context, c *program.Command, f *rootFlags, std run.Streams) error {
	t := f.target
	if t.pause && !c.Pausable {
		return program.ErrNoPidfd
	}
	t.pids = flags.PIDs{c.PID()}
	g, err := t.openGroup(ctx, true, std.Say)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	quiet := std
	quiet.Err = io.Discard // that processes end is what is waited for
	list, err := measureStats(ctx, g, run.Unlimited, f.judgement(), quiet)
	if errors.Is(err, run.ErrNothingOfAny) {
		return program.ErrEndedBefore
	}
	if err != nil {
		return err
	}
	relatives, forgotten := g.Relatives()
	return export.WriteStats(std.Err, list, relatives, forgotten)
}
