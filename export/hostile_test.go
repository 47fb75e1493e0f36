package export

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// hostileName is what a method, file, thread, gem or program could be called: escape sequences in 7 and 8 bits, a change
// of direction, separators, line breaks.
const hostileName = "\x1b]0;title\a\x1b[2J\u009b31m\u202egnp.exe\u2066\u200b\u2028\r\n;x\t\x7f</script>\U000e0041"

// hostileWorld is a process all of whose names are hostile.
func hostileWorld() Measured {
	d := sampler.NewDictionary()
	d.SetThread(sampler.ThreadInfo{ID: 1, Name: hostileName, HasName: true, Ractor: 1, TID: 7})
	frame := sampler.Frame{Label: hostileName, Name: hostileName, Path: hostileName, AbsolutePath: hostileName, Line: 3, Origin: sampler.OriginGem, Gem: hostileName}
	stack := d.InternStack(0, d.InternFrame(frame))
	peer := d.InternPeer(sampler.Peer{Kind: sampler.PeerUnix, Path: hostileName, Remote: hostileName, Service: hostileName})
	trace := NewTrace(d)
	trace.Tick(&gvl.Tick{Sample: &sampler.Sample{TimeNS: 1e9}})
	key := flamegraph.Key{Thread: 1, Stack: stack, State: gvl.IO, Endpoint: 1}
	serving := hostileServing(d)
	trace.Interval(&gvl.Interval{Thread: 1, State: gvl.IO, Detail: gvl.Detail{Op: "read", Peer: peer}, Stack: stack, Serving: serving, FromNS: 1e9,
		ToNS: 2e9})
	trace.Notes = []sampler.Note{{AtNS: 15e8, Text: hostileName}}
	return Measured{
		Process: sampler.Process{PID: 7, Title: hostileName, RubyDescription: hostileName}, Dict: d, Trace: trace,
		Weights: &flamegraph.Snapshot{Entries: []flamegraph.Entry{{Key: key, Weights: flamegraph.Weights{WallNS: 1e9, Samples: 1}}}, FromNS: 1e9, ToNS: 2e9},
		Served:  []flamegraph.Served{{}, {Endpoint: flamegraph.Endpoint{Kind: sampler.WorkJob, Name: hostileName}, Span: 1, RootSpan: 2}},
	}
}

// hostileIntervals writes the lines of such a process.
func hostileIntervals(w io.Writer) error {
	m := hostileWorld()
	x := NewIntervals(w, stream.New(m.Process), m.Process, m.Dict, "1")
	x.Note(sampler.Note{AtNS: 1, Text: hostileName})
	x.Interval(&gvl.Interval{Thread: 1, State: gvl.IO, Detail: gvl.Detail{Op: "read", Peer: 1}, Stack: 1, Serving: hostileServing(m.Dict), FromNS: 1e9, ToNS: 2e9})
	return x.Finish(hostileName)
}

// hostileServing is a request all of whose texts are hostile.
func hostileServing(d *sampler.Dictionary) sampler.Serving {
	w := sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: hostileName, SinceNS: 1e9, BeforeNS: 1, QueuedNS: 1 << 62, Values: hostileName}
	return sampler.Serving{Work: d.InternWork(w), Statement: d.InternText(hostileName), Exception: d.InternText(hostileName + ": " + hostileName),
		Span: 1<<64 - 1, RootSpan: 1}
}

