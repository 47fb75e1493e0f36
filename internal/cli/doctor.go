package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
)

// doctorMeasures is how long `ddtop doctor` measures a process.
const doctorMeasures = 2 * time.Second

// Results of one of doctor's checks. They are the values of the key "state" in the JSON.
const (
	checkGood  = "ok"
	checkWrong = "wrong"
	checkNote  = "note" // information that is neither right nor wrong
)

// check is the result of one check. Its JSON keys must not change.
type check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text"`
	// Remedy is advice on what to do. It is empty if nothing is wrong or there is no remedy.
	Remedy string `json:"remedy,omitempty"`
}

type doctor struct {
	target
	std    run.Streams
	checks []check
	failed []error
}

func newDoctor(std run.Streams) *cobra.Command {
	d := doctor{target: target{stackRate: defaultStackRate, lockRate: defaultLockRate, names: std.Redact, ownCode: std.Own}, std: std}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [PID|NAME]",
		Short: "Check what works on this machine, and what to do if it does not",
		Long: `Check what works on this machine, one line per check, to read or to paste into an issue: the system, permissions,
/proc, the terminal, the settings, and the Ruby processes. With a process, or with the first readable one, ddtop
then measures for two seconds which rates and which cost it reaches. Nothing is stopped unless you pass --pause.
--redact leaves names out. The last line is the verdict. The exit code is 0 if all is well, else 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 || cmd.Flags().Changed("pid") {
				if err := d.find(cmd, args, std, plainLook("look at", std)); err != nil {
					return err
				}
			}
			d.examine(cmd.Context())
			failed := d.verdict()
			out := std.Results(cmd.Context())
			if asJSON {
				return errors.Join(export.WriteJSON(out, d.checks), failed)
			}
			return errors.Join(d.write(out), failed)
		},
	}
	cmd.Flags().VarP(&d.pids, "pid", "p", "the `PID` of the process")
	_ = cmd.RegisterFlagCompletionFunc("pid", completePIDs) // cannot fail, because the flag was added just before
	cmd.ValidArgsFunction = completePIDs
	cmd.Flags().BoolVar(&d.pause, "pause", false, "also try to stop the process for a moment")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/reference/cli.md)")
	d.addOverhead(cmd)
	std.Redact.AddTo(cmd)
	return cmd
}

// say adds a check's result. With --redact, it contains no names of files or users. It never has control characters.
func (d *doctor) say(state, name, remedy, format string, args ...any) {
	d.checks = append(d.checks, check{name, state, flamegraph.Printable(d.names.Text(run.OneLine(fmt.Sprintf(format, args...)))), d.names.Text(remedy)})
}

// wrong adds a check that failed with err.
func (d *doctor) wrong(name string, err error) {
	d.checks = append(d.checks, check{Name: name, State: checkWrong, Text: run.OneLine(d.textOf(err))})
	d.failed = append(d.failed, err)
}

// textOf returns the text of an error, without names if --redact is on.
func (d *doctor) textOf(err error) string { return flamegraph.Printable(d.names.Redactor().Error(err)) }

// verdict adds the last line, which sums up all checks. The error is nil if nothing is wrong.
func (d *doctor) verdict() error {
	var first *check
	n, of := 0, len(d.checks)
	for i, c := range d.checks {
		if c.State != checkWrong {
			continue
		}
		if n++; first == nil {
			first = &d.checks[i]
		}
	}
	if n == 0 {
		d.say(checkGood, "verdict", "", "ddtop works here; %d checks", of)
		return nil
	}
	text := first.Text
	if first.Name != "" {
		text = first.Name + ": " + text
	}
	// text needs no redaction here: it is from the first failed check, which has already redacted it.
	d.checks = append(d.checks, check{Name: "verdict", State: checkWrong, Text: fmt.Sprintf("%d of %d checks failed, first %s", n, of, text)})
	failed := &doctorError{failed: n, of: of}
	if len(d.failed) > 0 {
		failed.first = d.failed[0]
	}
	return failed
}

// doctorError reports how many checks failed. Their texts are in the report. The exit code is exitFailed.
type doctorError struct {
	failed, of int
	first      error
}

func (e *doctorError) Error() string { return fmt.Sprintf("%d of %d checks failed", e.failed, e.of) }

// Unwrap returns the error of the first failed check, or nil if no check failed with an error. It decides whether ddtop
// offers to run as root.
func (e *doctorError) Unwrap() error { return e.first }

func (d *doctor) write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(versionText() + "\n\n")
	for _, c := range d.checks {
		sign := map[string]string{checkGood: "✓", checkWrong: "✗", checkNote: "·"}[c.State]
		fmt.Fprintf(&b, "%s %-11s %s\n", sign, c.Name, c.Text)
		if c.Remedy != "" {
			fmt.Fprintf(&b, "  %-11s → %s\n", "", c.Remedy)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d *doctor) examine(ctx context.Context) {
	d.examineSystem()
	rights := attach.OwnRights()
	d.examineRights(rights)
	d.examineProc(rights)
	d.examineTerminal()
	d.examineSettings()
	pid := d.examineRubies(ctx)
	if len(d.pids) > 0 {
		pid = d.pids[0]
	}
	possible := live.TryExact(exact.Untried())
	if pid == 0 {
		d.say(checkNote, "measuring", "", "nothing to measure")
	} else {
		d.examineTarget(ctx, pid, possible == nil)
	}
	if possible != nil {
		d.sayNoExact(possible)
	} else if pid == 0 {
		d.say(checkGood, "exact", "", "this machine lets ddtop put probes into processes (--exact)")
	}
	d.examineSwitches()
	d.examineNative()
	d.say(checkNote, "perf, BPF", "", "used for --exact, to follow thread switches, and for C stacks")
}

// sayNoExact reports why --exact does not work here. This is a note and not a failed check, because most users do not
// need --exact.
func (d *doctor) sayNoExact(why error) {
	remedy := ""
	var missing *probe.MissingRights
	if errors.As(why, &missing) {
		why, remedy = errors.New(missing.Lacks), "For --exact "+missing.Help+"."
	}
	d.say(checkNote, "exact", remedy, "no --exact: %s", d.textOf(why))
}

func (d *doctor) examineSystem() {
	state, remedy := checkGood, ""
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		state, remedy = checkWrong, "Processes can be read on Linux, on x86_64 and aarch64; recordings can be looked at anywhere."
	}
	d.say(state, "system", remedy, "%s, %s, %d CPUs", systemName(), runtime.GOARCH, runtime.NumCPU())
}

// examineRights reports the rights that decide which processes ddtop may read.
func (d *doctor) examineRights(r attach.Rights) {
	yes := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "no"
	}
	// A missing right is only a note here. If it keeps ddtop from reading a process, a later check fails.
	d.say(checkNote, "user", "", "%s; CAP_SYS_PTRACE %s, CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE %s, CAP_SYS_NICE %s",
		d.names.Redactor().User(r.User), yes(r.Ptrace), yes(r.OpensFiles), yes(r.Nice))
	switch {
	case r.Yama < 0:
		d.say(checkGood, "ptrace", "", "this kernel has no Yama (kernel.yama.ptrace_scope)")
	case r.Yama == 0, r.Ptrace && r.Yama < 3:
		d.say(checkGood, "ptrace", "", "kernel.yama.ptrace_scope is %d", r.Yama)
	case r.Yama >= 3:
		d.say(checkWrong, "ptrace", "Only a reboot undoes that: set it to 1 in /etc/sysctl.d.", "kernel.yama.ptrace_scope is %d: nobody may read a process", r.Yama)
	default:
		d.say(checkWrong, "ptrace", ptraceRemedy(r),
			"kernel.yama.ptrace_scope is %d, and we don't have CAP_SYS_PTRACE", r.Yama)
	}
	where := "none seen"
	if r.Container {
		where = "we seem to run in one"
	}
	if r.InnerUsers {
		where += "; in a user namespace of its own, outside of which nothing can be read"
	}
	d.say(checkNote, "container", "", "%s; seccomp filter: %s", where, yes(r.Filtered))
}

// ptraceRemedy returns advice if Yama restricts the reading of processes (kernel.yama.ptrace_scope is 1 or 2) and
// CAP_SYS_PTRACE is missing. A user who cannot get CAP_SYS_PTRACE can change the target's program, or start it with
// ddtop. Both help only if ptrace_scope is 1.
func ptraceRemedy(r attach.Rights) string {
	root := "Run ddtop with `sudo`"
	if !r.CanBecomeRoot {
		root = "Start the container with `--cap-add=SYS_PTRACE`"
	}
	if r.Yama > 1 {
		return root + ". Nothing that the program does helps."
	}
	return root + ", or `sudo sysctl kernel.yama.ptrace_scope=0`. Without such rights, start the program with `ddtop -- COMMAND`, " +
		"or have it call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) and run ddtop as the same user."
}

// examineProc checks what ddtop can read in /proc.
func (d *doctor) examineProc(r attach.Rights) {
	switch {
	case r.HidesProcesses && !r.Ptrace:
		d.say(checkWrong, "/proc", "Run ddtop as root, or as the process's user.", "it is mounted with hidepid: processes that we may not read can't be listed")
	default:
		d.say(checkGood, "/proc", "", "mounted, without hidepid or with the right to see all")
	}
	if _, err := os.ReadFile("/proc/self/schedstat"); err != nil {
		d.say(checkWrong, "schedstat", "It takes a kernel with CONFIG_SCHED_INFO.", "/proc/PID/schedstat can't be read: that a thread waits for a CPU is not seen")
	} else {
		d.say(checkGood, "schedstat", "", "waiting for a CPU can be told from running")
	}
	if _, err := os.ReadFile("/proc/pressure/cpu"); err != nil {
		d.say(checkNote, "pressure", "", "/proc/pressure can't be read: stat does not say how short the machine is of CPU, memory and disk")
	} else {
		d.say(checkGood, "pressure", "", "/proc/pressure is there")
	}
}

// examineTerminal reports the size, colours and character set of the terminal.
func (d *doctor) examineTerminal() {
	f, ok := d.std.Out.(*os.File)
	if !d.std.Terminal || !ok {
		d.say(checkNote, "terminal", "", "standard input or output is none: no screen; dump, stat and record work")
		return
	}
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil {
		d.wrong("terminal", err)
		return
	}
	colors := cmp.Or(os.Getenv("COLORTERM"), "not set, so 256 or fewer are assumed unless TERM says more")
	if os.Getenv("NO_COLOR") != "" {
		colors = "none (NO_COLOR is set)"
	}
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	text := fmt.Sprintf("%dx%d, TERM %s, colours (COLORTERM) %s, locale %s", w, h, os.Getenv("TERM"), colors, locale)
	upper := strings.ToUpper(strings.ReplaceAll(locale, "-", ""))
	switch {
	case w < 60 || h < 15:
		d.say(checkWrong, "terminal", "Make it 60 columns by 15 rows at least; 80x24 is better.", "%s", text)
	case os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "":
		d.say(checkWrong, "terminal", "Set TERM to what the terminal is, `TERM=xterm-256color`.", "%s", text)
	case locale != "" && !strings.Contains(upper, "UTF8"):
		d.say(checkWrong, "terminal", "Where blocks and arrows are drawn as other characters, use --ascii or a UTF-8 locale.", "%s", text)
	default:
		d.say(checkGood, "terminal", "", "%s", text)
	}
}

// examineSettings checks the settings file by reading it as the screen does.
func (d *doctor) examineSettings() {
	std := d.std
	std.Terminal = true // without a terminal, the settings file would not be read
	std.Redact, std.Own = flags.NewRedaction(nil), new(flags.OwnCode)
	f := newScreenFlags(std)
	cmd := &cobra.Command{}
	f.add(cmd)
	path := configPath()
	if err := f.configure(cmd, std); err != nil {
		d.wrong("settings", err)
		return
	}
	if _, err := os.Stat(path); err != nil {
		d.say(checkNote, "settings", "", "no file of settings (%s)", path)
		return
	}
	d.say(checkGood, "settings", "", "%s", path)
}
