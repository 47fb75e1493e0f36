package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// scene feeds samples of a made-up program to Findings, 5 ms apart. Every second sample reads all stacks.
type scene struct {
	t      *testing.T
	dict   *sampler.Dictionary
	c      *gvl.Classifier
	f      *Findings
	stream *stream.Stream
	now    int64
	tick   int
	gc     sampler.GC
	detail sampler.GCDetail
	proc   sampler.Proc
	self   sampler.Self
	// serving has the requests for which threads work.
	serving map[sampler.ThreadID]sampler.Serving
	// fibers are the fibers that wait.
	fibers *sampler.Fibers
	// queues has the connection pools of Active Record.
	queues *sampler.Queues
}

const sceneTick = 5 * gvltest.MS

func newScene(t *testing.T) *scene {
	p := gvltest.ProcOf(sampler.EraSched)
	p.AttachedNS = gvltest.Base - 60_000*gvltest.MS
	dict := sampler.NewDictionary()
	s := &scene{t: t, dict: dict, c: gvl.NewClassifier(p, dict), now: gvltest.Base}
	s.watch(p, nil)
	return s
}

// watch gives the scene a new stream of the target p, and new findings by the rules r.
func (s *scene) watch(p sampler.Process, r *Rules) {
	s.stream = stream.New(p)
	s.f = New(s.stream, p, s.dict, account.NewBlame(s.stream, s.dict), account.NewRequests(s.stream, s.dict, account.MaxBlameWindowNS), r)
}

func (s *scene) named(id sampler.ThreadID, name string, main bool) {
	s.dict.SetThread(sampler.ThreadInfo{ID: id, Name: name, HasName: name != "", Main: main, Ractor: 1})
}

// stack returns a stack with the given frames, innermost first. "c:" marks C functions.
func (s *scene) stack(labels ...string) sampler.StackID {
	var ids []sampler.FrameID
	for _, l := range labels {
		f := sampler.Frame{Path: "app.rb", Line: 10}
		f.Label, f.C = strings.TrimPrefix(l, "c:"), strings.HasPrefix(l, "c:")
		ids = append(ids, s.dict.InternFrame(f))
	}
	return s.dict.InternStackOf(ids)
}

func (s *scene) at(th sampler.Thread, stack sampler.StackID) sampler.Thread {
	th.Stack, th.Quality = stack, sampler.StackFresh
	return th
}

// play feeds samples for d ns. The function gen is called for each sample with its number. It returns the thread that
// holds the GVL, and all threads.
func (s *scene) play(d int64, gen func(i int) (sampler.ThreadID, []sampler.Thread)) {
	for end := s.now + d; s.now < end; {
		s.now += sceneTick
		s.tick++
		owner, threads := gen(s.tick)
		x := gvltest.SampleAt(s.now, owner, threads...)
		x.GC, x.Proc, x.Self, x.Fibers = s.gc, s.proc, s.self, s.fibers
		x.GC.Valid, x.Queues = true, s.queues
		if x.GCDetail = s.detail; s.detail != (sampler.GCDetail{}) && s.tick%20 == 0 {
			s.detail.AtNS = s.now
		}
		for i := range x.Threads {
			x.Threads[i].Serving = s.serving[x.Threads[i].ID]
		}
		if s.tick%2 == 0 {
			x.Depth = sampler.LockTick
		}
		s.stream.Feed(x, s.c.Classify(x))
	}
}

func (s *scene) ids() []string {
	var out []string
	for _, f := range s.f.Current() {
		out = append(out, f.ID)
	}
	return out
}

// want checks that exactly the findings in ids are active, and that the text of the first one has the given words.
func (s *scene) want(what string, ids []string, words ...string) {
	s.t.Helper()
	got := s.f.Current()
	if !slices.Equal(s.ids(), ids) {
		s.t.Errorf("%s: %v, want %v: %v", what, s.ids(), ids, got)
		return
	}
	for _, w := range words {
		if !strings.Contains(got[0].String(), w) {
			s.t.Errorf("%s: %q does not say %q", what, got[0], w)
		}
	}
	for _, f := range got {
		if f.Title == "" || f.Text == "" || f.Next == "" || f.SinceNS == 0 {
			s.t.Errorf("%s: incomplete: %+v", what, f)
		}
	}
}

