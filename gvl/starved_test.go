package gvl

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestCollectorWithoutCPU: a few collections that take long because they get a CPU for a tenth of their time are the machine's
// trouble; as many that compute all the time are the program's.
func TestCollectorWithoutCPU(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks int64 // percent of a tick of the holder without a CPU
		want  string
	}{{"on a full machine", 90, "cpu_starved"}, {"on an idle one", 0, "gc_pressure"}} {
		s := newScene(t)
		work := s.stack("Work#a")
		var cpu, delay int64
		s.play(15*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			// A fifth of the time the thread holds the GVL, three quarters of that in the collector.
			held := i%20 < 4
			s.gc.During = i%20 < 3
			if !held {
				return 0, []sampler.Thread{s.at(asleep(1, sampler.Stopped, sampler.BlockSleep), work)}
			}
			cpu, delay = cpu+sceneTick*(100-c.lacks)/100, delay+sceneTick*c.lacks/100
			th := s.at(holder(1), work)
			th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, cpu, delay
			return 1, []sampler.Thread{th}
		})
		s.want(c.name, []string{c.want})
	}
}

// TestMatchWithoutCPU: a thread that holds the GVL at one match and gets a CPU for a tenth of the time is not in a runaway one.
func TestMatchWithoutCPU(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks int64
		want  []string
	}{{"on a full machine", 90, []string{"cpu_starved"}}, {"on an idle one", 0, []string{"regex_runaway"}}} {
		s := newScene(t)
		rx := s.stack("c:String#match?", "Filter#run")
		var cpu, delay int64
		s.play(8*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			cpu, delay = cpu+sceneTick*(100-c.lacks)/100, delay+sceneTick*c.lacks/100
			th := s.at(holder(1), rx)
			th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, cpu, delay
			return 1, []sampler.Thread{th}
		})
		s.want(c.name, c.want)
	}
}

// TestPauseWithoutCPU: a collection that takes two seconds because it gets a CPU for a tenth of the time is not a long one.
func TestPauseWithoutCPU(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks int64
		long  bool
	}{{"on a full machine", 90, false}, {"on an idle one", 0, true}} {
		s := newScene(t)
		work := s.stack("Work#a")
		var cpu int64
		s.play(9*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			s.gc.During = s.now > base+6*sec && s.now < base+8*sec
			cpu += sceneTick * (100 - c.lacks) / 100
			th := s.at(holder(1), work)
			th.Kernel.CPUAtNS, th.Kernel.CPUNS = s.now, cpu
			return 1, []sampler.Thread{th}
		})
		if got := slices.Contains(s.ids(), "gc_pause"); got != c.long {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
	}
}

// TestFairTurnsWithoutCPU: of three threads that compute alike, one had the longer turns, because it lacked a CPU in them.
func TestFairTurnsWithoutCPU(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks [3]int64
		hog   bool
	}{{"on a full machine", [3]int64{90, 50, 50}, false}, {"on an idle one", [3]int64{0, 0, 0}, true}} {
		s := newScene(t)
		var stacks [2]sampler.StackID
		stacks[0], stacks[1] = s.stack("Init#a"), s.stack("Init#b")
		var cpu, delay [3]int64
		s.play(12*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			// Turns of 140, 30 and 30 ms.
			owner := 0
			if at := i % 40; at >= 34 {
				owner = 2
			} else if at >= 28 {
				owner = 1
			}
			cpu[owner] += sceneTick * (100 - c.lacks[owner]) / 100
			delay[owner] += sceneTick * c.lacks[owner] / 100
			var list []sampler.Thread
			for n := range 3 {
				th := queued(sampler.ThreadID(n + 1))
				if n == owner {
					th = holder(sampler.ThreadID(n + 1))
				}
				th = s.at(th, stacks[i/40%2])
				th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, cpu[n], delay[n]
				list = append(list, th)
			}
			return sampler.ThreadID(owner + 1), list
		})
		if got := slices.Contains(s.ids(), "gvl_hog"); got != c.hog {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
	}
}

