package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/sampler"
)

// intervalKeys returns the keys that docs/reference/jsonl.md lists for each type of line, and the type of each key's
// value.
func intervalKeys(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/jsonl.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile("^##+ `([a-z]+)`$")
	word := regexp.MustCompile("`([a-z_]+)`")
	keys, at := make(map[string]map[string]string), ""
	for line := range strings.SplitSeq(string(text), "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			at = m[1]
			keys[at] = map[string]string{"type": "string"}
		}
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		names, types := word.FindAllStringSubmatch(cells[1], -1), strings.Split(strings.TrimSpace(cells[2]), ", ")
		for i, m := range names {
			if len(types) != len(names) {
				t.Fatalf("%s has %d types", cells[1], len(types))
			}
			keys[at][m[1]] = types[i]
		}
	}
	return keys
}

// kindOf returns the type of a JSON value in the words of docs/reference/jsonl.md.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "int"
		}
		return "number"
	}
	return "?"
}

// intervalLines decodes lines and checks the keys of each line against the documented keys.
func intervalLines(t *testing.T, text string) (lines []map[string]any) {
	t.Helper()
	keys := intervalKeys(t)
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil || d.More() {
			t.Fatalf("line %d: %v in %.200s", i, err, line)
		}
		kind, _ := v["type"].(string)
		want := keys[kind]
		if want == nil {
			t.Fatalf("line %d is a %q, of which docs/reference/jsonl.md says nothing", i, kind)
		}
		for key, value := range v {
			is := kindOf(value)
			if says := want[key]; !strings.Contains(" "+says+" ", " "+is+" ") && !(says == "number" && is == "int") {
				t.Errorf("line %d: %s of a %s is %s, docs/reference/jsonl.md says %q", i, key, kind, is, says)
			}
		}
		for key := range want {
			if _, ok := v[key]; !ok {
				t.Errorf("line %d: a %s has no %s", i, kind, key)
			}
		}
		lines = append(lines, v)
	}
	return lines
}