// calm plays a healthy program: one thread runs a little, the others read, wait for work and sleep.
func (s *scene) calm(d int64) {
	run, park := s.stack("Work#step"), s.stack("c:Thread::Queue#pop", "Pool#loop")
	s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
		one := s.at(gvltest.Answered(gvltest.Released(1), s.now, "read", 3, 0), s.stack("c:IO#read", "Work#fetch"))
		owner := sampler.ThreadID(0)
		if i%5 == 0 {
			one, owner = s.at(gvltest.Holder(1), run), 1
		}
		return owner, []sampler.Thread{
			one, s.at(gvltest.Asleep(2, sampler.StoppedForever, sampler.BlockQueue), park),
			s.at(gvltest.Asleep(3, sampler.Stopped, sampler.BlockSleep), s.stack("c:Kernel#sleep")),
		}
	})
}

func TestNoFindingWhenNothingIsWrong(t *testing.T) {
	s := newScene(t)
	s.calm(90 * gvltest.Sec)
	s.want("calm", nil)
	// There must be no finding if a single thread computes all the time, because it delays no other thread.
	s = newScene(t)
	st := []sampler.StackID{s.stack("Batch#a"), s.stack("Batch#b")}
	s.play(40*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), st[i%2]), gvltest.Asleep(2, sampler.StoppedForever, sampler.BlockJoin)}
	})
	s.want("batch", nil)
	// Two threads compute and share the GVL fairly. The GVL is always held, but neither thread takes too much of it. So
	// no finding may say that a thread hogs it or is stuck.
	s = newScene(t)
	s.play(20*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		a, b := s.at(gvltest.Holder(1), st[i%2]), s.at(gvltest.Queued(2), st[i%2])
		if i/20%2 == 0 {
			a, b = s.at(gvltest.Queued(1), st[i%2]), s.at(gvltest.Holder(2), st[i%2])
			return 2, []sampler.Thread{a, b}
		}
		return 1, []sampler.Thread{a, b}
	})
	for _, id := range s.ids() {
		if id == "gvl_hog" || id == "gvl_stuck" {
			t.Errorf("fair sharing: %v", s.f.Current())
		}
	}
}

// TestOneLongTurnMakesNoHog: in a server with nothing to do, a thread lacks a CPU while it holds the GVL, so its hold
// takes long. Meanwhile, four other threads wait for the GVL, which they need only to check the time. The finding must
// not call the holder a hog of the GVL.
func TestOneLongTurnMakesNoHog(t *testing.T) {
	s := newScene(t)
	beat, look := s.stack("c:BasicSocket#__write_nonblock", "Redis::Client#io"), s.stack("Poller#wait")
	s.play(12*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		long := i%500 < 24 // 120 ms in 2.5 s
		list := []sampler.Thread{s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep), beat)}
		if long {
			list[0] = s.at(gvltest.Holder(1), beat)
		}
		for id := sampler.ThreadID(2); id < 6; id++ {
			th := gvltest.Asleep(id, sampler.Stopped, sampler.BlockSleep)
			if long {
				th = gvltest.Queued(id)
			}
			list = append(list, s.at(th, look))
		}
		if long {
			return 1, list
		}
		return 0, list
	})
	if slices.Contains(s.ids(), "gvl_hog") {
		t.Error(s.f.Current())
	}
}

