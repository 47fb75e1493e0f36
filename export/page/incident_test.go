package page

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/sampler"
)

func incidentPage(t testing.TB, n *Incident) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteIncident(&b, n); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestIncidentAddsUp: the page has each thread's time in lanes (rows of the timeline) and in slices (for the
// flamegraph). Both must have the same time by thread and state as a flamegraph of the same stream. Joining columns
// must not change the sums.
func TestIncidentAddsUp(t *testing.T) {
	for seed := range uint64(4) {
		d := sampler.NewDictionary()
		p := streamtest.Process(1000, 100)
		g := streamtest.New(seed, d)
		n := NewIncident(p, d, nil)
		stream := stream.New(p)
		// If a thread is at rest, its state in slices is parked (findings.Resting), but lanes keep the state that the
		// sample has. So slices and lanes each need their own flamegraph to compare with.
		var rolling [2]*flamegraph.Rolling
		for i := range rolling {
			var err error
			if rolling[i], err = flamegraph.NewRolling(0, 0); err != nil {
				t.Fatal(err)
			}
		}
		c := flamegraph.NewCollector(stream, nil, rolling[0])
		rested := flamegraph.NewCollector(n.measure.Stream(), n.dumps.resting.State, rolling[1])
		class := gvl.NewClassifier(p, d)
		for i := range 12_000 {
			s := g.Next()
			n.Feed(s)
			stream.Feed(s, class.Classify(s))
			if i == 4_000 {
				n.weights.double()
				n.lanes.double()
			}
		}
		stream.Finish()
		c.Finish()
		n.Finish()
		rested.Finish()
		n.lanes.double()
		n.weights.shrink(200)
		type key struct {
			thread sampler.ThreadID
			state  gvl.State
		}
		slices, lanes, cells := map[key]int64{}, map[key]int64{}, map[key]float64{}
		var want [2]map[key]int64
		var cpu, blame [2]int64
		for i := range want {
			want[i] = make(map[key]int64)
			var all flamegraph.Snapshot
			rolling[i].Snapshot(&all)
			cpu[0], blame[0] = 0, 0
			for _, e := range all.Entries {
				want[i][key{e.Key.Thread, e.Key.State}] += e.Weights.WallNS
				cpu[0] += e.Weights.CPUNS
				blame[0] += e.Weights.BlameNS
			}
		}
		for _, s := range n.weights.slices {
			for k, w := range s {
				slices[key{k.Thread, k.State}] += w.wallNS
				cpu[1] += w.cpuNS
				blame[1] += w.blameNS
			}
		}
		for id, lane := range n.lanes.threads {
			for st := range gvl.NumStates {
				lanes[key{id, st}] += lane.sum[st]
				for _, c := range lane.cells {
					cells[key{id, st}] += float64(c[st])
				}
			}
		}
		if cpu[0] != cpu[1] || blame[0] != blame[1] {
			t.Errorf("seed %d: CPU and blame %v, %v", seed, cpu, blame)
		}
		for k, ns := range want[1] {
			if slices[k] != ns {
				t.Errorf("seed %d, %v: slices have %d, weights %d", seed, k, slices[k], ns)
			}
		}
		for k, ns := range want[0] {
			if k.state == gvl.Unknown { // lanes do not contain time without samples
				continue
			}
			// The bound is a relative error of 1e-3: a cell adds up at most a few thousand float32 values, and each is
			// rounded by one part in 2^24.
			if lanes[k] != ns || math.Abs(cells[k]-float64(ns)) > float64(ns)*1e-3+1 {
				t.Errorf("seed %d, %v: lanes have %d and %g, weights %d", seed, k, lanes[k], cells[k], ns)
			}
		}
		page := incidentPage(t, n)
		if data := exporttest.PageData(t, page); len(data["threads"].([]any)) == 0 || len(data["dumps"].([]any)) == 0 || bytes.Contains(page, []byte(":null")) {
			t.Errorf("seed %d: threads or dumps are missing, or a list is null", seed)
		}
	}
}

