package export

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/sampler"
)

// shopDump is a thread dump of the shop, the invented program of package exporttest.
func shopDump() *Dump { return dumpOf(exporttest.NewShop()) }

func dumpOf(s exporttest.Shop) *Dump { return NewDump(s.Proc, s.Dict, s.Sample, s.States) }

func dumpJSON(t *testing.T, d *Dump) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDumpGolden(t *testing.T) {
	d := shopDump()
	golden.Check(t, "dump.json", dumpJSON(t, d))
	var b bytes.Buffer
	if err := d.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "dump.txt", b.Bytes())
}

// contract lists the keys of a dump's JSON that scripts can rely on. Each key is given by its path. A number in a path
// is an index of an array.
var contract = []string{
	"pid", "ruby.version", "ruby.description", "ruby.jit", "time", "ractors.0.id", "ractors.0.gvl.owner", "ractors.0.gvl.handover",
	"ractors.0.gvl.waiting", "ractors.0.gvl.waiting_count", "threads.0.id", "threads.0.tid", "threads.0.name", "threads.0.main",
	"threads.0.ractor", "threads.0.status", "threads.0.state", "threads.0.detail", "threads.0.frames.0.label", "threads.0.frames.0.name",
	"threads.0.frames.0.path", "threads.0.frames.0.absolute_path", "threads.0.frames.0.line", "threads.0.frames.0.c",
	"threads.0.frames.0.uncertain", "threads.2.fibers.0.frames.0.label", "threads.0.truncated", "threads.0.omitted", "reads.torn",
	"reads.partial", "reads.failed", "reads.retried",
}

func TestDumpContract(t *testing.T) {
	var v any
	if err := json.Unmarshal(dumpJSON(t, shopDump()), &v); err != nil {
		t.Fatal(err)
	}
	for _, path := range contract {
		if _, ok := lookup(v, path); !ok {
			t.Errorf("%s is missing", path)
		}
	}
	for path, want := range map[string]any{
		"time": "2026-11-20T14:03:22.418000001Z", "ruby.jit": "yjit", "ractors.0.gvl.owner": 2.0, "ractors.0.gvl.handover": nil,
		"ractors.0.gvl.waiting": []any{3.0, 7.0}, "threads.0.name": nil, "threads.1.name": "worker-3", "threads.6.tid": nil,
		"threads.0.tid": 4242.0, "threads.1.frames.0.label": "JSON.generate", "threads.1.frames.3.label": "<main>",
		"threads.2.fibers.0.frames.0.absolute_path": nil, "threads.2.omitted": 12.0, "threads.2.truncated": true,
		"threads.3.frames.0.c": true, "threads.0.status": "sleep_forever", "threads.3.state": "io", "threads.3.detail.fd": 14.0,
		"deadlocks.0.threads": []any{5.0, 6.0},
	} {
		if got, ok := lookup(v, path); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v (there: %v), want %v", path, got, ok, want)
		}
	}
}

