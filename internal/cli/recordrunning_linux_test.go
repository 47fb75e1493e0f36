package cli_test

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/spend"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestRecordingHasFunctionsOfRunningThreads: a recording made with --native has the C functions in which threads ran.
// Each file that is made from the recording has them too. In a profile, the CPU time of a Ruby method is divided among
// the C functions that it called. The shares agree with the kernel's clock, and no C function appears below a method
// that did not call it.
func TestRecordingHasFunctionsOfRunningThreads(t *testing.T) {
	rubytest.Long(t)
	if err := live.MayRun(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := spend.Start(t, rubytest.One(t), rubytest.Options{})
	spend.Go(t, p)
	file := filepath.Join(t.TempDir(), "a.ddtop")
	r := run(t, "record", "-p", strconv.Itoa(p.PID), "--native", "-d", "10s", "-o", file)
	r.want(t, 0)
	ns := spend.Stop(t, p)
	// Each turn of the program's loop takes a different time. So the comparison needs at least 20 turns.
	turns := float64(countRuns(t, file, "Spend.both"))
	if turns < 20 {
		t.Fatalf("%g stacks of Spend.both", turns)
	}
	report := func(ext string, more ...string) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out"+ext)
		r := run(t, append([]string{"report", file, "-o", out}, more...)...)
		r.want(t, 0)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	prof, err := profile.ParseData([]byte(report(".pb.gz")))
	if err != nil {
		t.Fatal(err)
	}
	below := map[string]string{"spend_first": "Spend.both", "spend_second": "Spend.both", "spend_outside": "Spend.without"}
	cpu := make(map[string]int64)
	for _, s := range prof.Sample {
		var names []string
		for _, l := range s.Location {
			names = append(names, l.Line[0].Function.Name)
		}
		for name, method := range below {
			if at := slices.Index(names, name); at >= 0 {
				cpu[name] += s.Value[1]
				if n := slices.Index(names, method); n < at {
					t.Errorf("%s is not below %s: %q", name, method, names)
				}
			}
		}
	}
	both := float64(cpu["spend_first"] + cpu["spend_second"])
	got, want := float64(cpu["spend_first"])/both, float64(ns[spend.First])/float64(ns[spend.First]+ns[spend.Second])
	if t.Logf("%.3f of %g, want %.3f", got, turns, want); !(math.Abs(got-want) <= odds.Within(turns)) {
		t.Errorf("spend_first has %.3f of %g stacks, and %.3f of the time", got, turns, want)
	}
	for ext, more := range map[string][]string{".txt": {"--format", "collapsed"}, ".html": nil, ".svg": nil,
		".json": {"--format", "speedscope"}} {
		whole := report(ext, more...)
		for name := range below {
			if !strings.Contains(whole, name) {
				t.Errorf("%s %q has no %s", ext, more, name)
			}
		}
	}
}

// countRuns returns how many stacks of running threads in a recording contain a method.
func countRuns(t *testing.T, file, method string) (n int) {
	t.Helper()
	r, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := r.Dictionary()
	_ = r.Run(context.Background(), func(s *sampler.Sample) { // Run returns an error at the end of the recording
		for i := range s.Runs {
			is := func(id sampler.FrameID) bool { return d.Frame(id).Label == method }
			if slices.ContainsFunc(d.Frames(s.Runs[i].Stack, nil), is) {
				n++
			}
		}
	})
	return n
}

// TestNativeWithoutRights: if the user may not load programs into the kernel, --native cannot work. ddtop says in one
// line which right is missing, and still makes the recording.
func TestNativeWithoutRights(t *testing.T) {
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "needs root")
	}
	setpriv := rubytest.Program(t, "setpriv", "util-linux")
	p := rubytest.One(t).Start(t, blockedScript, rubytest.Options{})
	p.Expect(t, "ready")
	const rights = "+sys_ptrace,+dac_read_search"
	for _, more := range [][]string{nil, {"--children"}} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, setpriv, "--reuid=65532", "--regid=65532", "--clear-groups", "--inh-caps="+rights,
			"--ambient-caps="+rights, "--", ddtop, "record", "--native", "-d", "500ms", "-o", "-", "--format", "collapsed",
			"-p", strconv.Itoa(p.PID))
		cmd.Args = append(cmd.Args, more...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("%v: %s", err, &said)
		}
		n := strings.Count(said.String(), "no C functions of running threads: ")
		if n != 1 || !strings.Contains(said.String(), "lacks CAP_BPF and CAP_PERFMON") {
			t.Errorf("%q: it said %q", more, &said)
		}
	}
}