// TestCellText: a lane's text joins the codes of all columns, and codes have different lengths. The test checks that
// the end of each code can be found.
func TestCellText(t *testing.T) {
	x := incidentLane{}
	cell := func(ns map[gvl.State]float32) (c [gvl.NumStates]float32) {
		for s, v := range ns {
			c[s] = v
		}
		return c
	}
	run := cell(map[gvl.State]float32{gvl.Running: 5})
	half := cell(map[gvl.State]float32{gvl.IO: 5, gvl.Waiting: 4})
	x.cells = append(x.cells, run, run, run, [gvl.NumStates]float32{}, half, half, cell(map[gvl.State]float32{gvl.Sleeping: 100, gvl.Running: 1}), run)
	want := fmt.Sprintf("b3.G%c2jb", cellMixes[int(gvl.Waiting)*cellShares+5])
	if got := x.text(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if len(cellMixes) < int(gvl.NumStates)*cellShares || strings.ContainsAny(cellMixes, `0123456789.&<>"'\`) {
		t.Error("the characters of mixed cells are too few, or stand for something else")
	}
}

// TestIncidentIsBounded: a page about ten minutes of 50 threads, whose stacks always change, has at most 3 MB. The
// memory of the Incident is bounded, too.
func TestIncidentIsBounded(t *testing.T) {
	d := sampler.NewDictionary()
	const threads, seconds, rate = 50, 600, 10
	p := sampler.Process{PID: 7, Title: "puma", Era: sampler.EraSched, LockRate: rate, StackRate: rate, RubyVersion: "3.4.1"}
	n := NewIncident(p, d, nil)
	var frames []sampler.FrameID
	for i := range 4000 {
		frames = append(frames, d.InternFrame(sampler.Frame{Label: fmt.Sprintf("Application::Module%d#method_number_%d", i%97, i), Path: fmt.Sprintf("app/models/file_%d.rb", i/8),
			AbsolutePath: fmt.Sprintf("/srv/application/current/app/models/file_%d.rb", i/8), Line: int32(i%300 + 1), FirstLine: int32(i % 300), Origin: sampler.OriginApp}))
	}
	random := uint64(1)
	next := func(n int) int {
		random = random*6364136223846793005 + 1442695040888963407
		return int(random >> 33 % uint64(n))
	}
	s := &sampler.Sample{Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1}}}
	for i := range threads {
		id := sampler.ThreadID(i + 1)
		d.SetThread(sampler.ThreadInfo{ID: id, Name: fmt.Sprintf("puma srv tp %03d", i), HasName: true, TID: int32(100 + i)})
		s.Threads = append(s.Threads, sampler.Thread{ID: id, Ractor: 1, TID: int32(100 + i), Quality: sampler.StackFresh, Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1}})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for tick := range seconds * rate {
		s.TimeNS = 1e9 + int64(tick)*1e9/rate
		owner := next(threads)
		s.Ractors[0].OwnerStart, s.Ractors[0].OwnerEnd = sampler.ThreadID(owner+1), sampler.ThreadID(owner+1)
		s.Ractors[0].Queue = s.Ractors[0].Queue[:0]
		for i := range s.Threads {
			th := &s.Threads[i]
			th.Bits, th.Status, th.Blocked = sampler.BitBlockingRegion, sampler.Stopped, sampler.Blocked{FD: -1}
			th.Kernel = sampler.Kernel{FD: -1, StateAtNS: s.TimeNS, Syscall: "read"}
			switch next(4) {
			case 0:
				th.Bits, th.Status = sampler.BitQueued, sampler.Runnable
				s.Ractors[0].Queue = append(s.Ractors[0].Queue, th.ID)
			case 1:
				th.Blocked.Kind = sampler.BlockSleep
			}
			if i == owner {
				th.Bits, th.Status, th.Blocked = sampler.BitLinked, sampler.Runnable, sampler.Blocked{FD: -1}
			}
			stack := sampler.StackID(0)
			for depth := range 12 {
				stack = d.InternStack(stack, frames[(depth*331+next(1+depth/3))%len(frames)])
			}
			th.Stack = stack
		}
		s.Ractors[0].Waiting = int32(len(s.Ractors[0].Queue))
		n.Feed(s)
	}
	n.Finish()
	runtime.GC()
	runtime.ReadMemStats(&after)
	page := incidentPage(t, n)
	// includes the names, which take at most MaxDictionaryBytes
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("page of %d bytes, %d columns of %d threads, %d slices, %d weights, %d dumps; %d MB of memory", len(page), len(n.lanes.columns), len(n.lanes.threads), len(n.weights.slices),
		n.weights.entries, len(n.dumps.list), grown>>20)
	if len(page) > 3_000_000 {
		t.Errorf("a page of %d bytes", len(page))
	}
	if grown > sampler.MaxDictionaryBytes+100<<20 {
		t.Errorf("%d MB are kept", grown>>20)
	}
	data := exporttest.PageData(t, page)
	if n := len(data["threads"].([]any)); n != threads {
		t.Errorf("%d threads", n)
	}
	if !strings.Contains(fmt.Sprint(data["limits"]), "cut") && !strings.Contains(fmt.Sprint(data["limits"]), "left out") {
		t.Errorf("what is left out is not said: %v", data["limits"])
	}
	runtime.KeepAlive(n)
}

// hostileIncident is an incident in which every name is the given name.
func hostileIncident(name string) *Incident {
	d := sampler.NewDictionary()
	p := sampler.Process{PID: 7, Title: name, RubyDescription: name, Era: sampler.EraSched, LockRate: 100, StackRate: 100, LayoutNote: name, PriorityNote: name}
	n := NewIncident(p, d, nil)
	d.SetThread(sampler.ThreadInfo{ID: 1, Name: name, HasName: true, Ractor: 1, TID: 7})
	d.SetThread(sampler.ThreadInfo{ID: 2, Name: name, HasName: true, Ractor: 1, TID: 8})
	stack := d.InternStack(0, d.InternFrame(sampler.Frame{Label: name, Name: name, Path: name, AbsolutePath: name, Line: 3, Origin: sampler.OriginGem, Gem: name}))
	work := sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: name, SinceNS: 1e9, BeforeNS: 9e8, Values: name}
	serving := sampler.Serving{Work: d.InternWork(work), Statement: d.InternText(name), Exception: d.InternText(name)}
	peer := d.InternPeer(sampler.Peer{Kind: sampler.PeerUnix, Path: name, Remote: name, Service: name})
	s := &sampler.Sample{Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: 1, OwnerEnd: 1, Queue: []sampler.ThreadID{2}, Waiting: 1}}}
	for i := range 2 {
		s.Threads = append(s.Threads, sampler.Thread{ID: sampler.ThreadID(i + 1), Ractor: 1, TID: int32(7 + i), Stack: stack, Quality: sampler.StackFresh, Serving: serving,
			Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: 3, Peer: peer}})
	}
	s.Threads[1].Bits = sampler.BitQueued
	for i := range 1200 {
		s.TimeNS = 1e9 + int64(i)*1e7
		n.Feed(s)
	}
	n.Notes = []sampler.Note{{AtNS: 2e9, Text: name}}
	return n
}

// TestHostileNamesOnPage: no text from the target may become markup on the page.
func TestHostileNamesOnPage(t *testing.T) {
	for _, name := range []string{exporttest.HostileName, `</script><script>alert(1)</script>`, `<!--<script>`, `"><img src=x onerror=alert(1)>`, "]]>", "\xff\xfe", "&lt;b&gt;", ""} {
		page := incidentPage(t, hostileIncident(name))
		exporttest.CheckHarmless(t, page)
		if name == exporttest.HostileName && !bytes.Contains(page, []byte("gnp.exe")) {
			t.Error("the name is missing")
		}
	}
}

// FuzzHTMLNames: no name may become markup, in whichever part of the page it appears.
func FuzzHTMLNames(f *testing.F) {
	for _, name := range []string{"a", exporttest.HostileName, `</script>`, "<!--<script", "\u2028", "]]>", "\x00", strings.Repeat("é", 5000)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) { exporttest.CheckHarmless(t, incidentPage(t, hostileIncident(name))) })
}

// TestPageNeedsNothing: a page must load nothing from elsewhere, and its Content Security Policy must forbid the
// browser to do so.
func TestPageNeedsNothing(t *testing.T) {
	page := string(incidentPage(t, hostileIncident("x")))
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.HasPrefix(policy[1], "default-src 'none'") || strings.Contains(policy[1], "unsafe") {
		t.Errorf("policy %q", policy)
	}
	for _, word := range []string{"http:", "https:", " src=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
		if strings.Contains(page, word) {
			t.Errorf("the page has %q", word)
		}
	}
}