// turns plays a GVL that is always held. A thread that hogs it holds it for hogTicks, and then one of n other threads
// holds it for one tick. This repeats.
func (s *scene) turns(d int64, n, hogTicks int) {
	hog := []sampler.StackID{s.stack("c:JSON.generate", "Reports#build"), s.stack("c:JSON.generate", "Reports#build", "x")}
	small := s.stack("Server#handle")
	s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
		k := i % (hogTicks + 1)
		owner := sampler.ThreadID(1)
		if k == hogTicks {
			owner = sampler.ThreadID(2 + i/(hogTicks+1)%n)
		}
		var list []sampler.Thread
		for id := sampler.ThreadID(1); int(id) <= n+1; id++ {
			st := small
			if id == 1 {
				st = hog[i%2]
			}
			if id == owner {
				list = append(list, s.at(gvltest.Holder(id), st))
			} else {
				list = append(list, s.at(gvltest.Queued(id), st))
			}
		}
		return owner, list
	})
}

func TestSaturatedAndHog(t *testing.T) {
	s := newScene(t)
	s.named(1, "worker-3", false)
	s.turns(2*gvltest.Sec, 6, 19)
	s.want("too early", nil)
	s.turns(10*gvltest.Sec, 6, 19)
	s.want("hog", []string{"gvl_hog", "gvl_saturated"}, "Reports#build → JSON.generate (worker-3, app.rb:10)", "9")
	for _, f := range s.f.Current() {
		if f.ID == "gvl_saturated" && (f.Severity != SeverityCrit || !strings.HasPrefix(f.Text, "held 100 %, 6 threads wait")) {
			t.Errorf("%v %s", f.Severity, f)
		}
	}
	s.calm(3 * gvltest.Sec)
	if len(s.ids()) == 0 {
		t.Error("cleared before the window had forgotten")
	}
	s.calm(20 * gvltest.Sec)
	s.want("calm again", nil)
}

// TestHandedOn: while the GVL passes from one thread to the next, no thread holds it. So the GVL can be saturated
// although it is held for only 80 % of the time. It is saturated only if threads lose most of their time to waits for
// it.
func TestHandedOn(t *testing.T) {
	for _, c := range []struct {
		name       string
		held, of   int // numbers of ticks: those with a holder (held), and all (of)
		wait, read sampler.ThreadID
		want       bool
	}{
		{"most of the time, held 80 %", 4, 5, 4, 1, true},
		{"most of the time, held 60 %", 3, 5, 4, 1, false},
		{"a third of the time, held 80 %", 4, 5, 2, 3, false},
		{"a third of the time, held 90 %", 9, 10, 2, 3, true},
	} {
		s := newScene(t)
		work := []sampler.StackID{s.stack("Work#a"), s.stack("Work#b"), s.stack("Work#c")}
		s.play(14*gvltest.Sec, func(i int) (owner sampler.ThreadID, list []sampler.Thread) {
			others := 1 + c.wait
			if i%c.of < c.held {
				owner = sampler.ThreadID(1 + i%int(others))
			}
			for id := sampler.ThreadID(1); id <= others+c.read; id++ {
				switch at := work[(i+int(id))%len(work)]; {
				case id == owner:
					list = append(list, s.at(gvltest.Holder(id), at))
				case id <= others:
					list = append(list, s.at(gvltest.Queued(id), at))
				default:
					list = append(list, s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 4, 0), at))
				}
			}
			return owner, list
		})
		if slices.Contains(s.ids(), "gvl_saturated") != c.want {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
	}
}

// TestWordsWaitForAReader: the search for the code to blame takes time. So ddtop searches only at the worst moment of a
// finding, and when a caller reads the findings. Each text that is read must still be complete.
func TestWordsWaitForAReader(t *testing.T) {
	s := newScene(t)
	s.turns(12*gvltest.Sec, 6, 19)
	s.turns(2*gvltest.Sec, 6, 15) // this is not the finding's worst moment
	untold := 0
	for i := range s.f.states {
		if s.f.states[i].last.tell != nil {
			untold++
		}
	}
	raised, current := s.f.Raised(), s.f.Current()
	if untold == 0 || len(raised) != 2 || len(current) != 2 {
		t.Fatalf("%d without words, %v raised, %v now", untold, raised, current)
	}
	for i, f := range []Finding{raised[0], raised[1], current[0], current[1]} {
		if strings.Count(f.Text, "Reports#build → JSON.generate") != 1 {
			t.Errorf("%d: %s", i, f)
		}
	}
	if again := s.f.Current(); again[0].Text != current[0].Text || again[1].Text != current[1].Text {
		t.Errorf("read again: %v", again)
	}
}

