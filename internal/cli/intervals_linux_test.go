package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
)

// intervalSums reads lines of JSON, each about an interval of a thread in one state. It returns the time of each thread
// in each state. samples is the number of samples in the last line.
func intervalSums(t *testing.T, text string) (ns map[string]int64, samples int) {
	t.Helper()
	ns = make(map[string]int64)
	last := ""
	for line := range strings.Lines(text) {
		var v struct {
			Type, State string
			Thread      int
			From        int64 `json:"begin_ns"`
			To          int64 `json:"end_ns"`
			Samples     int
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %.200q", err, line)
		}
		if last = v.Type; v.Type == "interval" {
			ns[strconv.Itoa(v.Thread)+" "+v.State] += v.To - v.From
		}
		samples = v.Samples
	}
	if last != "end" {
		t.Errorf("the last line is a %q", last)
	}
	return ns, samples
}

// TestIntervalsOfARecording: the intervals in a recording sum up to the times that `ddtop report --json` shows for each
// state, to the nanosecond.
func TestIntervalsOfARecording(t *testing.T) {
	t.Parallel()
	path, _ := record(t, "-d", "3s")
	lines := run(t, "report", path, "--format", "jsonl")
	lines.want(t, 0)
	got, samples := intervalSums(t, lines.out)
	stat := run(t, "report", path, "--json")
	stat.want(t, 0)
	var s struct {
		Samples int
		Threads []struct {
			ID int
			NS map[string]int64
		}
	}
	if err := json.Unmarshal([]byte(stat.out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Samples != samples || samples == 0 || len(s.Threads) < 3 {
		t.Errorf("%d samples, stat has %d, of %d threads", samples, s.Samples, len(s.Threads))
	}
	for _, th := range s.Threads {
		for state, ns := range th.NS {
			if key := strconv.Itoa(th.ID) + " " + state; got[key] != ns {
				t.Errorf("thread %s: %d ns, stat has %d", key, got[key], ns)
			}
		}
	}
	// `ddtop record` can also write the intervals while it measures. Here it does this with --redact, so the lines have
	// no names.
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	file := filepath.Join(t.TempDir(), "x.jsonl")
	run(t, "record", "-p", strconv.Itoa(p.PID), "-d", "1s", "--redact", "-o", file).want(t, 0)
	text := string(readAll(t, file))
	if _, samples := intervalSums(t, text); samples < 2 || strings.Contains(text, "spinner") || strings.Contains(text, p.HostDir) {
		t.Errorf("%d samples in %.500s", samples, text)
	}
}

// TestIntervalsOnABadDisk: if the disk is full, `ddtop record` ends with an error. The error names the file that has
// the intervals written so far. If the disk hangs, a signal still ends ddtop.
func TestIntervalsOnABadDisk(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	path := filepath.Join(smallDisk(t), "x.jsonl")
	r := run(t, "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--overhead", "off", "-o", path)
	if r.code != 1 || strings.Count(r.err, "no space left on device") != 1 || !strings.Contains(r.err, "what was measured until then is in "+path) {
		t.Errorf("exit code %d, it said %q", r.code, r.err)
	}
	disk := stuckfs.Mount(t)
	file := disk.File("y.jsonl")
	cmd, out, errs := prepare(t.Context(), "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--overhead", "off", "-o", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return disk.Written() > 0 }, "something written")
	disk.Stick()
	until(t, func() bool { return disk.Waiting() > 0 }, "a write that hangs")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ends(t, cmd.Process.Pid, disk)
	r = finish(t, cmd, out, errs)
	if r.code != 1 || !strings.Contains(r.err, "the disk was too slow") || !strings.Contains(r.err, file+".partial") {
		t.Errorf("exit code %d, it said %q", r.code, r.err)
	}
}