// TestWorkWithoutCPU: threads that work outside the GVL and have a CPU for a tenth of that are named, though nobody holds the GVL. A
// little such work beside much waiting is not, nor is work that has its CPU.
func TestWorkWithoutCPU(t *testing.T) {
	for _, c := range []struct {
		name   string
		lacks  int64 // percent of that work
		worked int   // of 100 ticks
		want   []string
	}{
		{"on a full machine", 90, 100, []string{"cpu_starved"}},
		{"on an idle one", 0, 100, nil},
		{"half of the time", 90, 50, []string{"cpu_starved"}},
		{"rarely", 90, 5, []string{"io_busy"}},
	} {
		s := newScene(t)
		hash, ask := s.stack("c:BCrypt::Engine#hash", "User#create"), s.stack("c:IO#read", "Work#fetch")
		var cpu, delay [2]int64
		s.play(8*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for n := range 2 {
				th := s.at(answered(released(sampler.ThreadID(n+1)), s.now, "read", 3, 0), ask)
				if i%100 < c.worked {
					th = s.at(answered(released(sampler.ThreadID(n+1)), s.now, sampler.SyscallRunning, -1, 0), hash)
					cpu[n], delay[n] = cpu[n]+sceneTick*(100-c.lacks)/100, delay[n]+sceneTick*c.lacks/100
				}
				th.Kernel.CPUNS, th.Kernel.RunDelayNS = cpu[n], delay[n]
				list = append(list, th)
			}
			return 0, list
		})
		var words []string
		if slices.Contains(c.want, "cpu_starved") {
			words = []string{"threads at work outside the GVL were ready and had no CPU for ", " of that work"}
		}
		s.want(c.name, c.want, words...)
		for _, f := range s.f.Current() {
			if strings.Contains(f.Text, "the thread with the GVL") {
				t.Errorf("%s: nobody held the GVL: %q", c.name, f.Text)
			}
		}
	}
}

// TestMatchWithoutCounters: where the kernel's counters are not known, the time of a match is not said to be a CPU's.
func TestMatchWithoutCounters(t *testing.T) {
	s := newScene(t)
	rx := s.stack("c:String#match?", "Filter#run")
	s.play(4*sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{s.at(holder(1), rx)}
	})
	s.want("no counters", []string{"regex_runaway"})
	if f := s.f.Current()[0]; strings.Contains(f.Text, "CPU") {
		t.Errorf("%q", f.Text)
	}
}

// TestPauseOfSeveralRactors: while one ractor's garbage is swept the others run, so a long collection is not said to have kept
// them from it.
func TestPauseOfSeveralRactors(t *testing.T) {
	s := newScene(t)
	work := s.stack("Work#a")
	s.play(9*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.gc.During = s.now > base+6*sec && s.now < base+8*sec
		other := asleep(2, sampler.Stopped, sampler.BlockSleep)
		other.Ractor = 2
		th := s.at(holder(1), work)
		th.Kernel.CPUAtNS, th.Kernel.CPUNS = s.now, s.now-base
		return 1, []sampler.Thread{th, other}
	})
	for _, f := range s.f.Current() {
		if f.ID == "gc_pause" && !strings.Contains(f.Text, "all Ruby code") && strings.Contains(f.Text, "one took ") {
			return
		}
	}
	t.Errorf("%v", s.f.Current())
}

// TestHoldWithoutCPU: what a holder had of a CPU before its turn, since its counters were read last, is none of the turn's: one that
// lacks a CPU keeps the GVL for no time of its own.
func TestHoldWithoutCPU(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks int64
		stuck bool
	}{{"on a full machine", 90, false}, {"on an idle one", 0, true}} {
		s := newScene(t)
		work := s.stack("c:Process.clock_gettime", "Work#a")
		cpu, readNS, read := int64(sec), int64(0), int64(0)
		s.play(15*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			// Turns of 400 ms, between which it computes without the GVL and is not read, nor in the first samples of the turn.
			at := i % 100
			if at >= 80 {
				cpu += sceneTick
				th := released(1)
				th.Kernel.CPUAtNS, th.Kernel.CPUNS = readNS, read
				return 0, []sampler.Thread{s.at(th, work), s.at(asleep(2, sampler.Stopped, sampler.BlockSleep), work)}
			}
			if at == 0 {
				cpu += 200 * ms
			}
			cpu += sceneTick * (100 - c.lacks) / 100
			if at > 2 {
				readNS, read = s.now, cpu
			}
			th := s.at(holder(1), work)
			th.Kernel.CPUAtNS, th.Kernel.CPUNS = readNS, read
			return 1, []sampler.Thread{th, s.at(queued(2), work)}
		})
		if got := slices.Contains(s.ids(), "gvl_stuck"); got != c.stuck {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
	}
}
