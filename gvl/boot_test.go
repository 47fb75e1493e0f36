package gvl

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// booting is a scene of a program that has just begun.
func booting(t *testing.T) *scene {
	s := newScene(t)
	p := procOf(sampler.EraSched)
	p.AttachedNS = base
	s.watch(p, nil)
	return s
}

// starved plays a thread that has the GVL all the time and a CPU for 60 % of it, in a stack.
func (s *scene) starved(d int64, labels ...string) {
	stack := s.stack(labels...)
	s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
		th := s.at(holder(1), stack)
		th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, (s.now-base)*6/10, (s.now-base)*4/10
		return 1, []sampler.Thread{th}
	})
}

// TestStartIsNoLoad: what a program does while it starts is not a finding then, and none afterwards.
func TestStartIsNoLoad(t *testing.T) {
	loading := []string{"c:Kernel#require", "<top (required)>"}
	work := []string{"Work#step"}
	for _, c := range []struct {
		name string
		play func(*scene)
		want []string
	}{
		{"short of CPU in the first seconds", func(s *scene) { s.starved(4900*ms, work...); s.calm(9 * sec) }, nil},
		{"and ever since", func(s *scene) { s.starved(10*sec, work...) }, []string{"cpu_starved"}},
		{"a slow start, and calm", func(s *scene) { s.starved(14*sec, loading...); s.calm(10 * sec) }, nil},
		{"a slow start, going on", func(s *scene) { s.starved(20*sec, loading...) }, nil},
		{"a slow start, and as slow after it", func(s *scene) { s.starved(14*sec, loading...); s.starved(8*sec, work...) }, []string{"cpu_starved"}},
		{"loading for ever is not a start", func(s *scene) { s.starved(40*sec, loading...) }, []string{"cpu_starved"}},
		{"loading again, later", func(s *scene) { s.calm(10 * sec); s.starved(8*sec, loading...) }, []string{"cpu_starved"}},
		{"long turns in the first seconds", func(s *scene) { s.turns(4900*ms, 3, 79); s.calm(4 * sec) }, nil},
	} {
		s := booting(t)
		c.play(s)
		got := slices.DeleteFunc(s.ids(), func(id string) bool { return id == "gvl_hog" }) // that holds while a program starts too
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
		for _, f := range s.f.raised() {
			if c.want == nil && f.ID != "gvl_hog" {
				t.Errorf("%s: was raised: %v", c.name, f)
			}
		}
	}
}

// TestPoolsAreNoLeak: threads that a program starts with, and a server's pool that grows to its size, don't pile up.
func TestPoolsAreNoLeak(t *testing.T) {
	grow := func(s *scene, d int64, labels ...string) {
		stack, began := s.stack(labels...), s.now
		s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
			list := make([]sampler.Thread, 0, 64)
			for id := sampler.ThreadID(1); int64(id) <= 4+60*(s.now-began)/d; id++ {
				list = append(list, s.at(asleep(id, sampler.StoppedForever, sampler.BlockQueue), stack))
			}
			return 0, list
		})
	}
	s := booting(t)
	grow(s, 4*sec, "c:Thread::Queue#pop", "Pool#work")
	s.play(20*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		list := make([]sampler.Thread, 0, 64)
		for id := sampler.ThreadID(1); id <= 64; id++ {
			list = append(list, asleep(id, sampler.StoppedForever, sampler.BlockQueue))
		}
		return 0, list
	})
	s.want("the pool that it starts with", nil)
	s = newScene(t)
	s.calm(2 * sec)
	grow(s, 20*sec, "c:Thread::ConditionVariable#wait", "block in Puma::ThreadPool#spawn_thread")
	s.want("a server's pool", nil)
	s = newScene(t)
	s.calm(2 * sec)
	grow(s, 20*sec, "c:Thread::Queue#pop", "Client#connect")
	s.want("a leak", []string{"thread_leak"}, "Client#connect")
}
