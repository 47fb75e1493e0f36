package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/live"
)

// defaultMeasure is how long stat and record measure when nothing else is asked for.
const defaultMeasure = 10 * time.Second

// measurement is what stat and record have in common: a target, and a length of time.
type measurement struct {
	target
	length flags.Duration
}

func newMeasurement(std run.Streams) measurement {
	return measurement{target: target{names: std.Redact, ownCode: std.Own}, length: flags.Duration{Value: defaultMeasure, Min: 10 * time.Millisecond, Max: 24 * time.Hour}}
}

func (m *measurement) addFlags(cmd *cobra.Command) {
	m.addPID(cmd)
	m.addRates(cmd)
	m.addPause(cmd)
	m.addExact(cmd)
	cmd.Flags().VarP(&m.length, "duration", "d", "how long to measure: 10s, 1m30s, or a number of seconds")
}

// check looks at the flags, and then for the process that is named.
func (m *measurement) check(cmd *cobra.Command, words []string, std run.Streams) error {
	if err := errors.Join(m.checkRates(), m.checkExact(cmd, false)); err != nil {
		return err
	}
	return m.find(cmd, words, std, plainLook(cmd.Name(), std))
}

// open attaches to the process, follows it exactly where that is asked for, and says on standard error when that takes long.
func (t *target) open(ctx context.Context) (*live.Source, error) {
	return t.openTelling(ctx, layoutProgress(t.names))
}

// openTelling is open that reports how far the reading of debug information is.
func (t *target) openTelling(ctx context.Context, progress func(path string, done, total int)) (*live.Source, error) {
	if t.pause {
		exact.StayAwake()
	}
	src, err := live.Open(ctx, t.pid, t.attaching(progress))
	if err != nil {
		return nil, err
	}
	if err := t.exact.Begin(ctx, src); err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return src, nil
}
