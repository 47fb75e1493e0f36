package gvl

import (
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
