package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
)

// psProcess is one process of `ddtop ps --json`. The field names are a contract.
type psProcess struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// Version is Ruby's release, null when the process can't be read.
	Version *string `json:"version"`
	// Threads is the number of native threads.
	Threads int    `json:"threads"`
	User    string `json:"user"`
	// Readable says that ddtop may read the process; WhyNot is a sentence, null when it may.
	Readable bool    `json:"readable"`
	WhyNot   *string `json:"why_not"`
	// Answered: the kernel answered about the process in time. What did not answer is listed by its name or program.
	Answered bool `json:"answered"`
	// Title is the program's name alone. Args is the whole command line, only with --args: it can hold secrets.
	Title string   `json:"title"`
	Args  []string `json:"args,omitempty"`
}

func newPs(std run.Streams) *cobra.Command {
	var asJSON, args bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the Ruby processes of this machine",
		Long: `List the Ruby processes of this machine, and why ddtop cannot read those it cannot read. Only the program's name is
shown, because arguments can hold secrets. A process that waits for a disk may not answer within a second. It is
listed if its name or its program is a Ruby's.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := attach.List(cmd.Context())
			if err != nil {
				return err
			}
			ps := describeAll(list, args, std.Redact.Redactor())
			if asJSON {
				return export.WriteJSON(std.Results(cmd.Context()), ps)
			}
			if len(ps) == 0 {
				_, err := fmt.Fprintln(std.Results(cmd.Context()), "no Ruby processes")
				return err
			}
			return writePs(std.Results(cmd.Context()), ps)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/reference/cli.md)")
	cmd.Flags().BoolVar(&args, "args", false, "show whole command lines; not with --redact")
	std.Redact.AddTo(cmd)
	return cmd
}

func describeAll(list []attach.Candidate, args bool, names *redact.Redactor) []psProcess {
	ps := make([]psProcess, 0, len(list))
	for _, c := range list {
		p := psProcess{PID: c.PID, PPID: c.PPID, Threads: c.Threads, User: names.User(c.User), Title: names.Program(c.Title),
			Readable: c.Err == nil, Answered: !errors.Is(c.Err, attach.ErrNoAnswer)}
		if c.Version != "" {
			p.Version = &c.Version
		}
		if c.Err != nil {
			why := names.Relative(sampler.Relative{Title: c.Title, Why: names.Error(c.Err)}, "").Why
			p.WhyNot = &why
		}
		if args && names == nil {
			p.Args = c.Arguments
		}
		ps = append(ps, p)
	}
	return ps
}

// writePs prints a table, a row a process, and below it why those can't be read that can't: a sentence, once for all that it
// is true of.
func writePs(w io.Writer, ps []psProcess) error {
	var rows, text strings.Builder
	tab := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "PID\tRUBY\tTHREADS\tUSER\tREADABLE\tPROGRAM")
	for _, p := range ps {
		fmt.Fprintln(tab, psRow(p))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(rows.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	pids := make(map[string][]string)
	var reasons []string
	for _, p := range ps {
		if p.WhyNot == nil {
			continue
		}
		pid := strconv.Itoa(p.PID)
		why := strings.TrimPrefix(*p.WhyNot, "process "+pid+": ")
		if pids[why] == nil {
			reasons = append(reasons, why)
		}
		pids[why] = append(pids[why], pid)
	}
	for _, why := range reasons {
		whose := strings.Join(pids[why], ", ")
		if len(reasons) == 1 { // the table says of which process it is true
			whose = "not readable"
		}
		fmt.Fprintf(&text, "\n%s: %s\n", whose, flamegraph.Printable(why))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func psRow(p psProcess) string {
	version, readable, program := "?", "no", p.Title
	if p.Version != nil {
		version = *p.Version
	}
	switch {
	case p.Readable:
		readable = "yes"
	case !p.Answered:
		readable = "did not answer"
	}
	if p.Args != nil {
		program = strings.Join(p.Args, " ")
	}
	return strings.Join([]string{
		strconv.Itoa(p.PID), flamegraph.Printable(version), strconv.Itoa(p.Threads), flamegraph.Printable(p.User), readable, flamegraph.Printable(program),
	}, "\t")
}
