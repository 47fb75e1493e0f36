package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/sampler"
)

type chromeRead struct {
	Name, Cat, Ph, S string
	SF               string
	TS, Dur          *float64
	PID, TID         *int
	Args             map[string]any
}

func chromeOf(t testing.TB, list ...measured) ([]chromeRead, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteChrome(&b, tracesOf(list)); err != nil {
		t.Fatal(err)
	}
	var v struct {
		TraceEvents     []chromeRead
		DisplayTimeUnit string
	}
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.TraceEvents == nil || v.DisplayTimeUnit != "ms" {
		t.Errorf("unit %q, events %v", v.DisplayTimeUnit, v.TraceEvents)
	}
	return v.TraceEvents, b.Bytes()
}

func TestChromeGolden(t *testing.T) {
	_, text := chromeOf(t, shopMeasured(t))
	golden.Check(t, "chrome.json", bytes.ReplaceAll(text, []byte("},{\"name\""), []byte("},\n{\"name\"")))
}

// TestChromeFields checks every event against the document Trace Event Format. Each kind of event must have the fields
// that this document requires. Slices of a track must not overlap. The times by state must equal the times in the pprof
// file.
func TestChromeFields(t *testing.T) {
	list := []measured{shopMeasured(t), randomMeasured(t, 2)}
	events, _ := chromeOf(t, list...)
	type track struct{ pid, tid int }
	named, ends := map[track]string{}, map[track]float64{}
	states, phases := map[string]int64{}, map[string]int{}
	held := map[int]int64{}
	for i, e := range events {
		if e.Name == "" || e.TS == nil || e.PID == nil || e.TID == nil || *e.TS < 0 {
			t.Fatalf("event %d: %+v", i, e)
		}
		k := track{*e.PID, *e.TID}
		phases[e.Ph]++
		switch e.Ph {
		case chromeMetadata:
			if e.Name == "thread_name" {
				if named[k] != "" {
					t.Errorf("%v is %q and %q", k, named[k], e.Args["name"])
				}
				named[k] = e.Args["name"].(string)
			} else if e.Name != "process_name" && e.Name != "thread_sort_index" {
				t.Errorf("metadata %q", e.Name)
			}
		case chromeComplete:
			if e.Dur == nil || *e.Dur <= 0 || named[k] == "" {
				t.Fatalf("event %d: %+v", i, e)
			}
			if *e.TS < ends[k]-1e-3 {
				t.Errorf("track %v: a slice at %f before the end of the last one, %f", k, *e.TS, ends[k])
			}
			ends[k] = *e.TS + *e.Dur
			ns := int64(math.Round(*e.Dur * 1000))
			if e.Cat == "state" {
				states[e.Name] += ns
				if s, ok := gvl.ParseState(e.Name); ok && s.Held() {
					held[*e.PID] += ns
				}
			} else if e.Cat != "request" {
				held[*e.PID] -= ns
			}
		case chromeInstant:
			if e.S != "g" && e.S != "p" && e.S != "t" {
				t.Errorf("instant %+v", e)
			}
		case chromeCounter:
			for key, v := range e.Args {
				if _, ok := v.(float64); !ok || len(e.Args) != 1 {
					t.Errorf("counter %s %s: %v", e.Name, key, v)
				}
			}
		default:
			t.Errorf("phase %q", e.Ph)
		}
	}
	want := map[string]int64{}
	for _, m := range list {
		for _, e := range m.Weights.Entries {
			if e.Weights.WallNS != 0 {
				want[e.Key.State.String()] += e.Weights.WallNS
			}
		}
	}
	if !maps.Equal(states, want) {
		t.Errorf("slices %v, pprof has %v", states, want)
	}
	if held[4242] != 0 { // not checked for the random stream, which has several holders at once
		t.Errorf("the GVL's track and the threads' differ by %d ns", held[4242])
	}
	// the three marks are a collection, a note and the beginning of a thread
	if phases[chromeInstant] != 3 || phases[chromeCounter] < 5 {
		t.Errorf("phases %v", phases)
	}
	if named[track{4242, chromeLockTID + 1}] != "GVL" {
		t.Errorf("tracks %v", named)
	}
	if n := len(named); n != 8+2+7 { // two threads have requests
		t.Errorf("%d tracks: %v", n, named)
	}
}

func TestEveryStateHasAColour(t *testing.T) {
	for s := range gvl.NumStates {
		if chromeColors[s] == "" || firefoxColors[s] == "" {
			t.Errorf("%q: %q in Chrome's trace, %q in Firefox's profile", s, chromeColors[s], firefoxColors[s])
		}
	}
}

func TestChromeMicros(t *testing.T) {
	for ns, want := range map[chromeMicros]string{0: "0", 999: "0.999", 1000: "1", 12_345_006: "12345.006", 5_000_000_000_000_001: "5000000000000.001"} {
		if b, err := json.Marshal(ns); err != nil || string(b) != want {
			t.Errorf("%d ns: %s, %v", int64(ns), b, err)
		}
	}
	if s := fmt.Sprint(sampler.GCTrigger(sampler.GCByMalloc)); s != "malloc" {
		t.Error(s)
	}
}

