package rivals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	contract "github.com/ddtop/ddtop/report"
)

// meter is a profiler whose own CPU time is measured while it samples.
type meter struct {
	name string
	// command samples the process for the given time, counted from its first sample. It may write to file.
	command func(pid int, length time.Duration, file string) *exec.Cmd
	// said reads what the profiler reports about its own work, from its output or from file.
	said func(out []byte, file string) (sampled, error)
}

// sampled is a profiler's own report about its run: when it sampled, and how often.
type sampled struct {
	// from and until are when the profiler took its first and its last sample, by CLOCK_MONOTONIC. They are zero if the
	// profiler does not report these times.
	from, until time.Duration
	samples     int
	// stackHz and lockHz are the rates that the profiler achieved.
	stackHz, lockHz float64
	// kernel is the share of a CPU that the profiler's programs in the kernel took, in percent. It is NaN if there were
	// no such programs, or if the kernel did not count their time. BenchmarkQuality makes the kernel count it.
	kernel float64
	// exact is what exact mode reported about itself. It is nil if the profiler did not use exact mode.
	exact *contract.StatExact
}

// stat returns a meter that measures `ddtop stat` with the given additional arguments.
func stat(path, name string, args ...string) meter {
	return meter{name: name, said: saidByStat, command: func(pid int, length time.Duration, _ string) *exec.Cmd {
		return exec.Command(path, append([]string{"stat", "--json", "--pid", strconv.Itoa(pid), "--duration", length.String()}, args...)...)
	}}
}

func saidByStat(out []byte, _ string) (sampled, error) {
	var s struct {
		Start   int64 `json:"start_monotonic_ns"`
		End     int64 `json:"end_monotonic_ns"`
		Samples int
		Rate    struct{ Stack, Lock struct{ Achieved float64 } }
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return sampled{}, fmt.Errorf("%w in %.200q", err, out)
	}
	return sampled{
		from: time.Duration(s.Start), until: time.Duration(s.End), samples: s.Samples,
		stackHz: s.Rate.Stack.Achieved, lockHz: s.Rate.Lock.Achieved,
	}, nil
}

// rbspyMeter returns a meter that measures rbspy. rbspy does not report when it began. Its raw file shows how many
// stacks it read.
func rbspyMeter(path string) meter {
	p := rbspy(path, "rbspy")
	return meter{name: p.name,
		command: func(pid int, length time.Duration, file string) *exec.Cmd {
			return p.command(pid, int(length.Seconds()+1), file)
		},
		said: func(_ []byte, file string) (sampled, error) {
			var v verdict
			err := p.read(file, &v)
			return sampled{samples: v.stacks}, err
		}}
}

// started is a running profiler.
type started struct {
	meter
	cmd       *exec.Cmd
	out, told bytes.Buffer // the profiler's standard output and standard error
	file      string
	pid       int // the process that the profiler samples
	ended     chan error
}

// start starts a profiler. The profiler runs for the given time, or until the method end is called.
func (m meter) start(b *testing.B, pid int, length time.Duration) *started {
	b.Helper()
	s := &started{meter: m, pid: pid, file: filepath.Join(b.TempDir(), "out"), ended: make(chan error, 1)}
	s.cmd = m.command(pid, length, s.file)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.told
	// The profiler gets its own session, as if it were started from another terminal. The kernel groups processes by
	// session (sched_autogroup_enabled, proc(5)), so in the benchmark's session it would get another share of the CPUs.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.cmd.Start(); err != nil {
		b.Fatalf("starting %s: %v", m.name, err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	return s
}

// atWork fails the benchmark if the profiler has ended by itself.
func (s *started) atWork(b *testing.B) {
	b.Helper()
	select {
	case err := <-s.ended:
		b.Fatalf("%s ended before it was to: %v\n%s%s", s.name, err, s.out.String(), s.told.String())
	default:
	}
}

// end interrupts the profiler and returns its report. It fails the benchmark unless the profiler sampled all the time
// between from and until (times of CLOCK_MONOTONIC). A profiler that failed or was still attaching would seem cheap.
func (s *started) end(b *testing.B, from, until time.Duration) sampled {
	b.Helper()
	said, late := s.endOrLate(b, from, until)
	if late > 0 {
		b.Errorf("%s took its first sample %v after its cost was to be measured", s.name, late)
	}
	return said
}

// endOrLate is like end, but also returns how late the profiler began. late is the time from "from" until its first
// sample. It is zero if the profiler began in time.
func (s *started) endOrLate(b *testing.B, from, until time.Duration) (said sampled, late time.Duration) {
	b.Helper()
	s.atWork(b)
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		b.Fatal(err)
	}
	err := <-s.ended
	if err != nil && strings.Contains(s.told.String(), nothingMeasured) {
		return said, until - from
	}
	said = s.result(b, err)
	if said.until != 0 && said.until < until-stale {
		b.Errorf("%s took its last sample %v before the end of the measurement", s.name, until-said.until)
	}
	return said, max(0, said.from-from)
}