func lookup(v any, path string) (any, bool) {
	for _, k := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[k]; !ok {
				return nil, false
			}
		case []any:
			i := int(k[0] - '0')
			if i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// TestDumpEmptyArrays: an empty array is written as [], never as null, so that scripts can iterate.
func TestDumpEmptyArrays(t *testing.T) {
	s := &sampler.Sample{Threads: []sampler.Thread{{ID: 1}}, Ractors: []sampler.Ractor{{ID: 1}}}
	out := string(dumpJSON(t, NewDump(sampler.Process{}, sampler.NewDictionary(), s, nil)))
	for _, key := range []string{"waiting", "frames", "fibers", "deadlocks", "locks"} {
		if !strings.Contains(out, `"`+key+`": []`) {
			t.Errorf("%s is not an empty array in %s", key, out)
		}
	}
	if !strings.Contains(out, `"state": "unknown"`) || !strings.Contains(out, `"tid": null`) {
		t.Errorf("a thread without a verdict: %s", out)
	}
}

func TestDumpOwner(t *testing.T) {
	held := func(id sampler.ThreadID) gvl.ThreadState { return gvl.ThreadState{Thread: id, State: gvl.Running} }
	handed := func(id sampler.ThreadID) gvl.ThreadState {
		return gvl.ThreadState{Thread: id, State: gvl.Waiting, Detail: gvl.Detail{Wait: gvl.WaitHandover}}
	}
	io := func(id sampler.ThreadID) gvl.ThreadState { return gvl.ThreadState{Thread: id, State: gvl.IO} }
	for _, c := range []struct {
		name            string
		start, end      sampler.ThreadID
		states          []gvl.ThreadState
		owner, handover sampler.ThreadID
	}{
		{"one holder", 1, 1, []gvl.ThreadState{held(1), io(2)}, 1, 0},
		{"a switch within the read", 1, 2, []gvl.ThreadState{held(1), held(2)}, 2, 0},
		{"handed over", 2, 2, []gvl.ThreadState{io(1), handed(2)}, 0, 2},
		{"free", 0, 0, []gvl.ThreadState{io(1), io(2)}, 0, 0},
		{"a holder not listed", 9, 9, []gvl.ThreadState{io(1), io(2)}, 9, 0},
		{"a listed owner that the evidence refutes", 2, 2, []gvl.ThreadState{io(1), io(2)}, 0, 0},
	} {
		s := &sampler.Sample{
			Ractors: []sampler.Ractor{{ID: 1, OwnerStart: c.start, OwnerEnd: c.end}},
			Threads: []sampler.Thread{{ID: 1, Ractor: 1}, {ID: 2, Ractor: 1}, {ID: 3, Ractor: 2}},
		}
		states := append(slices.Clone(c.states), held(3)) // thread 3 holds the GVL of another ractor
		g := NewDump(sampler.Process{}, sampler.NewDictionary(), s, states).Ractors[0].GVL
		if val(g.Owner) != c.owner || val(g.Handover) != c.handover {
			t.Errorf("%s: owner %d, handover %d, want %d and %d", c.name, val(g.Owner), val(g.Handover), c.owner, c.handover)
		}
	}
}

func val(p *sampler.ThreadID) sampler.ThreadID {
	if p == nil {
		return 0
	}
	return *p
}

func TestDumpTornQueue(t *testing.T) {
	s := &sampler.Sample{
		Ractors: []sampler.Ractor{{ID: 1, Torn: true}},
		Threads: []sampler.Thread{{ID: 1, Ractor: 1, Bits: sampler.BitQueued}, {ID: 2, Ractor: 1}, {ID: 3, Ractor: 1, Bits: sampler.BitQueued}},
	}
	d := NewDump(sampler.Process{}, sampler.NewDictionary(), s, nil)
	g := d.Ractors[0].GVL
	if !g.Torn || !slices.Equal(g.Waiting, []sampler.ThreadID{1, 3}) || g.WaitingCount != 2 {
		t.Errorf("%+v", g)
	}
	var b bytes.Buffer
	if err := d.WriteText(&b); err != nil || !strings.Contains(b.String(), "order not known") {
		t.Errorf("%v %s", err, b.String())
	}
}

func TestStateText(t *testing.T) {
	for _, c := range []struct {
		v    gvl.ThreadState
		want string
	}{
		{gvl.ThreadState{State: gvl.Running, AtNS: 50e6}, "running (50 ms)"},
		{gvl.ThreadState{State: gvl.Waiting, AtNS: 50e6, Detail: gvl.Detail{After: gvl.IO}}, "waiting 50 ms after io"},
		{gvl.ThreadState{State: gvl.Waiting, Detail: gvl.Detail{After: gvl.IO}}, "waiting after io"},
		{gvl.ThreadState{State: gvl.Sleeping}, "sleeping"},
		{gvl.ThreadState{State: gvl.Parked, Detail: gvl.Detail{Kind: "Queue"}}, "parked in Queue"},
		{gvl.ThreadState{State: gvl.Parked, AtNS: 3e9, Detail: gvl.Detail{Kind: "Queue"}}, "parked in Queue 3 s"},
	} {
		if got := stateText(c.v, nil); got != c.want {
			t.Errorf("%v: %q, want %q", c.v.State, got, c.want)
		}
	}
}

// FuzzDump: whatever names the dump contains, no name may add a line to the text or reach the terminal as an escape
// sequence. Decoding the JSON must return each name unchanged.
func FuzzDump(f *testing.F) {
	for _, s := range []string{"plain", "a\nb", "\x1b[2J", `"quoted"`, "\u202e", "</script>", "é", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		name = strings.ToValidUTF8(name, "\uFFFD") // the sampler only returns names that are valid UTF-8
		d := sampler.NewDictionary()
		d.SetThread(sampler.ThreadInfo{ID: 1, Name: name, HasName: true})
		st := d.InternStack(0, d.InternFrame(sampler.Frame{Label: name, Path: name, Line: 1}))
		s := &sampler.Sample{Threads: []sampler.Thread{{ID: 1, Ractor: 1, Stack: st, Quality: sampler.StackFresh}}, Ractors: []sampler.Ractor{{ID: 1, OwnerEnd: 1}}}
		dump := NewDump(sampler.Process{Title: name, RubyDescription: name}, d, s, []gvl.ThreadState{{Thread: 1, State: gvl.Running}})
		var b bytes.Buffer
		if err := dump.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		var plain bytes.Buffer
		d.SetThread(sampler.ThreadInfo{ID: 1, Name: "x", HasName: true})
		if err := NewDump(sampler.Process{Title: "x", RubyDescription: "x"}, d, s, nil).WriteText(&plain); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(b.String(), "\n"), strings.Count(plain.String(), "\n"); name != "" && got != want {
			t.Errorf("%q: %d lines, want %d", name, got, want)
		}
		if strings.ContainsAny(b.String(), "\x1b\x00\a\r\u202e") {
			t.Errorf("%q reaches the text: %q", name, b.String())
		}
		var back Dump
		if err := json.Unmarshal(dumpJSON(t, dump), &back); err != nil {
			t.Fatal(err)
		}
		if *back.Threads[0].Name != name || back.Threads[0].Frames[0].Label != name {
			t.Errorf("%q came back as %q", name, *back.Threads[0].Name)
		}
	})
}

