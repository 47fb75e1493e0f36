package cli_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// record records the program spinner, and returns the recording's path and the program's PID. The recording is 1.5 s
// long unless the arguments say otherwise.
func record(t *testing.T, args ...string) (path string, pid int) {
	t.Helper()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	path = filepath.Join(t.TempDir(), "spinner.ddtop")
	r := run(t, append([]string{"record", "-p", strconv.Itoa(p.PID), "-d", "1500ms", "--format", "ddtop", "-o", path}, args...)...)
	if slices.Contains(args, "--redact") {
		r.want(t, 0, "wrote spinner.ddtop\n")
	} else {
		r.want(t, 0, "wrote "+path)
	}
	return path, p.PID
}

func TestReport(t *testing.T) {
	t.Parallel()
	// The recording must have at least 20 samples. On a busy machine, 20 samples take longer than usual. So the test
	// counts the samples in the recording, and records again if there are too few.
	var path string
	var pid, samples int
	var length int64
	for seconds := 2; seconds <= 32; seconds *= 2 {
		path, pid = record(t, "-d", strconv.Itoa(seconds))
		if samples, length = recorded(t, path); samples >= 20 {
			break
		}
	}
	stat := run(t, "report", path, "--json")
	stat.want(t, 0)
	checkStat(t, pid, stat.out)
	var s struct {
		Samples  int
		Duration int64 `json:"duration_ns"`
	}
	if err := json.Unmarshal([]byte(stat.out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Samples != samples || samples < 20 || s.Duration != length || length <= 0 {
		t.Errorf("%d samples in %d ns, the recording has %d in %d ns", s.Samples, s.Duration, samples, length)
	}

	dump := run(t, "report", path, "--format", "dump", "--json")
	dump.want(t, 0)
	checkKeys(t, dump.out, dumpKeys)
	if !strings.Contains(dump.out, `"spinner"`) || !strings.Contains(dump.out, "Integer#times") {
		t.Errorf("the dump lacks the spinner: %.500s", dump.out)
	}

	file := filepath.Join(t.TempDir(), "p.pb.gz")
	run(t, "report", path, "--format", "pprof", "-o", file).want(t, 0, "wrote "+file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	var wall int64
	for _, x := range p.Sample {
		wall += x.Value[0]
	}
	checkTimelines(t, path, wall)
}

// checkTimelines checks the formats that show when each event happened. They must have the stack of the program
// spinner, and the same total time as the pprof profile.
func checkTimelines(t *testing.T, path string, wall int64) {
	t.Helper()
	firefox := run(t, "report", path, "--format", "firefox")
	firefox.want(t, 0)
	var f struct {
		Threads []struct {
			Name        string
			StringArray []string
			Samples     struct{ Weight []float64 }
		}
	}
	if err := json.Unmarshal([]byte(firefox.out), &f); err != nil {
		t.Fatal(err)
	}
	chrome := run(t, "report", path, "--format", "chrome")
	chrome.want(t, 0)
	var c struct {
		TraceEvents []struct {
			Cat, Name string
			Dur       float64
			Args      map[string]any
		}
	}
	if err := json.Unmarshal([]byte(chrome.out), &c); err != nil {
		t.Fatal(err)
	}
	inFirefox, inChrome := 0.0, 0.0
	spins, owns := false, false
	for _, th := range f.Threads {
		for _, w := range th.Samples.Weight {
			inFirefox += w * 1e6
		}
		spins = spins || th.Name == "spinner" && slices.Contains(th.StringArray, "Integer#times")
	}
	for _, e := range c.TraceEvents {
		if e.Cat == "state" {
			inChrome += e.Dur * 1e3
		}
		owns = owns || e.Cat == "gvl" && e.Name == "spinner"
	}
	if abs(inFirefox-float64(wall)) > 1e5 || abs(inChrome-float64(wall)) > 1e5 { // floating-point sums are not exact
		t.Errorf("%.0f ns in Firefox's profile, %.0f in Chrome's trace, %d in pprof's", inFirefox, inChrome, wall)
	}
	if !spins || !owns {
		t.Errorf("the spinner's stack is in Firefox's profile: %v; its turns with the GVL are in Chrome's trace: %v", spins, owns)
	}
}

// recorded returns the number of samples in a recording, and the time from the first to the last in ns.
func recorded(t *testing.T, path string) (samples int, length int64) {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	first, last := r.Span()
	if err := r.Range(first, last+1, func(*sampler.Sample) { samples++ }); err != nil {
		t.Fatal(err)
	}
	return samples, last - first
}

// blocks returns the number of blocks of samples in a recording.
func blocks(t *testing.T, path string) int {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return len(r.Blocks())
}

func TestReportOfADamagedRecording(t *testing.T) {
	t.Parallel()
	// The test damages the last block of samples. The recording needs at least two blocks, so that one stays undamaged.
	// On a busy machine the second block may come late.
	var path string
	var pid int
	for seconds := 3; seconds <= 24; seconds *= 2 {
		path, pid = record(t, "-d", strconv.Itoa(seconds))
		if blocks(t, path) > 1 {
			break
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ddtop")
	if err := os.WriteFile(cut, data[:len(data)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "report", cut, "--json")
	if r.code != 0 || !strings.Contains(r.err, "bytes are lost") {
		t.Errorf("code %d, it said %q", r.code, r.err)
	}
	checkStat(t, pid, r.out)

	// This file ends before its first block of samples, as if ddtop had been killed there. So it does not say how the
	// process ended.
	const fileHeader, blockHeader, lengthAt = 16, 48, 8
	process := fileHeader + blockHeader + int(binary.LittleEndian.Uint32(data[fileHeader+lengthAt:]))
	if err := os.WriteFile(cut, data[:process], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"stat", "pprof"} {
		r = run(t, "report", cut, "--format", format, "-o", "-")
		r.want(t, 1, "ended before anything was measured")
		if strings.Contains(r.err, strconv.Itoa(pid)) || r.out != "" {
			t.Errorf("it printed %q and said %q", r.out, r.err)
		}
	}
}

func TestRedactedRecordingNamesNoOne(t *testing.T) {
	t.Parallel()
	plain, _ := record(t)
	if p := describe(t, plain); p.User == "" || p.Host == "" || len(p.CommandLine) == 0 {
		t.Errorf("an ordinary recording lacks what --redact is to leave out: %+v", p)
	}
	redacted, _ := record(t, "--redact")
	if p := describe(t, redacted); p.User != "" || p.Host != "" || len(p.CommandLine) != 0 {
		t.Errorf("user, host or command line are in a redacted recording: %+v", p)
	}
}

// describe returns what a recording says about its process.
func describe(t *testing.T, path string) sampler.Process {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Process()
}

func TestNoRecording(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "report", empty).want(t, 1, "not a ddtop recording")
	run(t, "report", "/etc/passwd").want(t, 1, "not a ddtop recording")
	run(t, "report", "/no/such/file").want(t, 1, "/no/such/file", "no such file")
	run(t, "report").want(t, 2, "takes one recording")
	run(t, "report", empty, "--format", "mp3").want(t, 2, `no format "mp3"`)
	run(t, "replay").want(t, 2, "takes recordings")
	run(t, "replay", empty).want(t, 2, "needs a terminal", "ddtop report")
}
