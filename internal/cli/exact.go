package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
)

// exactFlags are --exact and --exact-cost.
type exactFlags struct {
	on   bool
	cost overhead
}

func (f *exactFlags) addTo(cmd *cobra.Command) {
	f.cost = live.DefaultExactCost
	cmd.Flags().BoolVar(&f.on, "exact", false, "record every change of the GVL, with breakpoints in the process")
	cmd.Flags().Var(&f.cost, exactCostFlag, "the most CPU time that --exact may cost the process, or off")
}

const exactCostFlag = "exact-cost"

const exactHelp = `
--exact records every change of the GVL, to the microsecond. Sampling knows only shares of time. Meanwhile the kernel
keeps breakpoints in the process's memory, in the code of libruby. If they cost the process more than --exact-cost of
its CPU time, ddtop removes them, reports that, and goes on sampling. --exact needs root or capabilities, and a kernel
and a Ruby that support it. "ddtop doctor" checks that. See docs/reference/exact.md.`

// addExact adds --exact, and what it means to the command's help.
func (t *target) addExact(cmd *cobra.Command) {
	t.exact.addTo(cmd)
	cmd.Long += "\n" + exactHelp
}

// checkExact refuses what does not go together. A screen can switch exact mode on later, by a key: later is true there.
func (t *target) checkExact(cmd *cobra.Command, later bool) error {
	switch {
	case !t.exact.on && !later && cmd.Flags().Changed(exactCostFlag):
		return usageErrorf("--exact-cost is of --exact, which is not asked for")
	case t.exact.on && t.pause:
		return usageErrorf("--exact does not go with --pause, whose stops would be in all that it says")
	}
	return nil
}

func (f *exactFlags) options() live.ExactOptions {
	o := live.ExactOptions{MaxCost: float64(f.cost), Untried: exactUntried()}
	if f.cost == 0 { // off
		o.MaxCost = 1
	}
	return o
}

// exactUntried reports whether exact mode is wanted on a processor like this one even if it has run on none yet: the environment
// names it, in Go's words. No flag and no setting does, as nobody is to come to it by chance.
func exactUntried() bool { return os.Getenv("DDTOP_EXACT_UNTRIED") == runtime.GOARCH }

// exactSource is a process that exact mode can follow: a *live.Source.
type exactSource interface {
	sampler.Source
	Exact(ctx context.Context, o live.ExactOptions) error
	EndExact() (live.ExactReport, error)
	ExactStatus() sampler.ExactStatus
}

// begin puts the probes into a process, where that is asked for. A ddtop that is stopped would leave them in, and nobody would look at
// what they cost: it ignores ctrl-z from then on.
func (f *exactFlags) begin(ctx context.Context, src exactSource) error {
	if !f.on {
		return nil
	}
	stayAwake()
	if err := src.Exact(ctx, f.options()); err != nil {
		return &exactError{err: err}
	}
	return nil
}

// exactError is why exact mode can't be had.
type exactError struct {
	err error
	// command is what root would run; "": that would not help, or is not known.
	command string
}

func (e *exactError) Error() string {
	text := "--exact: " + e.err.Error()
	if e.command != "" {
		text = strings.Replace(text, "run it with sudo", "run `"+e.command+"`", 1)
	}
	return text
}

func (e *exactError) Unwrap() error { return e.err }

// rootHelps reports whether sudo gives what is missing.
func (e *exactError) rootHelps() bool {
	var missing *probe.MissingRights
	return errors.As(e.err, &missing) && attach.OwnRights().CanBecomeRoot
}

// endExact takes the probes out of a process that was followed exactly, if they still are in.
func endExact(src sampler.Source) error {
	x, ok := src.(exactSource)
	if !ok || x.ExactStatus().SinceNS == 0 {
		return nil
	}
	_, err := x.EndExact()
	return err
}

// exactNote says what of a process's exact mode did not go as it should, and why; "": nothing.
func exactNote(src sampler.Source) (what, why string) {
	x, ok := src.(exactSource)
	if !ok {
		return "", ""
	}
	s := x.ExactStatus()
	if s.WithTarget { // which is said anyway
		s.Ended = ""
	}
	lost := fmt.Sprintf("%d records of exact mode were lost, and what was around them is told as doubtful", s.Lost)
	switch {
	case s.SinceNS == 0:
		return "", ""
	case s.Wrong:
		return "nothing of exact mode is told", s.Ended
	case s.Ended != "" && s.Lost > 0:
		return lost + "; it ended itself, and the process was sampled from then on", s.Ended
	case s.Ended != "":
		return "exact mode ended itself, and it was sampled from then on", s.Ended
	case s.Lost > 0:
		return lost, ""
	}
	return "", ""
}
