package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/sampler"
)

type chromeRead struct {
	Name, Cat, Ph, S string
	TS, Dur          *float64
	PID, TID         *int
	Args             map[string]any
}

func chromeOf(t testing.TB, list ...Measured) ([]chromeRead, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteChrome(&b, list); err != nil {
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

// TestChromeFields checks every event by the format's document (Trace Event Format): what each phase needs, that slices of a
// track do not overlap, and that the times by state are pprof's.
func TestChromeFields(t *testing.T) {
	list := []Measured{shopMeasured(t), randomMeasured(t, 2)}
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
			} else {
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
	if held[4242] != 0 { // the random stream has several holders at once
		t.Errorf("the GVL's track and the threads' differ by %d ns", held[4242])
	}
	if phases[chromeInstant] != 2 || phases[chromeCounter] < 5 { // one collection, one note
		t.Errorf("phases %v", phases)
	}
	if named[track{4242, chromeLockTID + 1}] != "GVL" {
		t.Errorf("tracks %v", named)
	}
	if n := len(named); n != 8+7 {
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
