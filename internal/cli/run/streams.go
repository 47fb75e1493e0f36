package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/flags"
)

// Streams are the inputs and outputs of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal says that In and Out are a terminal, so that there can be a screen and questions.
	Terminal bool
	// Redact is --redact of the command that runs, or nil if it has none.
	Redact *flags.Redaction
	// Own is --own-code of the command that runs, or nil if it has none.
	Own *flags.OwnCode
	// Chosen is the process that was found by other words than its PID.
	Chosen *Chosen
}

// Standard returns the process's own streams.
func Standard() Streams {
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// Chosen is which process was found by other words than its PID, so that ddtop can be started again for the same one.
type Chosen struct {
	Words    []string   // the words by which it was found
	PIDs     flags.PIDs // empty: the flags name it
	Children bool
}

// sentence puts an error's text on one line, without control characters: names from a target may hold anything.
func (s Streams) sentence(err error) string {
	return flamegraph.Printable(OneLine(s.Redact.Redactor().Error(err)))
}

// SayErr prints an error on standard error, with advice if ddtop has no descriptors left.
func (s Streams) SayErr(err error) {
	help := ""
	if errors.Is(err, syscall.EMFILE) && !errors.Is(err, attach.ErrExhausted) {
		help = ". Raise ddtop's limit of open files: `ulimit -n 4096`"
	}
	fmt.Fprintf(s.Err, "ddtop: %s%s\n", s.sentence(err), help)
}

// Say says a sentence on standard error.
func (s Streams) Say(format string, args ...any) {
	fmt.Fprintf(s.Err, "ddtop: %s\n", s.Redact.Text(fmt.Sprintf(format, args...)))
}

// Results returns standard output for a command's results. If a pipe has no reader, it gives up a while after ctx has
// ended.
func (s Streams) Results(ctx context.Context) io.Writer { return &patientWriter{ctx: ctx, to: s.Out} }
