package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
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
	// Title is the program's name alone. Args is the whole command line, only with --args: it can hold secrets.
	Title string   `json:"title"`
	Args  []string `json:"args,omitempty"`
}

func newPs(std Streams) *cobra.Command {
	var asJSON, args bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the Ruby processes of this machine",
		Long: `List the Ruby processes of this machine, and for those that can't be read, why not. Only the
program's name is shown: arguments can hold secrets.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := attach.List()
			if err != nil {
				return err
			}
			ps := describeAll(list, args)
			if asJSON {
				return writePsJSON(std.Out, ps)
			}
			if len(ps) == 0 {
				_, err := fmt.Fprintln(std.Out, "no Ruby processes")
				return err
			}
			return writePs(std.Out, ps)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/cli.md)")
	cmd.Flags().BoolVar(&args, "args", false, "show whole command lines")
	return cmd
}

func describeAll(list []attach.Candidate, args bool) []psProcess {
	ps := make([]psProcess, 0, len(list))
	for _, c := range list {
		p := psProcess{PID: c.PID, PPID: c.PPID, Threads: c.Threads, User: c.User, Title: c.Title, Readable: c.Err == nil}
		if c.Version != "" {
			p.Version = &c.Version
		}
		if c.Err != nil {
			why := c.Err.Error()
			p.WhyNot = &why
		}
		if args {
			p.Args = c.Arguments
		}
		ps = append(ps, p)
	}
	return ps
}

func writePsJSON(w io.Writer, ps []psProcess) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(ps)
}

// writePs prints a table, a row a process. Why not stands below its row: it is a sentence.
func writePs(w io.Writer, ps []psProcess) error {
	var rows strings.Builder
	tab := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "PID\tRUBY\tTHREADS\tUSER\tREADABLE\tPROGRAM")
	for _, p := range ps {
		fmt.Fprintln(tab, psRow(p))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(rows.String(), "\n"), "\n")
	for i, line := range lines {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
		if i == 0 || ps[i-1].WhyNot == nil {
			continue
		}
		if _, err := fmt.Fprintf(w, "      %s\n", printable(*ps[i-1].WhyNot)); err != nil {
			return err
		}
	}
	return nil
}

func psRow(p psProcess) string {
	version, readable, program := "?", "no", p.Title
	if p.Version != nil {
		version = *p.Version
	}
	if p.Readable {
		readable = "yes"
	}
	if p.Args != nil {
		program = strings.Join(p.Args, " ")
	}
	return strings.Join([]string{
		strconv.Itoa(p.PID), printable(version), strconv.Itoa(p.Threads), printable(p.User), readable, printable(program),
	}, "\t")
}
