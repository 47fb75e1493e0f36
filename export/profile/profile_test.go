package profile

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

func measured(s exporttest.Shop) Measured {
	return Measured{Process: s.Proc, Dict: s.Dict, Weights: s.Weights}
}

func TestProfileReadBack(t *testing.T) {
	s := exporttest.NewShop()
	var b bytes.Buffer
	if err := WriteProfile(&b, measured(s)); err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, v := range p.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	if got := strings.Join(types, " "); got != "wall-time/nanoseconds cpu-time/nanoseconds gvl-wait/nanoseconds samples/count blame/nanoseconds cpu-samples/count timeline/nanoseconds" {
		t.Errorf("sample types %s", got)
	}
	if p.DurationNanos != 30e9 || p.Period != 1e7 || p.TimeNanos != s.Proc.AttachedAt.UnixNano()-30e9 {
		t.Errorf("duration %d, period %d, time %d", p.DurationNanos, p.Period, p.TimeNanos)
	}
	var got [7]int64
	for _, x := range p.Sample {
		for i, v := range x.Value {
			got[i] += v
		}
	}
	w := s.Weights.Total()
	if want := [7]int64{w.WallNS, w.CPUNS, w.WaitNS, w.Samples, w.BlameNS, w.Samples, 1e9}; got != want {
		t.Errorf("sums %v, want %v", got, want)
	}
	// Compare all fields of one sample.
	var x *profile.Sample
	for _, c := range p.Sample {
		if c.Value[2] > 0 {
			x = c
		}
	}
	if x == nil {
		t.Fatal("no sample waits")
	}
	for k, want := range map[string]string{labelThreadID: "4253 (3)", labelThreadName: "http-1", LabelState: "waiting for gvl", LabelDdtopState: "waiting", labelRactor: "1"} {
		if l := x.Label[k]; len(l) != 1 || l[0] != want {
			t.Errorf("label %s is %v, want %s", k, l, want)
		}
	}
	fn := x.Location[0].Line[0]
	if f := fn.Function; f.Name != "DB#query" || f.SystemName != "query" || f.Filename != "/srv/app/db.rb" || f.StartLine != 12 || fn.Line != 17 {
		t.Errorf("innermost frame %+v line %d", f, fn.Line)
	}
	// Two lines of one method are two locations of one function.
	var build []*profile.Location
	for _, l := range p.Location {
		if l.Line[0].Function.Name == "Reports#build" {
			build = append(build, l)
		}
	}
	if len(build) != 2 || build[0].Line[0].Function != build[1].Line[0].Function {
		t.Errorf("Reports#build has locations %v", build)
	}
	again := bytes.Buffer{}
	if err := WriteProfile(&again, measured(s)); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("the same measurement gives other bytes (%v)", err)
	}
}

func TestProfileEmpty(t *testing.T) {
	if _, err := Profile(Measured{Dict: sampler.NewDictionary(), Weights: &flamegraph.Snapshot{}}); err != nil {
		t.Error(err)
	}
}

