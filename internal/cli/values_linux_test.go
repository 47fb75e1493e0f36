package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/cli"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// valuesFile makes a recording of a request and a job with --values, and returns its path. Each value that a user of
// the recorded program typed contains "zq".
func valuesFile(t *testing.T) string {
	t.Helper()
	d := sampler.NewDictionary()
	stack := d.InternStack(0, d.InternFrame(sampler.Frame{Label: "Kept#kept", Path: "kept.rb", AbsolutePath: "/app/kept.rb"}))
	for id, name := range map[sampler.ThreadID]string{1: "", 2: "puma srv tp 001"} {
		d.SetThread(sampler.ThreadInfo{ID: id, Main: id == 1, Name: name, HasName: name != "", Ractor: 1, TID: int32(100 + id)})
	}
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, sampler.Process{PID: 42, StackRate: 100, LockRate: 100, RubyVersion: "3.4.1", Era: sampler.EraSched}, d)
	if err != nil {
		t.Fatal(err)
	}
	const tick = int64(10e6)
	for n := int64(1); n <= 300; n++ {
		at := int64(1e12) + n*tick
		request := sampler.Work{Number: sampler.WorkNumber(1 + n/100), Kind: sampler.WorkRequest, Endpoint: "GET kept#index",
			SinceNS: int64(1e12) + n/100*100*tick, Values: "/zqcustomer/7?zq=1"}
		request.BeforeNS = request.SinceNS - tick
		job := sampler.Work{Number: 99, Kind: sampler.WorkJob, Endpoint: "KeptJob", SinceNS: 1e12, Values: "zq@example.com"}
		s := &sampler.Sample{TimeNS: at, Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: 1, OwnerEnd: 1, Queue: []sampler.ThreadID{2}, Waiting: 1}}}
		for id := range sampler.ThreadID(2) {
			th := sampler.Thread{ID: id + 1, Ractor: 1, TID: int32(101 + id), Stack: stack, Quality: sampler.StackFresh, Kernel: sampler.Kernel{FD: -1}, Blocked: sampler.Blocked{FD: -1}}
			th.Bits, th.Serving.Work = sampler.BitLinked, d.InternWork(job)
			if id == 1 {
				th.Bits, th.Serving.Work = sampler.BitQueued, d.InternWork(request)
			}
			th.Serving.Statement = d.InternText("SELECT kept FROM zqtable WHERE name = 'zqname'")
			th.Serving.Exception = d.InternText("KeptError: zqmessage")
			th.Serving.Span, th.Serving.RootSpan = uint64(n/100+7), 7
			s.Threads = append(s.Threads, th)
		}
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.ddtop")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hashes matches the hashes in an HTML page. The test removes them before it searches for "zq", because a hash can
// contain "zq" by chance.
var hashes = regexp.MustCompile(`'sha256-[^']*'`)

// TestNoValueLeaves: a recording made with --values contains values that users of the program typed. With --redact, a
// report of it contains none of them, in any format. The names of the endpoints stay. Without --redact, the values are
// in the formats that show requests.
func TestNoValueLeaves(t *testing.T) {
	t.Parallel()
	file := valuesFile(t)
	has := map[string]bool{"stat": true, "dump": true}
	routes := map[string]bool{"stat": true, "dump": true}
	for _, format := range cli.ReportFormats() {
		for _, json := range []string{"--json=false", "--json"} {
			for _, redact := range []string{"--redact=false", "--redact"} {
				out := filepath.Join(t.TempDir(), "out")
				run(t, "report", file, "--format", format, json, redact, "-o", out).want(t, 0)
				text := hashes.ReplaceAllString(string(readAll(t, out)), "")
				if leaks := strings.Contains(text, "zq"); leaks && redact == "--redact" || !leaks && redact != "--redact" && has[format] {
					t.Errorf("%s %s %s: leaks %v\n%s", format, json, redact, leaks, text)
				}
				if routes[format] && (!strings.Contains(text, "GET kept#index") || !strings.Contains(text, "KeptJob")) {
					t.Errorf("%s %s %s has lost the endpoints:\n%s", format, json, redact, text)
				}
			}
		}
	}
}

// apart splits the text or JSON of stat or dump into the findings and all other parts.
func apart(t *testing.T, text string) (findings, rest string) {
	t.Helper()
	if !strings.HasPrefix(text, "{") {
		for block := range strings.SplitSeq(text, "\n\n") {
			if strings.HasPrefix(block, "CRIT") || strings.HasPrefix(block, "WARN") {
				findings += block + "\n\n"
			} else {
				rest += block + "\n\n"
			}
		}
		return findings, rest
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		t.Fatal(err)
	}
	findings = string(keys["findings"])
	delete(keys, "findings")
	others, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return findings, string(others)
}

// TestEndpointFilter: with --endpoint, outputs have only the time of requests that match. ddtop refuses --endpoint for
// formats that cannot be filtered. Findings still cover the whole process, because one endpoint often makes another
// slow.
func TestEndpointFilter(t *testing.T) {
	t.Parallel()
	file := valuesFile(t)
	report := func(format string, args ...string) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		run(t, append([]string{"report", file, "--format", format, "-o", out}, args...)...).want(t, 0)
		return string(readAll(t, out))
	}
	for _, format := range []string{"stat", "dump"} {
		for _, json := range []string{"--json=false", "--json"} {
			findings, text := apart(t, report(format, json, "--endpoint", "^Kept"))
			if !strings.Contains(text, "KeptJob") || strings.Contains(text, "GET kept#index") {
				t.Errorf("%s %s:\n%s", format, json, text)
			}
			of, _ := apart(t, report(format, json))
			if findings != of || !strings.Contains(findings, "KeptJob takes 100 % of the GVL, GET kept#index waits") {
				t.Errorf("%s %s: findings\n%s\nwithout --endpoint\n%s", format, json, findings, of)
			}
		}
	}
	if text := report("collapsed", "--endpoint", "#index$"); !strings.HasPrefix(text, "puma srv tp 001;") || strings.Count(text, "\n") != 1 {
		t.Errorf("collapsed:\n%s", text)
	}
	p, err := profile.ParseData([]byte(report("pprof", "--endpoint", "index")))
	if err != nil {
		t.Fatal(err)
	}
	spans := map[int64]bool{}
	for _, s := range p.Sample {
		if e := s.Label["trace endpoint"]; len(e) != 1 || e[0] != "GET kept#index" || !slices.Equal(s.NumLabel["local root span id"], []int64{7}) || len(s.NumLabel["span id"]) != 1 {
			t.Fatalf("%v %v", s.Label, s.NumLabel)
		}
		spans[s.NumLabel["span id"][0]] = true
		if s.NumLabel["end_timestamp_ns"] != nil {
			t.Errorf("a time, unasked: %v", s.NumLabel)
		}
	}
	if len(spans) != 4 {
		t.Errorf("spans %v", spans)
	}
	for _, args := range [][]string{{"--timeline"}, {"--timeline", "--endpoint", "index"}} {
		p, err := profile.ParseData([]byte(report("pprof", args...)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Sample {
			if s.NumLabel["end_timestamp_ns"] == nil || s.Label["state"] == nil {
				t.Errorf("%v: %v %v", args, s.Label, s.NumLabel)
			}
			if e := s.Label["trace endpoint"]; len(args) > 1 && args[1] == "--endpoint" && (len(e) != 1 || e[0] != "GET kept#index") {
				t.Errorf("%v: %v", args, e)
			}
		}
		if len(p.Sample) < 4 {
			t.Errorf("%v: %d samples", args, len(p.Sample))
		}
	}
	for _, args := range [][]string{{"--format", "firefox", "--endpoint", "x"}, {"--format", "pprof", "--endpoint", "("}, {"--format", "collapsed", "--metric", "allocations", "--endpoint", "x"}} {
		run(t, append([]string{"report", file}, args...)...).want(t, 2)
	}
	run(t, "record", "-p", "1", "--format", "ddtop", "--endpoint", "x", "-o", filepath.Join(t.TempDir(), "x")).want(t, 2)
}
