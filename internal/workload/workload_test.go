package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// phaseLength is how long the tests let a phase last.
const phaseLength = 1500 * time.Millisecond

// startOn starts the bundled program on a Ruby. The caller must stop it.
func startOn(ctx context.Context, t *testing.T, r rubytest.Ruby, opts Options) *Running {
	t.Helper()
	if r.Root != "" && os.Geteuid() != 0 {
		rubytest.Skip(t, "starting by chroot needs root")
	}
	opts.Root = r.Root
	w, err := Start(ctx, r.Bin, opts)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// startAlone starts the bundled program on one Ruby. The caller must stop it.
func startAlone(ctx context.Context, t *testing.T, opts Options) *Running {
	t.Helper()
	return startOn(ctx, t, rubytest.One(t), opts)
}

// start starts the bundled program. At the end of the test it stops the program, which must then end without an error.
func start(t *testing.T, r rubytest.Ruby, opts Options) *Running {
	t.Helper()
	w := startOn(t.Context(), t, r, opts)
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// phase has the events that the program logged about one phase, with their figures.
type phase struct{ begin, end, drained Event }

func (p phase) duration() time.Duration {
	return time.Duration(p.end.MonotonicNS - p.begin.MonotonicNS)
}

// phasesAtOnce is how many programs the test runs at the same time. A program computes only in some of its phases. But
// if five programs ran on two CPUs at the same time, each would get less CPU time than the checks need.
const phasesAtOnce = 2

func TestEachPhaseDoesWhatItSays(t *testing.T) {
	rubytest.Long(t)
	turns := make(chan struct{}, phasesAtOnce)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		// A single program waits most of the time, so two run at the same time. This does not disturb the checks below.
		// The checks compare phases of one run, or need far less CPU time than a busy machine leaves.
		t.Parallel()
		turns <- struct{}{}
		defer func() { <-turns }()
		w := start(t, r, Options{PhaseLength: phaseLength, Rounds: 1})
		delayed := runDelayDuring(t, w, "stall")
		if err := w.Wait(); err != nil {
			t.Fatal(err)
		}
		events := w.Log.Events()
		phases := edges(t, events)
		for name, p := range phases {
			// On a busy machine a phase can last longer, because the thread that should end it gets no CPU.
			if d := p.duration(); d < phaseLength || d > rubytest.Timeout {
				t.Errorf("%s lasted %v instead of %v", name, d, phaseLength)
			}
			if !p.drained.Complete {
				t.Errorf("threads stayed behind in %s", name)
			}
		}
		checkTroubles(t, r, phases, delayed)
	})
}

// runDelayDuring waits until a phase ends. It returns how long the program's threads were ready to run in this phase
// but had no CPU, summed over all threads.
func runDelayDuring(t *testing.T, w *Running, phase string) time.Duration {
	t.Helper()
	if _, err := w.Log.WaitFor(t.Context(), begun(phase)); err != nil {
		t.Fatal(err)
	}
	before := rubytest.RunDelay(t, w.PID)
	if _, err := w.Log.WaitFor(t.Context(), func(e Event) bool { return e.Event == EventEnd && e.Phase == phase }); err != nil {
		t.Fatal(err)
	}
	return max(rubytest.RunDelay(t, w.PID)-before, 0)
}

// edges checks that the events are in the order of their times, and that all phases ran in the right order. It returns
// the events of each phase.
func edges(t *testing.T, events []Event) map[string]phase {
	t.Helper()
	phases := make(map[string]phase)
	var order []string
	var last int64
	for _, e := range events {
		if e.MonotonicNS < last {
			t.Errorf("%s %s comes before the event that was logged before it", e.Event, e.Phase)
		}
		last = e.MonotonicNS
		p := phases[e.Phase]
		switch e.Event {
		case EventBegin:
			p.begin = e
			order = append(order, e.Phase)
		case EventEnd:
			p.end = e
		case EventDrained:
			p.drained = e
		case EventSkipped:
			t.Errorf("phase %s was skipped: %s", e.Phase, e.Reason)
		}
		if e.Phase != "" {
			phases[e.Phase] = p
		}
	}
	if !slices.Equal(order, Phases()) {
		t.Fatalf("phases ran in the order %v, not %v", order, Phases())
	}
	if first, last := events[0].Event, events[len(events)-1].Event; first != EventReady || last != EventExit {
		t.Errorf("the log goes from %s to %s", first, last)
	}
	return phases
}