// TestGoToolPprof: `go tool pprof` must be able to open the file that WriteProfile writes.
func TestGoToolPprof(t *testing.T) {
	rubytest.Long(t)
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here: ", err)
	}
	s := exporttest.NewShop()
	dir := t.TempDir()
	file := filepath.Join(dir, "profile.pb.gz")
	var b bytes.Buffer
	if err := WriteProfile(&b, measured(s)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	pprof := func(args ...string) string {
		cmd := exec.Command(goTool, append([]string{"tool", "pprof"}, args...)...)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go tool pprof %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	top := pprof("-top", file)
	for _, want := range []string{"Type: wall-time", "Duration: 30s", "JSON.generate", "(no stack)", "120s"} {
		if !strings.Contains(top, want) {
			t.Errorf("%q is not in\n%s", want, top)
		}
	}
	if tags := pprof("-tags", "-sample_index=gvl-wait", file); !strings.Contains(tags, "http-1") || !strings.Contains(tags, "waiting") {
		t.Errorf("tags:\n%s", tags)
	}
	if lines := pprof("-top", "-lines", "-tagfocus=ddtop state=running", file); !strings.Contains(lines, "json/common.rb:311") {
		t.Errorf("lines:\n%s", lines)
	}
}

func TestCollapsedGolden(t *testing.T) {
	s := exporttest.NewShop()
	var b bytes.Buffer
	if err := WriteCollapsed(&b, measured(s), flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "collapsed.txt", b.Bytes())
	var sum int64
	for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		n, err := strconv.ParseInt(l[strings.LastIndexByte(l, ' ')+1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if want := s.Weights.Total().WallNS / 1000; sum != want {
		t.Errorf("sum %d µs, want %d", sum, want)
	}
}

// FuzzCollapsed: whatever names a stack contains, no name may add a frame or a line to the collapsed stacks.
func FuzzCollapsed(f *testing.F) {
	for _, s := range []string{"a;b", "a\nb 5", "a b", "\r\n", "\u2028", "x 12"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		d := sampler.NewDictionary()
		d.SetThread(sampler.ThreadInfo{ID: 1, Name: name, HasName: true})
		st := d.InternStack(0, d.InternFrame(sampler.Frame{Label: name}))
		m := Measured{Dict: d, Weights: &flamegraph.Snapshot{Entries: []flamegraph.Entry{{Key: flamegraph.Key{Thread: 1, Stack: st, State: 1}, Weights: flamegraph.Weights{WallNS: 5000}}}}}
		var b bytes.Buffer
		if err := WriteCollapsed(&b, m, flamegraph.Wall); err != nil {
			t.Fatal(err)
		}
		if s := b.String(); strings.Count(s, "\n") != 1 || strings.Count(s, ";") != 2 || !strings.HasSuffix(s, ";[running] 5\n") {
			t.Errorf("%q gives %q", name, s)
		}
		b.Reset()
		if err := WriteSpeedscope(&b, m, flamegraph.Wall); err != nil || !json.Valid(b.Bytes()) {
			t.Errorf("%v %q", err, b.String())
		}
		if err := WriteProfile(&b, m); err != nil {
			t.Error(err)
		}
	})
}

func TestSpeedscopeGolden(t *testing.T) {
	s := exporttest.NewShop()
	var b, pretty bytes.Buffer
	if err := WriteSpeedscope(&b, measured(s), flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	var f speedscopeFile
	if err := json.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, p := range f.Profiles {
		var mine int64
		if len(p.Samples) != len(p.Weights) {
			t.Errorf("%s: %d samples, %d weights", p.Name, len(p.Samples), len(p.Weights))
		}
		for i, w := range p.Weights {
			mine += w
			for _, fr := range p.Samples[i] {
				if fr < 0 || fr >= len(f.Shared.Frames) {
					t.Errorf("%s: frame %d of %d", p.Name, fr, len(f.Shared.Frames))
				}
			}
		}
		if p.EndValue-p.StartValue != mine {
			t.Errorf("%s: from %d to %d, weights sum to %d", p.Name, p.StartValue, p.EndValue, mine)
		}
		sum += mine
	}
	if want := s.Weights.Total().WallNS; sum != want {
		t.Errorf("sum %d, want %d", sum, want)
	}
	if err := json.Indent(&pretty, b.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	// The thread main waits for other threads, and http-1 waits for the network. So worker-3, the thread that computes,
	// must be shown first.
	if shown := f.Profiles[f.Active].Name; shown != "worker-3" {
		t.Errorf("%s is shown first", shown)
	}
	golden.Check(t, "speedscope.json", pretty.Bytes())
}

func BenchmarkProfile(b *testing.B) {
	s := exporttest.NewShop()
	var entries []flamegraph.Entry
	for i := range 20_000 {
		e := s.Weights.Entries[i%len(s.Weights.Entries)]
		e.Key.Thread = sampler.ThreadID(i/7 + 1)
		entries = append(entries, e)
	}
	s.Weights.Entries = entries
	for b.Loop() {
		if _, err := Profile(measured(s)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestProfileTellsWhereCodeIsFrom: the labels of a sample must name the origin of its innermost frame, such as a gem.
// The mappings must name the origin of every frame.
func TestProfileTellsWhereCodeIsFrom(t *testing.T) {
	d := sampler.NewDictionary()
	app := d.InternFrame(sampler.Frame{Label: "App#call", Path: "app.rb", Origin: sampler.OriginApp})
	rack := d.InternFrame(sampler.Frame{Label: "Rack::Lint#call", Path: "lint.rb", Origin: sampler.OriginGem, Gem: "rack 2.2.7"})
	unknown := d.InternFrame(sampler.Frame{Label: "old", Path: "old.rb"})
	var w flamegraph.Snapshot
	for i, stack := range [][]sampler.FrameID{{app, rack}, {rack, app}, {unknown}} {
		w.Entries = append(w.Entries, flamegraph.Entry{Key: flamegraph.Key{Thread: sampler.ThreadID(i + 1), Stack: d.InternStackOf(stack), State: 1}, Weights: flamegraph.Weights{WallNS: 5000}})
	}
	p, err := Profile(Measured{Process: sampler.Process{Title: "shop"}, Dict: d, Weights: &w})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]string{{"app", ""}, {"gem", "rack 2.2.7"}, {"", ""}} {
		s := p.Sample[i]
		if got := [2]string{strings.Join(s.Label[labelOrigin], ","), strings.Join(s.Label[labelGem], ",")}; got != want {
			t.Errorf("sample %d: %q, want %q", i, got, want)
		}
		for _, l := range s.Location {
			want := "shop"
			if l.Line[0].Function.Name == "Rack::Lint#call" {
				want = "gem rack 2.2.7"
			}
			if l.Mapping.File != want {
				t.Errorf("%s is mapped to %q", l.Line[0].Function.Name, l.Mapping.File)
			}
		}
	}
}

// TestCollapsedOwn: with Own, consecutive frames that are not the program's own code must become one frame. No time may
// be lost.
func TestCollapsedOwn(t *testing.T) {
	d := sampler.NewDictionary()
	d.SetThread(sampler.ThreadInfo{ID: 1, Name: "web", HasName: true})
	frame := func(label string, origin sampler.Origin) sampler.FrameID {
		return d.InternFrame(sampler.Frame{Label: label, AbsolutePath: "/x/" + label, Origin: origin, C: origin == sampler.OriginCore, Gem: map[bool]string{true: strings.ToLower(label[:4]) + " 1.0"}[origin == sampler.OriginGem]})
	}
	gem, own, core := sampler.OriginGem, sampler.OriginApp, sampler.OriginCore
	s := &flamegraph.Snapshot{}
	add := func(us int64, frames ...sampler.FrameID) {
		var stack sampler.StackID
		for _, f := range frames {
			stack = d.InternStack(stack, f)
		}
		s.Entries = append(s.Entries, flamegraph.Entry{Key: flamegraph.Key{Thread: 1, Stack: stack, State: gvl.Running}, Weights: flamegraph.Weights{WallNS: us * 1000, Samples: 1}})
	}
	a, b, c := frame("Puma#a", gem), frame("Puma#b", gem), frame("Rack#c", gem)
	add(5, a, b, c, frame("Orders#index", own))
	add(2, a, b, frame("Rack#d", gem), c, frame("Orders#index", own), frame("Array#map", core))
	add(3, a, b, c, frame("IO#write", core))
	add(1)
	var out bytes.Buffer
	if err := WriteCollapsed(&out, Measured{Dict: d, Weights: s, Own: true}, flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	const want = `web;` + flamegraph.NoStack + `;[running] 1
web;⋯ puma, rack;Orders#index;[running] 5
web;⋯ puma, rack;Orders#index;Array#map;[running] 2
web;⋯ puma, rack;IO#write;[running] 3
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
