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
	// Terminal is true if In and Out are a terminal, so that ddtop can show a screen and ask questions.
	Terminal bool
	// Redact is the flag --redact of the running command, or nil if the command has no such flag.
	Redact *flags.Redaction
	// Own is the flag --own-code of the running command, or nil if the command has no such flag.
	Own *flags.OwnCode
	// Chosen says how the user found the process, if not by its PID.
	Chosen *Chosen
}

// Standard returns the process's own streams.
func Standard() Streams {
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// Chosen is how the user found a process, if not by its PID. If ddtop is started again, for example with sudo, it can
// use the same words.
type Chosen struct {
	Words    []string   // the words by which the process was found
	PIDs     flags.PIDs // empty if flags select the process
	Children bool
}

// sentence returns the text of an error on one line. It removes control characters, because a name from a target can
// contain anything.
func (s Streams) sentence(err error) string {
	return flamegraph.Printable(OneLine(s.Redact.Redactor().Error(err)))
}

// SayErr prints an error on standard error. If ddtop has run out of file descriptors, it adds advice.
func (s Streams) SayErr(err error) {
	help := ""
	if errors.Is(err, syscall.EMFILE) && !errors.Is(err, attach.ErrExhausted) {
		help = ". Raise ddtop's limit of open files: `ulimit -n 4096`"
	}
	fmt.Fprintf(s.Err, "ddtop: %s%s\n", s.sentence(err), help)
}

// Say prints a sentence on standard error.
func (s Streams) Say(format string, args ...any) {
	fmt.Fprintf(s.Err, "ddtop: %s\n", s.Redact.Text(fmt.Sprintf(format, args...)))
}

// Results returns a writer to standard output for a command's results. If standard output is a pipe without a reader,
// the writer gives up a while after ctx has ended.
func (s Streams) Results(ctx context.Context) io.Writer { return &patientWriter{ctx: ctx, to: s.Out} }
