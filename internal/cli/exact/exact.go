// Package exact has what ddtop's commands share for exact mode, in which probes record every change of the GVL. It has
// the flags, the begin and end for one process or a group, and the reports about its state.
package exact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
)

// Flags are --exact and --exact-cost.
type Flags struct {
	On   bool
	cost flags.Overhead
}

// AddTo adds the flags to a command.
func (f *Flags) AddTo(cmd *cobra.Command) {
	f.cost.Share = live.DefaultExactCost
	cmd.Flags().BoolVar(&f.On, "exact", false, "record every change of the GVL, with breakpoints in the process")
	cmd.Flags().Var(&f.cost, CostFlag, "the most CPU time that --exact may cost the process, or off")
}

// CostFlag is the name of the flag that limits the CPU time that exact mode may cost the process.
const CostFlag = "exact-cost"

func (f *Flags) options() live.ExactOptions {
	o := live.ExactOptions{MaxCost: f.cost.Share, Untried: Untried()}
	if f.cost.Share == 0 { // the cost is not limited
		o.MaxCost = 1
	}
	return o
}

// Untried reports whether the user wants exact mode on a kind of processor on which no one has tried it. The user says
// so with the variable DDTOP_EXACT_UNTRIED: its value must be Go's name of the processor. There is no flag and no
// setting for this, so that no user enables it by accident.
func Untried() bool { return os.Getenv("DDTOP_EXACT_UNTRIED") == runtime.GOARCH }

// Source is a process that exact mode can follow. *live.Source implements it.
type Source interface {
	sampler.Source
	Exact(ctx context.Context, o live.ExactOptions) error
	EndExact() (live.ExactReport, error)
	ExactStatus() sampler.ExactStatus
}

// Begin puts the probes into a process, if the user asked for exact mode. From then on ddtop ignores ctrl-z. If ctrl-z
// stopped ddtop, the probes would stay in the process, and ddtop could not watch what they cost.
func (f *Flags) Begin(ctx context.Context, src Source) error {
	if !f.On {
		return nil
	}
	StayAwake()
	if err := src.Exact(ctx, f.options()); err != nil {
		return &Error{err: err}
	}
	return nil
}

// Error explains why exact mode is not possible.
type Error struct {
	err error
	// Command is the command that the user can run as root instead. It is empty if root would not help, or if the
	// command is unknown.
	Command string
}

func (e *Error) Error() string {
	text := "--exact: " + e.err.Error()
	if e.Command != "" {
		text = strings.Replace(text, "run it with sudo", "run `"+e.Command+"`", 1)
	}
	return text
}

func (e *Error) Unwrap() error { return e.err }

// RootHelps reports whether ddtop would have the missing right if sudo started it.
func (e *Error) RootHelps() bool {
	var missing *probe.MissingRights
	return errors.As(e.err, &missing) && attach.OwnRights().CanBecomeRoot
}

// End removes the probes of exact mode from a process. If the process has no probes, End does nothing.
func End(src sampler.Source) error {
	x, ok := src.(Source)
	if !ok || x.ExactStatus().SinceNS == 0 {
		return nil
	}
	_, err := x.EndExact()
	return err
}

// Note returns what failed in a process's exact mode (what), and the reason (why), as text. Both are empty if exact
// mode has not failed.
func Note(src sampler.Source) (what, why string) {
	x, ok := src.(Source)
	if !ok {
		return "", ""
	}
	s := x.ExactStatus()
	if s.WithTarget { // another message reports this
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
