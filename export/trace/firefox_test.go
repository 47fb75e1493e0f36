package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/sampler"
)

func firefoxOf(t testing.TB, list ...measured) (map[string]any, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFirefox(&b, tracesOf(list)); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v, b.Bytes()
}

func TestFirefoxGolden(t *testing.T) {
	_, text := firefoxOf(t, shopMeasured(t))
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "firefox.json", b.Bytes())
}

// firefoxTables has the columns of each table, as in src/types/profile.ts and the crate fxprof-processed-profile
// (version 55). If a column contains indexes of another table, its value is the name of that table. A "?" at the end of
// the value means that the column may contain null, and a "-" that it may contain -1.
var firefoxTables = map[string]map[string]string{
	"samples":       {"stack": "stackTable", "time": "", "weight": "", "threadCPUDelta": ""},
	"stackTable":    {"prefix": "stackTable?", "frame": "frameTable"},
	"frameTable":    {"address": "", "inlineDepth": "", "category": "categories", "subcategory": "subcategories", "func": "funcTable", "nativeSymbol": "nativeSymbols?", "innerWindowID": "", "implementation": "stringArray?", "line": "?", "column": "?"},
	"funcTable":     {"name": "stringArray", "isJS": "", "relevantForJS": "", "resource": "resourceTable-", "fileName": "stringArray?", "lineNumber": "?", "columnNumber": "?"},
	"resourceTable": {"lib": "?", "name": "stringArray", "host": "?", "type": ""},
	"nativeSymbols": {"address": "", "functionSize": "?", "libIndex": "", "name": "stringArray"},
	"markers":       {"category": "categories", "data": "", "name": "stringArray", "startTime": "", "endTime": "?", "phase": ""},
}

var firefoxThreadKeys = []string{"name", "isMainThread", "pid", "tid", "processName", "processType", "processStartupTime", "processShutdownTime",
	"registerTime", "unregisterTime", "pausedRanges", "showMarkersInTimeline", "stringArray"}

var firefoxMetaKeys = []string{"categories", "debug", "interval", "preprocessedProfileVersion", "processType", "product", "sampleUnits", "startTime",
	"symbolicated", "pausedRanges", "version", "usesOnlyOneStackType", "sourceCodeIsNotOnSearchfox", "markerSchema", "extra"}

// checkFirefox checks every field of a profile.
func checkFirefox(t *testing.T, v map[string]any) {
	t.Helper()
	for _, k := range []string{"meta", "libs", "threads", "pages", "profilerOverhead", "counters"} {
		if v[k] == nil {
			t.Errorf("no %s", k)
		}
	}
	meta := v["meta"].(map[string]any)
	for _, k := range firefoxMetaKeys {
		if meta[k] == nil {
			t.Errorf("no meta.%s", k)
		}
	}
	categories := meta["categories"].([]any)
	grey := false
	colors := []string{"transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown", "magenta", "red", "lightred", "darkgrey", "grey"}
	for _, c := range categories {
		c := c.(map[string]any)
		grey = grey || c["color"] == "grey"
		if !slices.Contains(colors, c["color"].(string)) || len(c["subcategories"].([]any)) != 1 {
			t.Errorf("category %v", c)
		}
	}
	if !grey {
		t.Error("no default category: a grey one")
	}
	schemas := map[string]bool{}
	for _, s := range meta["markerSchema"].([]any) {
		s := s.(map[string]any)
		schemas[s["name"].(string)] = true
		if len(s["fields"].([]any)) == 0 || len(s["display"].([]any)) == 0 {
			t.Errorf("schema %v", s)
		}
	}
	seen := map[string]bool{}
	for _, th := range v["threads"].([]any) {
		th := th.(map[string]any)
		for _, k := range firefoxThreadKeys {
			if _, ok := th[k]; !ok {
				t.Errorf("no thread.%s", k)
			}
		}
		id := fmt.Sprint(th["pid"].(string), "/", th["tid"].(string))
		if seen[id] {
			t.Errorf("two threads %s", id)
		}
		seen[id] = true
		checkFirefoxTables(t, th, map[string]int{"categories": len(categories), "subcategories": 1, "stringArray": len(th["stringArray"].([]any))})
		checkFirefoxMarkers(t, th, schemas)
	}
	for _, c := range v["counters"].([]any) {
		c := c.(map[string]any)
		s := c["samples"].(map[string]any)
		n := int(s["length"].(float64))
		if n == 0 || len(s["time"].([]any)) != n || len(s["count"].([]any)) != n || int(c["mainThreadIndex"].(float64)) >= len(v["threads"].([]any)) {
			t.Errorf("counter %v", c)
		}
	}
}