func checkTroubles(t *testing.T, r rubytest.Ruby, phases map[string]phase, stallDelayed time.Duration) {
	t.Helper()
	atLeast := func(what string, got, want float64) {
		t.Helper()
		if got < want {
			t.Errorf("%s: %.2f, want at least %.2f", what, got, want)
		}
	}
	share := func(ns int64, p phase) float64 { return float64(ns) / float64(p.duration()) }

	healthy, hog := phases["healthy"], phases["hog"]
	// The number of requests depends on the machine, so one request is enough.
	atLeast("requests when healthy", float64(healthy.drained.Requests), 1)
	// Check the share of the CPU time that the program got, not the share of a whole CPU. On a busy machine, the hog
	// may get no more CPU time than the phase "healthy" needs. Both phases then answer fewer requests.
	atLeast("share of CPU time in the hog's reports", float64(hog.drained.ReportCPUNS)/float64(hog.end.CPUNS), 0.5)
	reports := func(p phase) float64 { return float64(p.drained.Reports) / float64(p.end.CPUNS) }
	atLeast("reports by CPU time of the hog against healthy ones", reports(hog)/reports(healthy), 5)

	// In the phase "routes", one customer in 45 asks for a report. The first of them is the 22nd customer, who comes at
	// once or is among the first in the queue. So there is at least one report.
	routes := phases["routes"]
	atLeast("share of CPU time in the reports that are asked for", float64(routes.drained.ReportCPUNS)/float64(routes.end.CPUNS), 0.1)

	atLeast("threads waiting for the Mutex", share(phases["mutex"].drained.LockNS, phases["mutex"]), 3)
	if ns := healthy.drained.LockNS; ns != 0 {
		t.Errorf("the healthy phase waited %d ns for the Mutex it has no use for", ns)
	}

	db := phases["database"].drained
	atLeast("ms a query of the slow database", float64(db.QueryNS)/float64(db.Queries)/1e6, 250)
	atLeast("threads waiting for the slow database", share(db.QueryNS, phases["database"]), 3)

	gc := phases["gc"].end
	atLeast("collections in the storm", float64(gc.GCCount), 1)
	if r.AtLeast(3, 1) {
		// Both times are CPU time.
		atLeast("share of CPU time in GC", float64(gc.GCNS)/float64(gc.CPUNS), 0.15)
	}

	stall := phases["stall"]
	// Subtract the time in which the program lacked a CPU. A lack of a CPU in other threads cannot make the check fail:
	// calls then take longer, so the sum of their times grows.
	atLeast("calls that keep the GVL", float64(stall.drained.KeptCalls), 1)
	atLeast("ms in the call that keeps the GVL", float64(stall.drained.KeptNS)/1e6, (stall.duration()-stallDelayed).Seconds()*1e3*0.5)
	atLeast("ms that a call keeps the GVL", float64(stall.drained.KeptNS)/float64(stall.drained.KeptCalls)/1e6, 60)
	// A call that blocks uses no CPU.
	if kept, cpu := stall.drained.KeptNS, stall.drained.KeptCPUNS; cpu <= 0 || cpu > kept/20 {
		t.Errorf("the calls that keep the GVL used %d ns of CPU time and blocked for %d ns", cpu, kept)
	}
}

func TestOnePhaseWithoutEnd(t *testing.T) {
	r := rubytest.One(t)
	w := start(t, r, Options{Phase: "mutex", Threads: 3, Seed: 7})
	if _, err := w.Log.WaitFor(t.Context(), begun("mutex")); err != nil {
		t.Fatal(err)
	}
	want := []string{"http-1", "http-2", "http-3", "worker-1", "reports", "cache-refresher", "traffic"}
	if !slices.Equal(w.Ready.Threads, want) {
		t.Errorf("threads %v, want %v", w.Ready.Threads, want)
	}
	if w.Ready.Ruby != r.Version {
		t.Errorf("says it runs on Ruby %s, it was started on %s", w.Ready.Ruby, r.Version)
	}
	if title := title(t, w.PID); title != "order-service" {
		t.Errorf("its title is %q", title)
	}
	if title := title(t, w.Ready.DatabasePID); title != "order-database" {
		t.Errorf("its database's title is %q", title)
	}
	if err := w.Stop(); err != nil {
		t.Errorf("SIGTERM should make it leave with code 0: %v", err)
	}
	events := w.Log.Events()
	if last := events[len(events)-1]; last.Event != EventExit {
		t.Errorf("the last event is %q", last.Event)
	}
	gone(t, w.Ready.DatabasePID)
	if _, err := os.Stat(w.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder %s is still there: %v", w.dir, err)
	}
}