// nothingMeasured is ddtop's message if it is interrupted before its first sample.
const nothingMeasured = "it ended before anything was measured"

// stale limits how long before the end of the measurement a profiler may have taken its last sample. ddtop samples an
// idle process 20 times a second, and may have to wait for a CPU on a full machine.
const stale = 500 * time.Millisecond

// result returns the report of a profiler that has ended. err is the error with which it ended.
func (s *started) result(b *testing.B, err error) sampled {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v\n%s", s.name, err, s.told.String())
	}
	said, err := s.said(s.out.Bytes(), s.file)
	if err == nil && said.samples == 0 {
		err = errors.New("no sample")
	}
	if err != nil {
		b.Fatalf("what %s says: %v", s.name, err)
	}
	return said
}

const (
	// settle is how long a profiler samples before its cost is measured. The first samples cost more, because they read
	// every name.
	settle = 500 * time.Millisecond
	// look is the time between two readings of the profiler's CPU time. Only at its end does the profiler report the
	// time of its first sample. So the benchmark reads the CPU time all the time, and later selects the readings
	// between the first and the last sample.
	look = 50 * time.Millisecond
)

// cost lets the profiler sample a process for a while, and returns its CPU time in percent of a CPU. It does not count
// the CPU time for the attach, the first samples and the report.
func (m meter) cost(b *testing.B, pid int, length time.Duration) (share float64, said sampled) {
	b.Helper()
	type reading struct{ at, cpu, kernel time.Duration }
	var readings []reading
	s := m.start(b, pid, settle+length)
	every := time.NewTicker(look)
	defer every.Stop()
	for running := true; running; {
		select {
		case err := <-s.ended:
			said, running = s.result(b, err), false
		case <-every.C:
			if cpu, ok := cpuTime(s.cmd.Process.Pid); ok {
				readings = append(readings, reading{monotonic(), cpu, kernelTime(s.cmd.Process.Pid)})
			}
		}
	}
	var first, last *reading
	for i, r := range readings {
		if r.at < said.from+settle || r.at > said.until {
			continue
		}
		if first == nil {
			first = &readings[i]
		}
		last = &readings[i]
	}
	if first == nil || last.at-first.at < length/2 {
		b.Fatalf("%s sampled from %v to %v, and its CPU time was seen %d times", m.name, said.from, said.until, len(readings))
	}
	said.kernel = math.NaN()
	if last.kernel > first.kernel {
		said.kernel = 100 * float64(last.kernel-first.kernel) / float64(last.at-first.at)
	}
	return 100 * float64(last.cpu-first.cpu) / float64(last.at-first.at), said
}

// programTime matches the line in which the kernel says how long a BPF program has run.
var programTime = regexp.MustCompile(`(?m)^run_time_ns:\s*(\d+)$`)

// kernelTime returns how long the BPF programs of a process have run in the kernel. It is zero if the kernel does not
// count this time.
func kernelTime(pid int) (sum time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		panic(err) // impossible: the pattern is valid
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the descriptor was closed
		}
		if m := programTime.FindSubmatch(text); m != nil {
			if ns, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil {
				sum += time.Duration(ns)
			}
		}
	}
	return sum
}

// cpuTime returns the CPU time that a process has used until now, including threads that have ended
// (clock_getcpuclockid(3)). ok is false if the process has ended.
func cpuTime(pid int) (sum time.Duration, ok bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