func number(t *testing.T, v map[string]any, key string) int64 {
	t.Helper()
	n, err := v[key].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestIntervals: the JSON lines are as documented for normal samples, damaged samples and samples with gaps. A line
// refers only to threads, frames and stacks that an earlier line defines. The intervals of a thread have no gaps. Their
// sums equal the result of stat, to the nanosecond.
func TestIntervals(t *testing.T) {
	seen := make(map[string]int)
	for seed := uint64(0); seed < 30; seed++ {
		p, dict := streamtest.Process(1000, 100), sampler.NewDictionary()
		next := streamtest.New(seed, dict)
		next.Damaged = seed%2 == 1
		measure := measure.New(p, dict, nil)
		class, stream := gvl.NewClassifier(p, dict), stream.New(p)
		var b bytes.Buffer
		x := NewIntervals(&b, stream, p, dict, "1.2.3")
		x.Note(sampler.Note{AtNS: 7, Text: "deploy"})
		last := int64(0)
		for n := range 1200 {
			s := next.Next().Clone()
			if n > 800 {
				s.TimeNS += 3e9 // nothing was read for 3 s
			}
			s.GC = sampler.GC{Valid: n%11 != 0, During: n%7 < 2, Mode: sampler.GCMode(n % 3)}
			s.TimeNS = max(s.TimeNS, last)
			last = s.TimeNS
			for i := range s.Threads {
				if th := &s.Threads[i]; th.Stack != 0 && n%100 < 60 {
					th.Native = dict.InternNative(th.Stack, &sampler.NativeStack{Frames: []sampler.NativeFrame{
						{Name: "poll", Library: "libc", Offset: 5, Function: 1}, {Library: "libpq", Offset: 7}}})
				}
			}
			measure.Feed(s)
			stream.Feed(s, class.Classify(s))
		}
		stream.Finish()
		if err := x.Finish("exited"); err != nil {
			t.Fatal(err)
		}
		stat := measure.Stat(0)
		want := make(map[string]int64)
		for _, th := range stat.Threads {
			for state, ns := range map[string]int64{
				"running": th.NS.Running, "stalled": th.NS.Stalled, "gc": th.NS.GC, "waiting": th.NS.Waiting, "native": th.NS.Native, "io": th.NS.IO,
				"lock": th.NS.Lock, "parked": th.NS.Parked, "sleeping": th.NS.Sleeping, "unknown": th.NS.Unknown,
			} {
				want[fmt.Sprintf("%d %s", th.ID, state)] += ns
			}
		}
		got, until, told := make(map[string]int64), make(map[int64]int64), map[string]bool{}
		gcNS := int64(0)
		for i, v := range intervalLines(t, b.String()) {
			kind := v["type"].(string)
			seen[kind]++
			if (i == 0) != (kind == "header") {
				t.Errorf("line %d is a %s", i, kind)
			}
			refers := func(what string, id any) {
				if id != nil && !told[fmt.Sprint(what, id)] {
					t.Errorf("line %d: %s %v was not told of", i, what, id)
				}
			}
			switch kind {
			case "thread", "frame":
				told[fmt.Sprint(kind, v["id"])] = true
			case "stack":
				for _, f := range v["frames"].([]any) {
					refers("frame", f)
				}
				told[fmt.Sprint(kind, v["id"])] = true
			case "interval":
				refers("thread", v["thread"])
				refers("stack", v["stack"])
				id, from, to := number(t, v, "thread"), number(t, v, "begin_ns"), number(t, v, "end_ns")
				if from < until[id] || to <= from {
					t.Errorf("line %d: thread %d from %d to %d, after %d", i, id, from, to, until[id])
				}
				until[id] = to
				got[fmt.Sprint(id, " ", v["state"])] += to - from
			case "wait":
				refers("thread", v["thread"])
			case "gvl":
				refers("thread", v["holder"])
				refers("stack", v["stack"])
			case "native":
				refers("thread", v["thread"])
				refers("stack", v["stack"])
				list := v["functions"].([]any)
				if first := list[0].(map[string]any); len(list) != 2 || first["name"] != "poll" ||
					fmt.Sprint(first["offset"]) != "5" ||
					number(t, v, "begin_ns") >= number(t, v, "end_ns") {
					t.Errorf("line %d: %v", i, v)
				}
			case "gc":
				refers("stack", v["stack"])
				gcNS += number(t, v, "end_ns") - number(t, v, "begin_ns")
			case "end":
				if number(t, v, "samples") != 1200 || number(t, v, "begin_ns") != stat.StartNS || number(t, v, "end_ns") != stat.EndNS ||
					number(t, v, "not_sampled_ns") != stat.NotSampled || v["reason"] != "exited" {
					t.Errorf("the end is %v", v)
				}
			}
		}
		for key, ns := range want {
			if got[key] != ns {
				t.Errorf("seed %d: %s: %d ns, stat has %d", seed, key, got[key], ns)
			}
			delete(got, key)
		}
		for key, ns := range got {
			t.Errorf("seed %d: %s: %d ns, of which stat says nothing", seed, key, ns)
		}
		if gcNS != stat.GC.NS {
			t.Errorf("seed %d: %d ns of collections, stat has %d", seed, gcNS, stat.GC.NS)
		}
	}
	for kind := range intervalKeys(t) {
		if seen[kind] == 0 {
			t.Errorf("there was no %s, so nothing was checked of it", kind)
		}
	}
}

// TestIntervalsFail: if already the first write fails, both Err and Finish must return an error.
func TestIntervalsFail(t *testing.T) {
	p, dict := streamtest.Process(1000, 100), sampler.NewDictionary()
	x := NewIntervals(failingWriter{}, stream.New(p), p, dict, "")
	if x.Err() == nil || x.Finish("") == nil {
		t.Error("it says that all was written")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }
