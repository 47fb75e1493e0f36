package export_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/diff"
	"github.com/ddtop/ddtop/export/page"
	weights "github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// hostileWorld is a measured process in which every name is HostileName, which contains escape sequences for terminals.
func hostileWorld() weights.Measured {
	d := sampler.NewDictionary()
	d.SetThread(sampler.ThreadInfo{ID: 1, Name: exporttest.HostileName, HasName: true, Ractor: 1, TID: 7})
	frame := sampler.Frame{Label: exporttest.HostileName, Name: exporttest.HostileName, Path: exporttest.HostileName, AbsolutePath: exporttest.HostileName, Line: 3, Origin: sampler.OriginGem, Gem: exporttest.HostileName}
	stack := d.InternStack(0, d.InternFrame(frame))
	peer := d.InternPeer(sampler.Peer{Kind: sampler.PeerUnix, Path: exporttest.HostileName, Remote: exporttest.HostileName, Service: exporttest.HostileName})
	p := sampler.Process{PID: 7, Title: exporttest.HostileName, RubyDescription: exporttest.HostileName}
	events := trace.New(p, d)
	events.Tick(&gvl.Tick{Sample: &sampler.Sample{TimeNS: 1e9}})
	key := flamegraph.Key{Thread: 1, Stack: stack, State: gvl.IO, Endpoint: 1}
	serving := exporttest.HostileServing(d)
	events.Interval(&gvl.Interval{Thread: 1, State: gvl.IO, Detail: gvl.Detail{Op: "read", Peer: peer}, Stack: stack, Serving: serving, FromNS: 1e9,
		ToNS: 2e9})
	events.Notes = []sampler.Note{{AtNS: 15e8, Text: exporttest.HostileName}}
	return weights.Measured{
		Process: p, Dict: d, Trace: events,
		Weights: &flamegraph.Snapshot{Entries: []flamegraph.Entry{{Key: key, Weights: flamegraph.Weights{WallNS: 1e9, Samples: 1}}}, FromNS: 1e9, ToNS: 2e9},
		Served:  []flamegraph.Served{{}, {Endpoint: flamegraph.Endpoint{Kind: sampler.WorkJob, Name: exporttest.HostileName}, Span: 1, RootSpan: 2}},
	}
}

// hostileIntervals writes the intervals of a process with hostile names, in the format with a line of JSON for each
// interval.
func hostileIntervals(w io.Writer) error {
	m := hostileWorld()
	x := trace.NewIntervals(w, stream.New(m.Process), m.Process, m.Dict, "1")
	x.Note(sampler.Note{AtNS: 1, Text: exporttest.HostileName})
	x.Interval(&gvl.Interval{Thread: 1, State: gvl.IO, Detail: gvl.Detail{Op: "read", Peer: 1}, Stack: 1, Serving: exporttest.HostileServing(m.Dict), FromNS: 1e9, ToNS: 2e9})
	return x.Finish(exporttest.HostileName)
}