// TestHostileRequests: nor does the text of a request, in a dump and a stat, for people and as JSON.
func TestHostileRequests(t *testing.T) {
	d := hostileWorld().Dict
	s := &sampler.Sample{TimeNS: 2e9, Depth: sampler.StackTick, Threads: []sampler.Thread{{ID: 1, Ractor: 1, TID: 7, Serving: hostileServing(d)}}}
	states := []gvl.ThreadState{{Thread: 1, Ractor: 1, State: gvl.IO, AtNS: 2e9, SinceNS: 1e9}}
	dump := NewDump(sampler.Process{PID: 7}, d, s, states)
	name, number := hostileName, "18446744073709551615"
	serving := account.StatServing{Kind: "request", Endpoint: &name, Number: 1, AgeNS: 1 << 62, Values: &name, Statement: &name, Exception: &name, Span: &number,
		RootSpan: &number}
	peers := []account.StatPeerTime{{Peer: map[string]any{"kind": "unix", "path": hostileName}, Name: hostileName, NS: 1 << 62}}
	time := account.StatStates{IO: 1 << 62, Running: 1}
	stat := account.Stat{Requests: account.StatRequests{LeftOut: 1 << 63, NotListed: 3,
		Endpoints: []account.StatEndpoint{{Kind: "request", Endpoint: &name, NS: time, Peers: peers, LongestNS: 1 << 62, P95NS: 1 << 62, Measured: 1},
			{Kind: hostileName, NS: time}, {Other: true}},
		Running: []account.StatRequest{{StatServing: serving, Thread: 1, State: "io", Words: hostileName, NS: time, Peers: peers}}}}
	for what, write := range map[string]func(io.Writer) error{
		"dump": dump.WriteText, "dump as JSON": dump.WriteJSON,
		"stat":         func(w io.Writer) error { return WriteStat(w, stat) },
		"stat as JSON": func(w io.Writer) error { return WriteStatJSON(w, stat) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if n := strings.Count(b.String(), "gnp.exe"); n < 4 {
			t.Errorf("%s has the name %d times: %q", what, n, b.String())
		}
		checkPrintable(t, what, b.String())
	}
}

// TestHostileNamesInExports: no name reaches a terminal as an escape sequence, neither from a file that is shown as it is
// nor by the tool that reads it. The JSON formats have their own line breaks; they are compared decoded, too.
func TestHostileNamesInExports(t *testing.T) {
	m := hostileWorld()
	list := []Measured{m, m}
	for name, write := range map[string]func(io.Writer) error{
		"pprof":                func(w io.Writer) error { return unzipped(w, func(z io.Writer) error { return WriteProfile(z, m) }) },
		"pprof of several":     func(w io.Writer) error { return unzipped(w, func(z io.Writer) error { return WriteProfiles(z, list) }) },
		"collapsed":            func(w io.Writer) error { return WriteCollapsed(w, m, flamegraph.Wall) },
		"collapsed of several": func(w io.Writer) error { return WriteCollapsedOf(w, list, flamegraph.Wall) },
		"speedscope":           func(w io.Writer) error { return WriteSpeedscopeOf(w, list, flamegraph.Wall) },
		"diff":                 func(w io.Writer) error { return writeBoth(w, m, WriteDifference) },
		"diff html":            func(w io.Writer) error { return writeBoth(w, m, WriteHTMLDifference) },
		"diff collapsed":       func(w io.Writer) error { return writeBoth(w, m, WriteCollapsedDifference) },
		"svg":                  func(w io.Writer) error { return WriteFlamegraph(w, m, flamegraph.Wall) },
		"callgrind":            func(w io.Writer) error { return WriteCallgrind(w, m, flamegraph.Wall) },
		"jsonl":                hostileIntervals,
		"html":                 func(w io.Writer) error { return WriteIncident(w, Measured{Incident: hostileIncident(hostileName)}) },
		"firefox":              func(w io.Writer) error { return WriteFirefox(w, list) },
		"chrome":               func(w io.Writer) error { return WriteChrome(w, list) },
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
		checkPrintable(t, name, b.String())
		var v any
		if json.Unmarshal(b.Bytes(), &v) == nil {
			eachString(v, func(s string) { checkPrintable(t, name+", decoded", s) })
		} else if name == "jsonl" {
			for line := range strings.Lines(b.String()) {
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		} else if !strings.HasPrefix(name, "collapsed") && !strings.HasPrefix(name, "diff") && name != "svg" && name != "callgrind" && name != "html" {
			t.Errorf("%s is not JSON", name)
		}
	}
}

// TestHostileNamesInJSON: the JSON of `dump` may go to a terminal, and gives every name back.
func TestHostileNamesInJSON(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, map[string]string{"name": hostileName}); err != nil {
		t.Fatal(err)
	}
	checkPrintable(t, "JSON", b.String())
	var back map[string]string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back["name"] != hostileName {
		t.Errorf("%q came back as %q: %v", hostileName, back["name"], err)
	}
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

// checkPrintable looks for what Printable would replace, except line breaks.
func checkPrintable(t *testing.T, name, s string) {
	t.Helper()
	if i := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && flamegraph.Unprintable(r) }); i >= 0 {
		t.Errorf("%s: %q", name, s[i:min(i+40, len(s))])
	}
}

func eachString(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, x := range v {
			eachString(x, f)
		}
	case map[string]any:
		for k, x := range v {
			f(k)
			eachString(x, f)
		}
	}
}

// checkProfileStrings looks at everything in a profile that `go tool pprof` writes.
func checkProfileStrings(t *testing.T, name string, data []byte) {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	checkPrintable(t, name+", as text", p.String())
}