func title(t *testing.T, pid int) string {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimRight(line, "\x00"))
}

// gone waits until a process has ended and the kernel has removed it.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(rubytest.Timeout)
	for syscall.Kill(pid, 0) != syscall.ESRCH {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestTheDatabaseEndsWhenTheServiceIsKilled(t *testing.T) {
	w := startAlone(t.Context(), t, Options{})
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err == nil {
		t.Error("Wait reports success for a killed process")
	}
	gone(t, w.Ready.DatabasePID)
	if _, err := w.Log.WaitFor(t.Context(), begun("no such phase")); !errors.Is(err, errLogEnded) {
		t.Errorf("WaitFor after the end says %v", err)
	}
}

func TestContextEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := startAlone(ctx, t, Options{Phase: "hog"})
	cancel()
	if err := w.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait says %v", err)
	}
	gone(t, w.PID)
	gone(t, w.Ready.DatabasePID)
}

func TestStartExplainsFailures(t *testing.T) {
	if _, err := Start(t.Context(), "/no/such/ruby", Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a Ruby that isn't there: %v", err)
	}
	_, err := Start(t.Context(), "ruby", Options{Phase: "lunch"})
	if err == nil || !strings.Contains(err.Error(), `no phase "lunch"`) || !strings.Contains(err.Error(), "healthy, hog") {
		t.Errorf("an unknown phase: %v", err)
	}
	_, err = Start(t.Context(), "/bin/sh", Options{RubyArgs: []string{"-c", "echo no Ruby today >&2; exit 3"}})
	if err == nil || !strings.Contains(err.Error(), "no Ruby today") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that fails: %v", err)
	}
	left, globErr := filepath.Glob(filepath.Join(os.TempDir(), "ddtop-workload-*", mainFile))
	if globErr != nil {
		t.Fatal(globErr)
	}
	for _, file := range left {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) < 2*time.Second {
			t.Logf("left behind, or another test's: %s", file)
		}
	}
}

func TestBadOptionsOfTheProgram(t *testing.T) {
	r := rubytest.One(t)
	for _, c := range []struct{ args, want string }{
		{"--phase lunch", `no phase "lunch"`},
		{"--threads 0", "--threads takes a number from 1 to 500"},
		{"--phase-seconds soon", "--phase-seconds takes a number"},
		{"--verbose", "unknown option --verbose"},
	} {
		p := r.Start(t, mainScript(t, r), rubytest.Options{Args: strings.Fields(c.args)})
		if code := p.Wait(t); code != 2 {
			t.Errorf("%s: exit code %d, want 2", c.args, code)
		}
		if !strings.Contains(p.Stderr(), c.want) {
			t.Errorf("%s: it says %q, want %q", c.args, p.Stderr(), c.want)
		}
	}
}

// mainScript returns a Ruby script that loads the unpacked program.
func mainScript(t *testing.T, r rubytest.Ruby) string {
	t.Helper()
	dir, script, err := unpackPrivately(r.Root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("load %q\n", script)
}

func TestPhasesOfGoAndRubyAgree(t *testing.T) {
	text, err := fs.ReadFile(program, "program/lib/options.rb")
	if err != nil {
		t.Fatal(err)
	}
	if want := "PHASES = %w[" + strings.Join(Phases(), " ") + "]"; !strings.Contains(string(text), want) {
		t.Errorf("options.rb does not say %s", want)
	}
}

func TestLogCountsWhatItCantRead(t *testing.T) {
	l := newLog()
	l.read(strings.NewReader("{\"event\":\"ready\"}\nnonsense\n{\"event\":\"exit\"}\n"))
	if n := len(l.Events()); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	_, err := l.WaitFor(t.Context(), begun("gc"))
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		t.Errorf("the unreadable line is not reported: %v", err)
	}
}
