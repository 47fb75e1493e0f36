package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// booting returns a scene of a program that has just started.
func booting(t *testing.T) *scene {
	s := newScene(t)
	p := gvltest.ProcOf(sampler.EraSched)
	p.AttachedNS = gvltest.Base
	s.watch(p, nil)
	return s
}

// starved plays a thread that holds the GVL all the time, but has a CPU for only 60 % of the time. labels are the
// frames of its stack.
func (s *scene) starved(d int64, labels ...string) {
	stack := s.stack(labels...)
	s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
		th := s.at(gvltest.Holder(1), stack)
		th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, (s.now-gvltest.Base)*6/10, (s.now-gvltest.Base)*4/10
		return 1, []sampler.Thread{th}
	})
}

// TestStartIsNoLoad: the work of a program while it starts raises no finding, neither at once nor later. If the same
// load continues after the start, it raises a finding.
func TestStartIsNoLoad(t *testing.T) {
	loading := []string{"c:Kernel#require", "<top (required)>"}
	work := []string{"Work#step"}
	for _, c := range []struct {
		name string
		play func(*scene)
		want []string
	}{
		{"short of CPU in the first seconds", func(s *scene) { s.starved(4900*gvltest.MS, work...); s.calm(9 * gvltest.Sec) }, nil},
		{"and ever since", func(s *scene) { s.starved(10*gvltest.Sec, work...) }, []string{"cpu_starved"}},
		{"a slow start, and calm", func(s *scene) { s.starved(14*gvltest.Sec, loading...); s.calm(10 * gvltest.Sec) }, nil},
		{"a slow start, going on", func(s *scene) { s.starved(20*gvltest.Sec, loading...) }, nil},
		{"a slow start, and as slow after it", func(s *scene) { s.starved(14*gvltest.Sec, loading...); s.starved(8*gvltest.Sec, work...) }, []string{"cpu_starved"}},
		{"loading for ever is not a start", func(s *scene) { s.starved(40*gvltest.Sec, loading...) }, []string{"cpu_starved"}},
		{"loading again, later", func(s *scene) { s.calm(10 * gvltest.Sec); s.starved(8*gvltest.Sec, loading...) }, []string{"cpu_starved"}},
		{"long turns in the first seconds", func(s *scene) { s.turns(4900*gvltest.MS, 3, 79); s.calm(4 * gvltest.Sec) }, nil},
	} {
		s := booting(t)
		c.play(s)
		// the rule gvl_hog also applies during a program's start
		got := slices.DeleteFunc(s.ids(), func(id string) bool { return id == "gvl_hog" })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
		for _, f := range s.f.Raised() {
			if c.want == nil && f.ID != "gvl_hog" {
				t.Errorf("%s: was raised: %v", c.name, f)
			}
		}
	}
}

// TestPoolsAreNoLeak: two kinds of threads are no leak of threads: threads that a program starts with, and the threads
// of a server's pool that grows to its full size.
func TestPoolsAreNoLeak(t *testing.T) {
	grow := func(s *scene, d int64, labels ...string) {
		stack, began := s.stack(labels...), s.now
		s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
			list := make([]sampler.Thread, 0, 64)
			for id := sampler.ThreadID(1); int64(id) <= 4+60*(s.now-began)/d; id++ {
				list = append(list, s.at(gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockQueue), stack))
			}
			return 0, list
		})
	}
	s := booting(t)
	grow(s, 4*gvltest.Sec, "c:Thread::Queue#pop", "Pool#work")
	s.play(20*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		list := make([]sampler.Thread, 0, 64)
		for id := sampler.ThreadID(1); id <= 64; id++ {
			list = append(list, gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockQueue))
		}
		return 0, list
	})
	s.want("the pool that it starts with", nil)
	s = newScene(t)
	s.calm(2 * gvltest.Sec)
	grow(s, 20*gvltest.Sec, "c:Thread::ConditionVariable#wait", "block in Puma::ThreadPool#spawn_thread")
	s.want("a server's pool", nil)
	s = newScene(t)
	s.calm(2 * gvltest.Sec)
	grow(s, 20*gvltest.Sec, "c:Thread::Queue#pop", "Client#connect")
	s.want("a leak", []string{"thread_leak"}, "Client#connect")
}
