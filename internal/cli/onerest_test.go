package cli_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
)

// restSource is a sampler.Source without samples. It only describes its process.
type restSource struct {
	sampler.Source
	process sampler.Process
	dict    *sampler.Dictionary
}

func (s restSource) Process() sampler.Process        { return s.process }
func (s restSource) Dictionary() *sampler.Dictionary { return s.dict }

// restingThreads are the threads of TestOneRuleOfRest. stack lists the methods of a thread, innermost first. rests is
// true if the thread waits for work. sleeps is true if the thread waits in a sleep.
var restingThreads = []struct {
	name   string
	rests  bool
	sleeps bool
	stack  []string
}{
	{"puma reactor", true, false, []string{"NIO::Selector#select", "Puma::Reactor#select_loop", "block in Puma::Reactor#run"}},
	{"puma wrkr check", true, false, []string{"IO#wait_readable", "block in Puma::Cluster::Worker#run"}},
	{"sidekiq processor", true, false, []string{
		"IO#wait_readable", "Redis#brpop", "Sidekiq::BasicFetch#retrieve_work", "Sidekiq::Processor#fetch", "Sidekiq::Processor#run",
	}},
	{"reaper", true, true, []string{"Kernel#sleep", "block in ConnectionPool::Reaper.spawn_thread"}},
	{"reads an answer", false, false, []string{"IO#wait_readable", "Net::BufferedIO#rbuf_fill", "Shop#pay"}},
	{"sleeps in a request", false, true, []string{
		"Kernel#sleep", "Shop#pay", "Shop#call", "Puma::Configuration#call", "Puma::Server#process_client",
		"block in Puma::ThreadPool#spawn_thread",
	}},
	{"runs", false, false, []string{"Shop#sum"}},
}

// TestOneRuleOfRest: four outputs leave out the time of threads that wait for work: the screen, the page, the
// flamegraph and the pprof profile. With the same samples, all four must leave out the same threads.
func TestOneRuleOfRest(t *testing.T) {
	dict := sampler.NewDictionary()
	process := sampler.Process{PID: 7, Title: "puma", Era: sampler.EraSched, LockRate: 100, StackRate: 100, RubyVersion: "3.4.1"}
	s := &sampler.Sample{Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: 7, OwnerEnd: 7}}}
	for i, x := range restingThreads {
		id := sampler.ThreadID(i + 1)
		dict.SetThread(sampler.ThreadInfo{ID: id, Name: x.name, HasName: true, TID: int32(id), Ractor: 1})
		th := sampler.Thread{
			ID: id, Ractor: 1, TID: int32(id), Quality: sampler.StackFresh, Bits: sampler.BitBlockingRegion, Status: sampler.Stopped,
			Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1, Syscall: "read"},
		}
		switch {
		case x.name == "runs":
			th.Bits, th.Status = sampler.BitLinked, sampler.Runnable
		case x.sleeps:
			th.Blocked.Kind = sampler.BlockSleep
		}
		for j := len(x.stack) - 1; j >= 0; j-- {
			f := sampler.Frame{Label: x.stack[j], Path: "x.rb", Line: 1, FirstLine: 1, Origin: sampler.OriginGem, Gem: "x 1"}
			if j == 0 && x.name != "runs" {
				f = sampler.Frame{Label: x.stack[j], Path: "x.rb", Line: 1, C: true}
			} else if regexp.MustCompile(`^Shop`).MatchString(x.stack[j]) {
				f.Origin, f.Gem = sampler.OriginApp, ""
			}
			th.Stack = dict.InternStack(th.Stack, dict.InternFrame(f))
		}
		s.Threads = append(s.Threads, th)
	}
	screen, err := store.New(restSource{process: process, dict: dict}, store.Options{History: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "x.ddtop")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(file, process, dict)
	if err != nil {
		t.Fatal(err)
	}
	const samples, eachNS = 301, int64(1e7)
	for i := range samples {
		s.TimeNS = 1e9 + int64(i)*eachNS
		for j := range s.Threads {
			s.Threads[j].Kernel.StateAtNS = s.TimeNS
		}
		screen.Feed(s)
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	one := float64((samples-1)*eachNS) / 1e9 // the time of one thread in seconds
	working := 0
	for _, x := range restingThreads {
		if !x.rests {
			working++
		}
	}
	check := func(where, name string, seconds, want float64) {
		t.Helper()
		if math.Abs(seconds-want) > .011 { // an SVG shows two decimals
			t.Errorf("%s: %s works for %.3f s, not %.3f", where, name, seconds, want)
		}
	}
	each := func(where string, works map[string]float64) {
		t.Helper()
		for _, x := range restingThreads {
			want := one
			if x.rests {
				want = 0
			}
			check(where, x.name, works[x.name], want)
		}
	}

	works := map[string]float64{}
	screen.Read(func(r *store.Reading) {
		var all flamegraph.Snapshot
		r.Rolling.Snapshot(&all)
		for _, e := range all.Entries {
			if e.Key.State != gvl.Parked {
				works[restingThreads[e.Key.Thread-1].name] += float64(e.Weights.WallNS) / 1e9
			}
		}
	})
	each("the screen", works)

	report := func(name string, flags ...string) []byte {
		t.Helper()
		out := filepath.Join(folder, name)
		run(t, append([]string{"report", path, "-o", out}, flags...)...).want(t, 0)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	data := exporttest.PageData(t, report("x.html"))
	works = map[string]float64{}
	threads := data["threads"].([]any)
	for _, slice := range data["slices"].([]any) {
		v := slice.([]any)
		for i := 0; i < len(v); {
			thread, flags, us := int(v[i].(float64)), int(v[i+2].(float64)), v[i+3].(float64)
			i += 4
			for flag := 16; flag <= 64; flag *= 2 {
				if flags&flag != 0 {
					i++
				}
			}
			if gvl.State(flags&15) != gvl.Parked {
				works[fmt.Sprint(threads[thread].(map[string]any)["name"])] += us / 1e6
			}
		}
	}
	each("the page", works)
	for _, x := range threads {
		m := x.(map[string]any)
		for _, want := range restingThreads {
			if m["name"] == want.name && m["rests"] != want.rests {
				t.Errorf("the page: that %s rests is %v", want.name, m["rests"])
			}
		}
	}
	if data["allFrames"] != false || exporttest.PageData(t, report("all.html", "--all-frames"))["allFrames"] != true {
		t.Error("--all-frames does not say where the page's flamegraph begins")
	}

	p, err := profile.Parse(bytes.NewReader(report("x.pb.gz")))
	if err != nil {
		t.Fatal(err)
	}
	works = map[string]float64{}
	for _, sample := range p.Sample {
		if sample.Label["ddtop rest"] == nil {
			works[sample.Label["thread name"][0]] += float64(sample.Value[0]) / 1e9
		}
	}
	if p.SampleType[0].Type != "wall-time" {
		t.Fatalf("the first value is %s", p.SampleType[0].Type)
	}
	each("the profile", works)

	svg := report("x.svg")
	m := regexp.MustCompile(`wall ([0-9.]+) s`).FindSubmatch(svg)
	if m == nil {
		t.Fatal("the flamegraph has no sum")
	}
	sum, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	check("the flamegraph", "all", sum, one*float64(working))
	if bytes.Contains(svg, []byte("Reactor")) || !bytes.Contains(svg, []byte("Shop#pay")) {
		t.Error("the flamegraph has threads at rest, or lacks own code")
	}
}