// TestDumpOfPauses: ddtop can stop the process while it reads a dump. If the process runs again before ddtop has read
// everything, the parts of the dump are from different times. The dump then says how many stops were cut short.
func TestDumpOfPauses(t *testing.T) {
	s := exporttest.NewShop()
	s.Sample.PauseNS, s.Sample.Reads.Pauses = 2_500_000, 3
	for cut, want := range map[uint64]string{0: "\nstopped for 2500 µs; read in ", 1: "\nstopped for 2500 µs; 1 of 3 stops cut short; read in "} {
		s.Sample.Reads.PausesCut = cut
		var b strings.Builder
		if err := dumpOf(s).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%d cut: no %q in\n%s", cut, want, b.String())
		}
	}
}

// TestDumpOnlyEndpoints: with a filter (OnlyEndpoints), a dump must leave out every thread that does not work for a
// request or job that the filter accepts.
func TestDumpOnlyEndpoints(t *testing.T) {
	d := shopDump()
	d.OnlyEndpoints(func(name string) bool { return name == "MailJob" })
	var text, asJSON bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteJSON(&asJSON); err != nil {
		t.Fatal(err)
	}
	var v struct {
		Threads []struct{ Name string } `json:"threads"`
	}
	if err := json.Unmarshal(asJSON.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Threads) != 1 || v.Threads[0].Name != "cart" || strings.Contains(text.String(), "DB#query") || !strings.Contains(text.String(), "serves MailJob") ||
		!strings.Contains(text.String(), `GVL: held by "worker-3"`) {
		t.Errorf("%+v\n%s", v, text.String())
	}
}