// TestHostileRequests: the text of a request may contain escape sequences, but none may reach the terminal. This must
// hold for dump and stat, as text and as JSON.
func TestHostileRequests(t *testing.T) {
	d := hostileWorld().Dict
	s := &sampler.Sample{TimeNS: 2e9, Depth: sampler.StackTick, Threads: []sampler.Thread{{ID: 1, Ractor: 1, TID: 7, Serving: exporttest.HostileServing(d)}}}
	states := []gvl.ThreadState{{Thread: 1, Ractor: 1, State: gvl.IO, AtNS: 2e9, SinceNS: 1e9}}
	dump := export.NewDump(sampler.Process{PID: 7}, d, s, states)
	name, number := exporttest.HostileName, "18446744073709551615"
	serving := report.StatServing{Kind: "request", Endpoint: &name, Number: 1, AgeNS: 1 << 62, Values: &name, Statement: &name, Exception: &name, Span: &number,
		RootSpan: &number}
	peers := []report.StatPeerTime{{Peer: map[string]any{"kind": "unix", "path": exporttest.HostileName}, Name: exporttest.HostileName, NS: 1 << 62}}
	time := report.StatStates{IO: 1 << 62, Running: 1}
	stat := report.Stat{Requests: report.StatRequests{LeftOut: 1 << 63, NotListed: 3,
		Endpoints: []report.StatEndpoint{{Kind: "request", Endpoint: &name, NS: time, Peers: peers, LongestNS: 1 << 62, P95NS: 1 << 62, Measured: 1},
			{Kind: exporttest.HostileName, NS: time}, {Other: true}},
		Running: []report.StatRequest{{StatServing: serving, Thread: 1, State: "io", Words: exporttest.HostileName, NS: time, Peers: peers}}}}
	for what, write := range map[string]func(io.Writer) error{
		"dump": dump.WriteText, "dump as JSON": dump.WriteJSON,
		"stat":         func(w io.Writer) error { return export.WriteStat(w, stat) },
		"stat as JSON": func(w io.Writer) error { return export.WriteStatJSON(w, stat) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if n := strings.Count(b.String(), "gnp.exe"); n < 4 {
			t.Errorf("%s has the name %d times: %q", what, n, b.String())
		}
		exporttest.CheckPrintable(t, what, b.String())
	}
}

// textFormats are the export formats that are not JSON. Each is named by the first word of the format's name in the
// test. All other formats must be valid JSON.
var textFormats = []string{"collapsed", "diff", "svg", "callgrind", "html"}

// TestHostileNamesInExports: no export may contain a name as an escape sequence for a terminal, so that a user can
// print each file. In formats that are JSON, the strings are also checked after decoding.
func TestHostileNamesInExports(t *testing.T) {
	m := hostileWorld()
	list := []weights.Measured{m, m}
	for name, write := range map[string]func(io.Writer) error{
		"pprof": func(w io.Writer) error {
			return unzipped(w, func(z io.Writer) error { return weights.WriteProfile(z, m) })
		},
		"pprof of several": func(w io.Writer) error {
			return unzipped(w, func(z io.Writer) error { return weights.WriteProfiles(z, list) })
		},
		"collapsed":            func(w io.Writer) error { return weights.WriteCollapsed(w, m, flamegraph.Wall) },
		"collapsed of several": func(w io.Writer) error { return weights.WriteCollapsedOf(w, list, flamegraph.Wall) },
		"speedscope":           func(w io.Writer) error { return weights.WriteSpeedscopeOf(w, list, flamegraph.Wall) },
		"diff":                 func(w io.Writer) error { return writeBoth(w, m, diff.WriteDifference) },
		"diff html":            func(w io.Writer) error { return writeBoth(w, m, diff.WriteHTMLDifference) },
		"diff collapsed":       func(w io.Writer) error { return writeBoth(w, m, diff.WriteCollapsedDifference) },
		"svg":                  func(w io.Writer) error { return weights.WriteFlamegraph(w, m, flamegraph.Wall) },
		"callgrind":            func(w io.Writer) error { return weights.WriteCallgrind(w, m, flamegraph.Wall) },
		"jsonl":                hostileIntervals,
		"html":                 func(w io.Writer) error { return page.WriteIncident(w, hostileIncident()) },
		"firefox":              func(w io.Writer) error { return trace.WriteFirefox(w, []*trace.Trace{m.Trace, m.Trace}) },
		"chrome":               func(w io.Writer) error { return trace.WriteChrome(w, []*trace.Trace{m.Trace, m.Trace}) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(b.String(), "gnp.exe") {
			t.Errorf("%s lacks the name: %q", name, b.String())
		}
		if strings.HasPrefix(name, "pprof") {
			checkProfileStrings(t, name, b.Bytes())
			continue
		}
		exporttest.CheckPrintable(t, name, b.String())
		var v any
		if json.Unmarshal(b.Bytes(), &v) == nil {
			exporttest.EachString(v, func(s string) { exporttest.CheckPrintable(t, name+", decoded", s) })
		} else if name == "jsonl" {
			for line := range strings.Lines(b.String()) {
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		} else if !slices.Contains(textFormats, strings.Fields(name)[0]) {
			t.Errorf("%s is not JSON, and textFormats does not have it", name)
		}
	}
}

// TestHostileNamesInJSON: if names contain escape sequences, the JSON of `dump` must still be safe on a terminal.
// Decoding it must return each name unchanged.
func TestHostileNamesInJSON(t *testing.T) {
	var b bytes.Buffer
	if err := export.WriteJSON(&b, map[string]string{"name": exporttest.HostileName}); err != nil {
		t.Fatal(err)
	}
	exporttest.CheckPrintable(t, "JSON", b.String())
	var back map[string]string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back["name"] != exporttest.HostileName {
		t.Errorf("%q came back as %q: %v", exporttest.HostileName, back["name"], err)
	}
}

// writeBoth passes two measurements to the function write. The first is m. The second is m's own profile with a tenth
// of the duration, so that a comparison of the two shows a difference.
func writeBoth(w io.Writer, m weights.Measured, write func(io.Writer, diff.Comparable, diff.Comparable, flamegraph.Metric) error) error {
	a, err := diff.CompareMeasured(m, flamegraph.Wall)
	if err != nil {
		return err
	}
	p, err := weights.Profile(m)
	if err != nil {
		return err
	}
	p.DurationNanos /= 10
	b, err := diff.CompareProfile(p, flamegraph.Wall)
	if err != nil {
		return err
	}
	return write(w, a, b, flamegraph.Wall)
}

// hostileIncident is an incident of a process with hostile names.
func hostileIncident() *page.Incident {
	m := hostileWorld()
	n := page.NewIncident(m.Process, m.Dict, nil)
	s := &sampler.Sample{Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1}}, Threads: []sampler.Thread{{ID: 1, Ractor: 1, TID: 7, Stack: m.Weights.Entries[0].Key.Stack,
		Quality: sampler.StackFresh, Serving: exporttest.HostileServing(m.Dict), Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1}}}}
	for range 100 {
		s.TimeNS += 1e7
		n.Feed(s)
	}
	return n
}

func unzipped(w io.Writer, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, z)
	return err
}

// checkProfileStrings fails the test if a profile contains text that is unsafe on a terminal. `go tool pprof` would
// print it.
func checkProfileStrings(t *testing.T, name string, data []byte) {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	exporttest.CheckPrintable(t, name+", as text", p.String())
}