// TestChromeStacks: the file has all stacks in one tree of frames. For each slice, the path from its node to the root
// must be the frames of its stack. The slice must have the name of the innermost frame.
func TestChromeStacks(t *testing.T) {
	m := shopMeasured(t)
	events, text := chromeOf(t, m, m)
	var v struct {
		StackFrames map[string]struct{ Category, Name, Parent string }
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range events {
		if e.SF == "" {
			continue
		}
		var names []string
		for key := e.SF; key != ""; key = v.StackFrames[key].Parent {
			if names = append(names, v.StackFrames[key].Name); len(names) > 100 || v.StackFrames[key].Name == "" {
				t.Fatalf("%s: %q", e.SF, names)
			}
		}
		id, err := strconv.ParseUint(e.SF[strings.IndexByte(e.SF, '.')+1:], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, f := range m.dict.Frames(sampler.StackID(id), nil) {
			want = append(want, m.dict.Frame(f).Label)
		}
		if !slices.Equal(names, want) || names[0] != e.Args["in"] {
			t.Errorf("%s in %v: %q, want %q", e.Name, e.Args["in"], names, want)
		}
		seen++
	}
	if seen < 10 {
		t.Errorf("%d slices have stacks", seen)
	}
}

// exactMeasured is a measurement of 10 ms with two threads, from a stream that has all changes of the GVL. Thread 1
// holds the GVL for 3 ms. Thread 2 waits for the GVL for 1.5 ms, and in the last 20.5 µs it is already chosen as the
// next holder. Then thread 2 holds the GVL for 3 ms and ends. After that, a thread that no sample lists holds the GVL
// for 0.5 µs.
func exactMeasured() measured {
	d := sampler.NewDictionary()
	d.SetThread(sampler.ThreadInfo{ID: 1, TID: 71, Main: true})
	d.SetThread(sampler.ThreadInfo{ID: 2, TID: 72, Name: "late", HasName: true})
	t := New(sampler.Process{PID: 70, Title: "x"}, d)
	const at = int64(1e15)
	first := &sampler.Sample{TimeNS: at}
	last := &sampler.Sample{TimeNS: at + 10e6, Changes: sampler.Changes{FromNS: at, ToNS: at + 10e6}}
	t.Tick(&gvl.Tick{Sample: first, First: true, ToNS: at, FromNS: at})
	one := func(id sampler.ThreadID, s gvl.State, w gvl.WaitKind, from, to int64) {
		t.Interval(&gvl.Interval{Thread: id, State: s, Detail: gvl.Detail{FD: -1, Wait: w}, FromNS: at + from, ToNS: at + to, Slot: int(id)})
	}
	one(1, gvl.Running, 0, 0, 3e6)
	one(1, gvl.Sleeping, 0, 3e6, 10e6)
	t.Waited(&gvl.Wait{Thread: 2, FromNS: at + 1_500_000, ToNS: at + 3_000_123, Exact: true, HandoverNS: 20_500, NoCPUNS: 7100, FirstHolder: 1, LastHolder: 1})
	one(2, gvl.Waiting, gvl.WaitQueue, 1_500_000, 2_979_623)
	one(2, gvl.Waiting, gvl.WaitHandover, 2_979_623, 3_000_123)
	one(2, gvl.Running, 0, 3_000_123, 6e6)
	t.Ended(2, at+6e6)
	for _, x := range []struct {
		id       sampler.ThreadID
		unlisted bool
		from, to int64
	}{{1, false, 0, 3e6}, {0, false, 3e6, 3_000_123}, {2, false, 3_000_123, 6e6}, {0, true, 6e6, 6_000_500}, {0, false, 6_000_500, 10e6}} {
		t.Lock(&gvl.LockInterval{Ractor: 1, Thread: x.id, Unlisted: gvl.Unlisted{Holds: x.unlisted}, State: gvl.Running, FromNS: at + x.from, ToNS: at + x.to})
	}
	t.Tick(&gvl.Tick{Sample: last, FromNS: at, ToNS: at + 10e6})
	t.Ended(1, at+10e6)
	return measured{Trace: t}
}

// TestChromeExact: if times are exactly known, the file has them to the nanosecond. A wait for the GVL is one slice.
// The slice names the holders of the GVL, the time without a CPU, and the hand-over.
func TestChromeExact(t *testing.T) {
	events, _ := chromeOf(t, exactMeasured())
	var got []string
	for _, e := range events {
		if e.Ph == chromeMetadata || e.Ph == chromeCounter {
			continue
		}
		dur := 0.0
		if e.Dur != nil {
			dur = *e.Dur
		}
		got = append(got, fmt.Sprintf("%d %s %s %.3f %.3f %v", *e.TID, e.Cat, e.Name, *e.TS, dur, e.Args))
	}
	want := []string{
		"1000000001 gvl main 0.000 3000.000 map[]",
		"1000000001 gvl late 3000.123 2999.877 map[]",
		"1000000001 gvl a thread that lived too short 6000.000 0.500 map[]",
		"71 state running 0.000 3000.000 map[]",
		"71 state sleeping 3000.000 7000.000 map[]",
		"72 thread started 1500.000 0.000 map[]",
		"72 state waiting 1500.000 1500.123 map[hand_over_us:20.5 held_at_begin_by:main held_at_end_by:main what:waiting without_cpu_us:7.1]",
		"72 wait hand-over 2979.623 20.500 map[]",
		"72 state running 3000.123 2999.877 map[]",
		"72 thread died 6000.000 0.000 map[]",
		"0 exact exact from here on 0.000 0.000 map[]",
		"0 exact exact up to here 10000.000 0.000 map[]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFirefoxExact: the marker of a wait for the GVL names the thread that held the GVL, and the parts of the wait.
func TestFirefoxExact(t *testing.T) {
	var b bytes.Buffer
	if err := WriteFirefox(&b, []*Trace{exactMeasured().Trace}); err != nil {
		t.Fatal(err)
	}
	if want := `"what":"waiting, held by main, 20 µs of hand-over, 7 µs without a CPU"`; !strings.Contains(b.String(), want) {
		t.Errorf("no %s in %s", want, b.String())
	}
}