func TestStuck(t *testing.T) {
	// One thread runs for 400 ms while others wait, again and again.
	s := newScene(t)
	s.calm(3 * gvltest.Sec)
	s.turns(8*gvltest.Sec, 3, 79)
	if !slices.Contains(s.ids(), "gvl_stuck") || slices.Contains(s.ids(), "gvl_hog") {
		t.Errorf("long turns: %v", s.f.Current())
	}
	if f := s.f.Current()[0]; f.Severity != SeverityCrit || f.Threads[0] != 1 || !strings.Contains(f.Text, "39") {
		t.Errorf("%+v", f)
	}
	if f := s.f.Current()[0]; !strings.Contains(f.Next, "C function") {
		t.Errorf("in a C function: %+v", f)
	}
	// The same happens in Ruby code. The finding must name no C function.
	s = newScene(t)
	power := s.stack("Keys#power", "Keys#sign")
	s.play(5*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), power), gvltest.Queued(2)}
	})
	if f := s.f.Current()[0]; f.ID != "gvl_stuck" || strings.Contains(f.Next, "C function") || !strings.Contains(f.Next, "smaller parts") {
		t.Errorf("in Ruby: %+v", f)
	}
	// If the stack could not be read, no function is named.
	s = newScene(t)
	s.play(5*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{gvltest.Holder(1), gvltest.Queued(2)}
	})
	if f := s.f.Current()[0]; f.ID != "gvl_stuck" || strings.Contains(f.Next, "this C function") || !strings.Contains(f.Next, "look at its stack") {
		t.Errorf("no stack: %+v", f)
	}
	// The holder of the GVL sleeps in the kernel, and another thread waits. There must be a finding.
	s = newScene(t)
	keep := s.stack("c:Fiddle::Function#call", "CardTerminal#settle")
	s.play(5*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		if i%40 < 20 {
			return 1, []sampler.Thread{s.at(gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), s.now, "poll", -1, 0)), keep), gvltest.Queued(2)}
		}
		return 0, []sampler.Thread{s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep), keep), gvltest.Asleep(2, sampler.Stopped, sampler.BlockSleep)}
	})
	s.want("stalled", []string{"gvl_stuck"}, "CardTerminal#settle → Fiddle::Function#call", "slept in the kernel", "1 thread waiting")
	// The holder sleeps in the same way, but no thread waits for the GVL. This does no harm, so there is no finding.
	s = newScene(t)
	s.play(5*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{s.at(gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), s.now, "poll", -1, 0)), keep)}
	})
	s.want("stalled alone", nil)
}

