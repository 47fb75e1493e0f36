package cli_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestPause: with --pause, stat and dump stop the target while they read stacks, and report how long it was stopped. If
// ddtop started the target itself, ddtop must still end with the target's exit code.
func TestPause(t *testing.T) {
	r := rubytest.One(t)
	p := r.Start(t, "5.times { Thread.new { loop { sleep 0.001 } } }; puts 'ready'; $stdout.flush; $stdin.gets; exit!(7)", rubytest.Options{})
	p.Expect(t, "ready")
	pid := strconv.Itoa(p.PID)
	stat := run(t, "stat", "-p", pid, "-d", "3s", "--pause", "--json")
	stat.want(t, 0)
	var got struct {
		Pauses struct {
			Count, Cut int64
			P50NS      int64 `json:"p50_ns"`
			MaxNS      int64 `json:"max_ns"`
			TotalNS    int64 `json:"total_ns"`
		}
		DurationNS int64 `json:"duration_ns"`
	}
	if err := json.Unmarshal([]byte(stat.out), &got); err != nil {
		t.Fatal(err)
	}
	// How many pauses there are depends on the machine, so the test wants only one. A pause ends only after each thread
	// has had a CPU, and all pauses together take at most a tenth of the time.
	if z := got.Pauses; z.Count < 1 || z.P50NS <= 0 || z.MaxNS < z.P50NS || z.TotalNS >= got.DurationNS {
		t.Errorf("%+v of %d ns", z, got.DurationNS)
	}
	dump := run(t, "dump", "-p", pid, "--pause")
	if dump.want(t, 0); !strings.Contains(dump.out, "stopped for") {
		t.Errorf("the dump does not say for how long it stopped the process: %s", dump.out)
	}
	p.Send(t, "end")
	if code := p.Wait(t); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}

	wrapped := runLonger(t, func(seconds string) []string {
		return append([]string{"--pause", "--"}, rubyCommand(t, r, "4.times { Thread.new { loop { sleep 0.001 } } }; sleep "+seconds+"; exit!(9)")...)
	}, func(r result) bool { return strings.Contains(r.err, "stopped the process") })
	if wrapped.code != 9 || !strings.Contains(wrapped.err, "stopped the process") {
		t.Errorf("exit code %d, want 9; it said %q", wrapped.code, wrapped.err)
	}
}