func checkFirefoxTables(t *testing.T, th map[string]any, lengths map[string]int) {
	t.Helper()
	for name := range firefoxTables {
		lengths[name] = int(th[name].(map[string]any)["length"].(float64))
	}
	for name, columns := range firefoxTables {
		table := th[name].(map[string]any)
		for column, refers := range columns {
			list, ok := table[column].([]any)
			if !ok || len(list) != lengths[name] {
				t.Errorf("%s.%s has %d values, the table has %d", name, column, len(list), lengths[name])
				continue
			}
			to := strings.TrimRight(refers, "?-")
			for i, x := range list {
				switch {
				case x == nil:
					if !strings.HasSuffix(refers, "?") {
						t.Errorf("%s.%s[%d] is null", name, column, i)
					}
				case to != "" && (x.(float64) != -1 || !strings.HasSuffix(refers, "-")):
					if n := x.(float64); n < 0 || int(n) >= lengths[to] || n != math.Trunc(n) || to == name && int(n) >= i {
						t.Errorf("%s.%s[%d] is %v of %d %s", name, column, i, n, lengths[to], to)
					}
				}
			}
		}
	}
	last := math.Inf(-1)
	for _, x := range th["samples"].(map[string]any)["time"].([]any) {
		if x.(float64) < last {
			t.Errorf("samples go back in time, from %v to %v", last, x)
		}
		last = x.(float64)
	}
	if kind := th["samples"].(map[string]any)["weightType"]; kind != "tracing-ms" {
		t.Errorf("weights are %v", kind)
	}
}

func checkFirefoxMarkers(t *testing.T, th map[string]any, schemas map[string]bool) {
	t.Helper()
	m := th["markers"].(map[string]any)
	for i, x := range m["data"].([]any) {
		kind := x.(map[string]any)["type"].(string)
		if !schemas[kind] {
			t.Errorf("a marker of type %q, which has no schema", kind)
		}
		start, end, phase := m["startTime"].([]any)[i].(float64), m["endTime"].([]any)[i], m["phase"].([]any)[i].(float64)
		if (end == nil) != (phase == firefoxInstant) || end != nil && (phase != firefoxInterval || end.(float64) < start) {
			t.Errorf("marker %v from %v to %v in phase %v", x, start, end, phase)
		}
	}
}

func TestFirefoxFields(t *testing.T) {
	list := []measured{shopMeasured(t), randomMeasured(t, 1)}
	v, _ := firefoxOf(t, list...)
	checkFirefox(t, v)
	empty, _ := firefoxOf(t, measured{Trace: New(sampler.Process{PID: 3}, sampler.NewDictionary())})
	checkFirefox(t, empty)

	// The weights of samples, summed up by state, must equal the wall time in the pprof file. The sum of the CPU deltas
	// must equal the CPU time in the pprof file.
	wall, wantWall := map[string]int64{}, map[string]int64{}
	var cpu, wantCPU int64
	for _, m := range list {
		for _, e := range m.Weights.Entries {
			if e.Weights.WallNS != 0 {
				wantWall[e.Key.State.String()] += e.Weights.WallNS
			}
			wantCPU += e.Weights.CPUNS
		}
	}
	categories := v["meta"].(map[string]any)["categories"].([]any)
	markers := map[string]int64{}
	for _, th := range v["threads"].([]any) {
		th := th.(map[string]any)
		column := func(table, name string) []any { return th[table].(map[string]any)[name].([]any) }
		if w := column("samples", "weight")[0]; w.(float64) != 0 {
			t.Errorf("the first sample, whose CPU time is ignored, weighs %v", w)
		}
		for i, w := range column("samples", "weight") {
			if i == 0 {
				continue
			}
			frame := column("stackTable", "frame")[int(column("samples", "stack")[i].(float64))].(float64)
			state := categories[int(column("frameTable", "category")[int(frame)].(float64))].(map[string]any)["name"].(string)
			if ns := int64(math.Round(w.(float64) * 1e6)); ns != 0 {
				wall[state] += ns
			}
			cpu += int64(column("samples", "threadCPUDelta")[i].(float64))
		}
		for i, end := range column("markers", "endTime") {
			if end != nil {
				kind := column("markers", "data")[i].(map[string]any)["type"].(string)
				markers[kind] += int64(math.Round((end.(float64) - column("markers", "startTime")[i].(float64)) * 1e6))
			}
		}
	}
	if !maps.Equal(wall, wantWall) || cpu != wantCPU {
		t.Errorf("wall %v and CPU %d, pprof has %v and %d", wall, cpu, wantWall, wantCPU)
	}
	for kind, state := range map[string]gvl.State{"GVL wait": gvl.Waiting, "GC": gvl.GC, "Stalled": gvl.Stalled, "IO": gvl.IO, "Lock": gvl.Lock} {
		// A difference of 1000 ns is allowed: times in the file are float64 values in ms, which are too coarse for
		// single nanoseconds after several seconds.
		if d := markers[kind] - wantWall[state.String()]; d < -1000 || d > 1000 {
			t.Errorf("the markers of %s last %d ns, the state %d", kind, markers[kind], wantWall[state.String()])
		}
	}
}

func TestFirefoxSaysWhatIsWhere(t *testing.T) {
	v, text := firefoxOf(t, shopMeasured(t))
	threads := v["threads"].([]any)
	if n := strings.Count(string(text), `"isMainThread":true`); n != 1 {
		t.Errorf("%d main threads", n)
	}
	main := threads[0].(map[string]any)
	if main["name"] != "main" || main["pid"] != "4242" {
		t.Errorf("the first thread is %v of %v", main["name"], main["pid"])
	}
	for _, want := range []string{"JSON.generate", "/srv/app/reports.rb", "io ← read 10.0.0.5:5432 PostgreSQL (fd 14)", "waiting after io",
		"gc minor, mark", `"what":"deploy \u003c\u0026\u003e\" rolled back"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is nowhere", want)
		}
	}
	if bytes.Contains(text, []byte("before all")) {
		t.Error("a note of before the first sample")
	}
}
