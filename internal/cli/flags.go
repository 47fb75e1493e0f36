package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/sampler/live"
)

// Limits of the rates in Hz. Above 10 kHz a tick no longer fits between two others; stacks are read at most as often as
// the lock.
const (
	defaultStackRate = 100.0
	defaultLockRate  = 1000.0
	maxRate          = 10000.0
	minRate          = 0.1
)

// target names the processes to look at and the rates.
type target struct {
	// pids are those named; pid is the first.
	pids      pidList
	pid       int
	children  bool
	stackRate float64
	lockRate  float64
	pause     bool
	overhead  overhead
	// overheadAsked: the user asked for the overhead, so it holds in any case.
	overheadAsked bool
	// figuresOf is the time that figures are of. Zero means sampler.QualityWindow.
	figuresOf time.Duration
	exact     exactFlags
	source    sourceFlag
	// values: paths, arguments, literals and messages are read, unless names are left out.
	values bool
	// noRequests: whom threads work for is not read. What reading it costs is measured so.
	noRequests bool
	// names are what is left out of what the processes say.
	names *redaction
	// own is which code is the program's own, beyond what is found out.
	ownCode *ownCode
}

func (t *target) addPID(cmd *cobra.Command) {
	cmd.Flags().VarP(&t.pids, "pid", "p", "the `PID` of the process; several: 17,18,19")
	addValues(cmd, &t.values)
	cmd.Flags().BoolVar(&t.noRequests, "no-requests", false, "don't read for whom threads work")
	// The flag is there: it has just been added.
	_ = cmd.Flags().MarkHidden("no-requests")
	// The flag is there: it has just been added.
	_ = cmd.RegisterFlagCompletionFunc("pid", completePIDs)
	cmd.ValidArgsFunction = completePIDs
	cmd.Flags().BoolVar(&t.children, "children", false, "also follow the Ruby processes below it, including later ones")
}

// addValues adds the flag that has values read.
func addValues(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "values", false, "also read paths, arguments, literals and messages; not with --redact")
}

// attaching are the options of attaching. progress is told how far the reading of debug information is.
func (t *target) attaching(progress func(path string, done, total int)) live.Options {
	return live.Options{StackRate: t.stackRate, LockRate: t.lockRate, Overhead: float64(t.overhead), OverheadMost: t.overheadMost(), Window: t.figuresOf, Pause: t.pause,
		Redactor: t.names.redactor(), Values: t.values, NoRequests: t.noRequests, From: t.from(), OwnCode: t.ownCode.rules(), Progress: progress}
}

// several reports whether more than one process is, or may come to be, looked at.
func (t *target) several() bool { return t.children || len(t.pids) > 1 }

// pidList is a flag's value: PIDs with commas between them.
type pidList []int

// String returns the value as it was written.
func (l *pidList) String() string {
	words := make([]string, len(*l))
	for i, pid := range *l {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// Type is the word for the value in help texts.
func (l *pidList) Type() string { return "PID" }

// Set adds PIDs.
func (l *pidList) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		pid, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q is not a PID", word)
		}
		if len(*l) >= live.MaxProcesses {
			return fmt.Errorf("there are more than %d", live.MaxProcesses)
		}
		if !slices.Contains(*l, pid) {
			*l = append(*l, pid)
		}
	}
	return nil
}

func (t *target) addRates(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&t.stackRate, "rate", defaultStackRate, "how often to read stacks, in `Hz`")
	cmd.Flags().Float64Var(&t.lockRate, "lock-rate", defaultLockRate, "how often to read the GVL, in `Hz`, up to 10000")
	t.addOverhead(cmd)
	t.source.addTo(cmd)
}

// checkPID checks the PIDs named, or the one that was found in another way.
func (t *target) checkPID() error {
	if len(t.pids) == 0 {
		t.pids = pidList{t.pid}
	}
	t.pid = t.pids[0]
	for _, pid := range t.pids {
		if pid <= 0 {
			return usageErrorf("%d is not a process: a PID is a number above 0", pid)
		}
	}
	return nil
}

func (t *target) checkRates() error {
	for _, r := range []struct {
		flag string
		hz   float64
	}{{"--rate", t.stackRate}, {"--lock-rate", t.lockRate}} {
		// Written so that NaN is refused too.
		if !(r.hz >= minRate && r.hz <= maxRate) {
			return usageErrorf("%s takes %g to %g Hz, not %g", r.flag, minRate, maxRate, r.hz)
		}
	}
	if t.lockRate < t.stackRate {
		// A stack tick reads the lock too.
		t.lockRate = t.stackRate
	}
	return t.checkSource()
}

// duration is a flag's value: "10s", "1m30s", or a bare number of seconds.
type duration struct {
	value    time.Duration
	min, max time.Duration
}

// String returns the value as Go writes it.
func (d *duration) String() string { return d.value.String() }

// Type is the word for the value in help texts.
func (d *duration) Type() string { return "duration" }

// Set parses a value.
func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		seconds, numberErr := strconv.ParseFloat(text, 64)
		if numberErr != nil || !(seconds >= 0 && seconds < 1e9) {
			return fmt.Errorf("%q is not a duration such as 10s, 1m30s or 10", text)
		}
		v = time.Duration(seconds * float64(time.Second))
	}
	if v < d.min || v > d.max {
		return fmt.Errorf("it takes %v to %v", d.min, d.max)
	}
	d.value = v
	return nil
}