func TestGarbageCollection(t *testing.T) {
	s := newScene(t)
	build := s.stack("c:Array#map", "Importer#import")
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.gc.During = i%4 == 0
		if s.gc.During {
			s.gc.Count, s.gc.MinorCount = s.gc.Count+1, s.gc.MinorCount+1
		}
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), build)}
	})
	s.want("pressure", []string{"gc_pressure"}, "25 % of the time", "Importer#import → Array#map", "minor")
	// A server with little load works for 12 % of the time. One full collection takes a quarter of this work, which is
	// too little for a finding.
	s = newScene(t)
	s.play(10*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.gc.During = i%1000 < 30
		if i%1000 < 120 {
			return 1, []sampler.Thread{s.at(gvltest.Holder(1), build)}
		}
		return 0, []sampler.Thread{s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep), build)}
	})
	s.want("one collection of a quiet server", nil)
	// A program collects garbage for 4.5 s while it starts. After that it is calm, or it goes on collecting.
	for _, c := range []struct {
		boot, after int64
		want        []string
	}{{4500 * gvltest.MS, 7 * gvltest.Sec, nil}, {22 * gvltest.Sec, 0, []string{"gc_pressure"}}} {
		s = newScene(t)
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS = gvltest.Base
		s.watch(p, nil)
		s.play(c.boot, func(i int) (sampler.ThreadID, []sampler.Thread) {
			s.gc.During = i%3 == 0
			return 1, []sampler.Thread{s.at(gvltest.Holder(1), build)}
		})
		s.gc.During = false
		if c.after > 0 {
			s.calm(c.after)
		}
		if got := slices.Contains(s.ids(), "gc_pressure"); got != (c.want != nil) {
			t.Errorf("collected for %s from the start on: %v", units.ProseDuration(c.boot), s.f.Current())
		}
	}
	s = newScene(t)
	s.calm(5 * gvltest.Sec)
	s.play(1300*gvltest.MS, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.gc.During = true
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), build)}
	})
	s.gc.During = false
	s.calm(1 * gvltest.Sec)
	if !slices.Contains(s.ids(), "gc_pause") {
		t.Errorf("pause: %v", s.f.Current())
	}
	if slices.Contains(s.ids(), "gvl_stuck") {
		t.Error("the collector's time was taken for the thread's")
	}
}

func TestStarved(t *testing.T) {
	s := newScene(t)
	work := []sampler.StackID{s.stack("Work#a"), s.stack("Work#b")}
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		th := s.at(gvltest.Holder(1), work[i%2])
		th.Kernel.CPUAtNS = s.now
		th.Kernel.CPUNS = (s.now - gvltest.Base) * 6 / 10
		th.Kernel.RunDelayNS = (s.now - gvltest.Base) * 4 / 10
		return 1, []sampler.Thread{th}
	})
	s.want("run delay", []string{"cpu_starved"}, "40 %")
	// The finding shows ddtop's own share of the CPU. If this share is large, the advice about ddtop comes first.
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.self.CPUNS = (s.now - gvltest.Base) * 16 / 100
		th := s.at(gvltest.Holder(1), work[i%2])
		th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, (s.now-gvltest.Base)*6/10, (s.now-gvltest.Base)*4/10
		return 1, []sampler.Thread{th}
	})
	s.want("ddtop's own part", []string{"cpu_starved"}, "40 %", "; ddtop itself took 16 % of a CPU")
	if next := s.f.Current()[0].Next; !strings.HasPrefix(next, "let ddtop take less") {
		t.Errorf("what to do: %s", next)
	}
	// A thread's counters show a short hold only if the thread lost its CPU during the hold. Here this happens in one
	// hold in six, and the thread then had no CPU for half of the time. In all other holds, the thread always had a
	// CPU.
	s = newScene(t)
	var readAt, cpu, delay int64
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		id := sampler.ThreadID(1 + i/10%6)
		th := s.at(gvltest.Holder(id), work[i%2])
		if id == 1 {
			if i%10 == 0 || i%10 == 9 {
				readAt = s.now
			}
			if i%10 == 9 {
				cpu, delay = cpu+20e6, delay+25e6
			}
			th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = readAt, cpu, delay
		}
		return id, []sampler.Thread{th}
	})
	if slices.Contains(s.ids(), "cpu_starved") {
		t.Errorf("short turns: %v", s.f.Current())
	}
	s = newScene(t)
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.proc = sampler.Proc{AtNS: s.now, Periods: int64(i), ThrottledPeriods: int64(i * 6 / 10), ThrottledNS: (s.now - gvltest.Base) / 3}
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), work[i%2])}
	})
	s.want("throttled", []string{"cpu_starved"}, "throttled in 60 %")
	s = newScene(t)
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.proc = sampler.Proc{AtNS: s.now, MajorFaults: int64(i)}
		th := s.at(gvltest.Holder(1), work[i%2])
		if i%10 == 0 {
			th = gvltest.Rechecked(gvltest.Answered(th, s.now, sampler.SyscallNone, -1, 0))
		}
		return 1, []sampler.Thread{th}
	})
	s.want("memory", []string{"memory_stall"}, "200 major page faults/s")
	for _, c := range []struct {
		name          string
		source        sampler.PressureSource
		share, faults float64 // share is a part of the time; faults is a number per second
		want          []string
		words         string
	}{
		{"cgroup's pressure", sampler.PressureCgroup, .12, 0, []string{"memory_stall"}, "all tasks of its cgroup that had work stood still for lack of memory 12 %"},
		{"a little of it", sampler.PressureCgroup, .03, 0, nil, ""},
		{"machine's pressure", sampler.PressureMachine, .12, 20, []string{"memory_stall"}, "all tasks of the machine"},
		{"machine's pressure, another process's", sampler.PressureMachine, .12, 0, nil, ""},
		{"not known", sampler.PressureNone, .5, 20, nil, ""},
	} {
		s = newScene(t)
		s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			past := float64(s.now - gvltest.Base)
			s.proc = sampler.Proc{AtNS: s.now, MajorFaults: int64(c.faults * past / gvltest.Sec), SwapBytes: 7 << 20,
				Pressure: sampler.Pressure{Source: c.source, MemoryFullNS: int64(c.share * past)}}
			return 1, []sampler.Thread{s.at(gvltest.Holder(1), work[i%2])}
		})
		s.want(c.name, c.want, strings.Fields(c.words)...)
		if f := s.f.Current(); len(f) > 0 && !strings.Contains(f[0].Text, "7 MiB swapped out") {
			t.Errorf("%s: %s", c.name, f[0].Text)
		}
	}
}

