package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
)

// psProcess is one process in the output of `ddtop ps --json`. The JSON keys must not change.
type psProcess struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// Version is Ruby's release. It is null if the process cannot be read.
	Version *string `json:"version"`
	// Threads is the number of native threads.
	Threads int    `json:"threads"`
	User    string `json:"user"`
	// Readable is true if ddtop may read the process. Otherwise WhyNot says why not, in a sentence.
	Readable bool    `json:"readable"`
	WhyNot   *string `json:"why_not"`
	// Answered reports whether the kernel answered questions about the process in time. A process without an answer is
	// listed if its name or program looks like Ruby.
	Answered bool `json:"answered"`
	// Name is the displayed name of the process, such as "puma w0". Worker is the number in this name, here 0, or null
	// if the name has no number.
	Name   string `json:"name"`
	Worker *int   `json:"worker"`
	// CPU is how many CPUs the process used during the listing, such as 0.5. It is null if not known.
	CPU *float64 `json:"cpu"`
	// RSSBytes is the resident memory of the process. It is null if the kernel did not report it.
	RSSBytes *int64 `json:"rss_bytes"`
	// Title is only the program's name. Args is the whole command line, only with --args because it can hold secrets.
	Title string   `json:"title"`
	Args  []string `json:"args,omitempty"`
	// depth is the number of this process's ancestors in the list.
	depth int
}

// psSpan is how long ps measures the CPU time of processes. The kernel counts this time in steps of 10 ms.
const psSpan = 500 * time.Millisecond

func newPs(std run.Streams) *cobra.Command {
	var asJSON, args bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the Ruby processes of this machine",
		Long: `List the Ruby processes of this machine, and why ddtop cannot read those it cannot read. Only the program's name is
shown, because arguments can hold secrets. CPU is measured for half a second. The list is sorted by CPU, and each
process is followed by those below it: a master by its workers. A process that waits for a disk may not answer within
a second. It is listed if its name or its program is a Ruby's.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := attach.List(cmd.Context())
			if err != nil {
				return err
			}
			ps := psOf(cmd.Context(), list, args, std.Redact.Redactor())
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

// psOf describes the processes of a list as a tree, with their CPU time during psSpan.
func psOf(ctx context.Context, list []attach.Candidate, args bool, names *redact.Redactor) []psProcess {
	ps := describeAll(list, args, names)
	select {
	case <-time.After(psSpan):
	case <-ctx.Done():
	}
	for i := range list {
		if share, ok := list[i].CPUShare(); ok {
			ps[i].CPU = &share
		}
	}
	return asTree(ps)
}

// asTree sorts processes by CPU time, and puts the children of a process after it. In this order, the CPU time of a
// process includes its descendants' CPU time.
func asTree(ps []psProcess) []psProcess {
	listed := make(map[int]bool, len(ps))
	for i := range ps {
		listed[ps[i].PID] = true
	}
	children := make(map[int][]int)
	for i := range ps {
		parent := 0
		if p := ps[i].PPID; listed[p] && p != ps[i].PID {
			parent = p
		}
		children[parent] = append(children[parent], i)
	}
	sums := make(map[int]float64, len(ps))
	var sum func(pid int) float64
	sum = func(pid int) (all float64) {
		for _, i := range children[pid] {
			own := sum(ps[i].PID)
			if ps[i].CPU != nil {
				own += *ps[i].CPU
			}
			sums[i] = own
			all += own
		}
		return all
	}
	sum(0)
	out := make([]psProcess, 0, len(ps))
	var add func(pid, depth int)
	add = func(pid, depth int) {
		slices.SortStableFunc(children[pid], func(x, y int) int { return cmp.Compare(sums[y], sums[x]) })
		for _, i := range children[pid] {
			ps[i].depth = depth
			out = append(out, ps[i])
			add(ps[i].PID, depth+1)
		}
	}
	add(0, 0)
	return out
}

func describeAll(list []attach.Candidate, args bool, names *redact.Redactor) []psProcess {
	ps := make([]psProcess, 0, len(list))
	for _, c := range list {
		p := psProcess{PID: c.PID, PPID: c.PPID, Threads: c.Threads, User: names.User(c.User), Title: names.Program(c.Title),
			Readable: c.Err == nil, Answered: !errors.Is(c.Err, attach.ErrNoAnswer)}
		if c.Version != "" {
			p.Version = &c.Version
		}
		p.Name = nameOf(c, names)
		if n, ok := attach.WorkerNumber(c.Part); ok {
			p.Worker = &n
		}
		if c.RSSBytes > 0 {
			p.RSSBytes = &c.RSSBytes
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

// writePs prints a table with a row for each process. If processes cannot be read, it prints the reasons below the
// table. It prints each reason once.
func writePs(w io.Writer, ps []psProcess) error {
	var rows, text strings.Builder
	tab := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "PID\tCPU\tMEMORY\tRUBY\tTHREADS\tUSER\tREADABLE\tPROGRAM")
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
		if len(reasons) == 1 { // if there is only one reason, the table shows which processes it is about
			whose = "not readable"
		}
		fmt.Fprintf(&text, "\n%s: %s\n", whose, flamegraph.Printable(why))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// maxDepth limits how far a process is indented in the tree, in levels.
const maxDepth = 8

func psRow(p psProcess) string {
	version, readable, program := "?", "no", p.Name
	share, memory := "–", "–"
	if p.CPU != nil {
		share = units.RoundPercent(*p.CPU)
	}
	if p.RSSBytes != nil {
		memory = units.FineBytes(*p.RSSBytes)
	}
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
	if p.depth > 0 {
		program = strings.Repeat("  ", min(p.depth, maxDepth)-1) + "└ " + program
	}
	return strings.Join([]string{
		strconv.Itoa(p.PID), share, memory, flamegraph.Printable(version), strconv.Itoa(p.Threads),
		flamegraph.Printable(p.User), readable, flamegraph.Printable(program),
	}, "\t")
}