func TestLocks(t *testing.T) {
	lock := waitsForLock
	s := newScene(t)
	s.named(1, "worker-1", false)
	s.named(2, "worker-2", false)
	dead := func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{lock(1, 2, 0xa8), lock(2, 1, 0xc0), lock(3, 1, 0xc0), gvltest.Asleep(4, 1, sampler.BlockSleep)}
	}
	s.play(500*gvltest.MS, dead)
	s.want("too early", nil)
	s.play(500*gvltest.MS, dead)
	s.want("deadlock", []string{"deadlock"}, "worker-1 waits for Mutex 0xa8 held by worker-2, worker-2 waits for Mutex 0xc0 held by worker-1",
		"1 more stuck")

	if next := s.f.Current()[0].Next; !strings.Contains(next, "no time limit was seen around it") {
		t.Errorf("what ends it: %s", next)
	}

	s = newScene(t)
	s.named(2, "worker-2", false)
	s.play(gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		limited := s.at(lock(2, 1, 0xc0), s.stack("c:Thread::Mutex#lock", "Cart#update", "block in Timeout.timeout", "Timeout.timeout"))
		return 0, []sampler.Thread{lock(1, 2, 0xa8), limited}
	})
	s.want("deadlock within a time limit", []string{"deadlock"})
	if next := s.f.Current()[0].Next; !strings.Contains(next, "the time limit (Timeout) around worker-2 will end it") {
		t.Errorf("what ends it: %s", next)
	}

	s = newScene(t)
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		list := []sampler.Thread{s.at(gvltest.Answered(gvltest.Released(1), s.now, "read", 5, 0), s.stack("c:IO#read", "Cache#fetch"))}
		for id := sampler.ThreadID(2); id < 8; id++ {
			list = append(list, lock(id, 1, 0xa8))
		}
		// A different thread sleeps in each tick, so no single thread is stuck.
		list[1+i%6] = s.at(gvltest.Asleep(sampler.ThreadID(2+i%6), sampler.Stopped, sampler.BlockSleep), 0)
		return 0, list
	})
	s.want("convoy", []string{"lock_convoy"}, "5 threads wait for Mutex 0xa8", "held by Cache#fetch → IO#read (thread 1, app.rb:10)", "waiting for read")

	// A wait with a deadline is not a deadlock.
	timed := []gvl.ThreadState{
		{Thread: 1, State: gvl.Lock, Detail: gvl.Detail{Holder: 2, DeadlineNS: 1}}, {Thread: 2, State: gvl.Lock, Detail: gvl.Detail{Holder: 1}},
	}
	if c := account.Deadlocks(timed); len(c) != 0 {
		t.Errorf("timed: %v", c)
	}
	mixed := []gvl.ThreadState{
		{Thread: 5, State: gvl.Lock, Detail: gvl.Detail{Holder: 4}}, {Thread: 3, State: gvl.Parked, Detail: gvl.Detail{Joined: 5}},
		{Thread: 4, State: gvl.Lock, Detail: gvl.Detail{Holder: 3}}, {Thread: 6, State: gvl.Lock, Detail: gvl.Detail{Holder: 5}},
		// A thread that seems to wait for itself is no deadlock: Ruby was changing its state while ddtop read it.
		{Thread: 8, State: gvl.Lock, Detail: gvl.Detail{Holder: 8}},
	}
	if c := account.Deadlocks(mixed); len(c) != 1 || !slices.Equal(c[0], []sampler.ThreadID{3, 5, 4}) {
		t.Errorf("mixed: %v", c)
	}
}

func TestThreads(t *testing.T) {
	s := newScene(t)
	peer := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.9:443", Local: "10.0.0.1", Service: "HTTPS"})
	s.calm(5 * gvltest.Sec)
	wait := s.stack("c:IO#read", "Api#call")
	s.play(20*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{s.at(gvltest.Answered(gvltest.Released(1), s.now, "read", 9, peer), wait), gvltest.Asleep(2, 1, sampler.BlockSleep)}
	})
	if !slices.Contains(s.ids(), "stuck_thread") {
		t.Errorf("stuck: %v", s.f.Current())
	}

	s = newScene(t)
	start := s.stack("c:Kernel#sleep", "Foo#listen", "block in Foo#connect")
	n := 0
	s.play(60*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		if i%100 == 0 {
			n++
		}
		list := []sampler.Thread{gvltest.Asleep(1, 1, sampler.BlockSleep)}
		for id := range n {
			list = append(list, s.at(gvltest.Asleep(sampler.ThreadID(id+2), 1, sampler.BlockSleep), start))
		}
		return 0, list
	})
	s.want("leak", []string{"thread_leak"}, "Foo#connect")

	s = newScene(t)
	rx := s.stack("c:String#match?", "Filter#run")
	s.play(3*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), rx)}
	})
	s.want("regex", []string{"regex_runaway"}, "app.rb:10")

	s = newScene(t)
	puma := func(inner ...string) sampler.StackID {
		return s.stack(append(inner, "block in Puma::ThreadPool#spawn_thread")...)
	}
	s.play(45*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		var list []sampler.Thread
		for id := sampler.ThreadID(1); id < 5; id++ {
			list = append(list, s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 4, 0), puma("c:IO#read", "App#call", "x", "y", "z"[:int(id)%2+0]+"q")))
		}
		list[i%4] = s.at(gvltest.Holder(list[i%4].ID), puma("App#work", "a", "b", "c"))
		return list[i%4].ID, list
	})
	s.want("busy", []string{"all_busy", "io_busy"}, "4 Puma threads are busy 100 %")
	s = newScene(t)
	s.play(45*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		idle := puma("c:Thread::ConditionVariable#wait")
		return 0, []sampler.Thread{s.at(gvltest.Asleep(1, 2, sampler.BlockConditionVariable), idle), s.at(gvltest.Asleep(2, 2, sampler.BlockConditionVariable), idle)}
	})
	s.want("idle pool", nil)
}

func TestEveryRuleHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules {
		if r.id == "" || seen[r.id] || r.eval == nil {
			t.Errorf("rule %q", r.id)
		}
		seen[r.id] = true
	}
	for _, r := range rules {
		for _, h := range r.hiddenBy {
			if !seen[h] {
				t.Errorf("%s is hidden by %s, which does not exist", r.id, h)
			}
		}
	}
}
