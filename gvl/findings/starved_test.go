package findings

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// TestStarvedAtLowRates plays only 10 samples per second. This is what ddtop's default CPU budget allows if all CPUs
// are busy. At this rate, the counters of single threads show nothing. The counters of the whole process must be enough
// to show that it holds the GVL and lacks a CPU.
func TestStarvedAtLowRates(t *testing.T) {
	const every = 100 * gvltest.MS
	for _, c := range []struct {
		name string
		// usedPercent is the process's CPU time, in percent of one CPU. pressed is the percentage of the time in which
		// tasks waited for a CPU, as the kernel reports it.
		usedPercent, pressed int64
		source               sampler.PressureSource
		want                 string
		// cpus is the machine's number of CPUs. It is zero if it was not read. may is the number of CPUs that the
		// process may use. It is zero if the process may use all.
		cpus int64
		may  int
	}{
		{"half a CPU", 50, 80, sampler.PressureMachine, "cpu_starved", 0, 0},
		{"half a CPU of two", 50, 80, sampler.PressureMachine, "cpu_starved", 2, 0},
		{"a third of its only CPU of two", 33, 80, sampler.PressureMachine, "cpu_starved", 2, 1},
		{"half of the only CPU", 50, 80, sampler.PressureMachine, "gvl_saturated", 1, 0},
		{"half a CPU, of its cgroup", 50, 80, sampler.PressureCgroup, "cpu_starved", 0, 0},
		{"a whole CPU", 100, 80, sampler.PressureMachine, "gvl_saturated", 0, 0},
		{"no task waits for a CPU", 50, 1, sampler.PressureMachine, "gvl_saturated", 0, 0},
		{"the kernel does not count pressure", 50, 0, sampler.PressureNone, "gvl_saturated", 0, 0},
		{"within what chance can do", 95, 80, sampler.PressureMachine, "gvl_saturated", 0, 0},
	} {
		s := newScene(t)
		if c.may > 0 {
			p := gvltest.ProcOf(sampler.EraSched)
			p.CPUs = c.may
			s.watch(p, nil)
		}
		work := []sampler.StackID{s.stack("Work#a"), s.stack("Work#b")}
		for i := 0; i < 200; i++ {
			s.now += every
			a, b := sampler.ThreadID(1+i%2), sampler.ThreadID(2-i%2)
			x := gvltest.SampleAt(s.now, a, s.at(gvltest.Holder(a), work[i%2]), s.at(gvltest.Queued(b), work[1-i%2]), s.at(gvltest.Queued(3), work[0]))
			past := s.now - gvltest.Base
			x.Proc = sampler.Proc{
				AtNS: s.now, UserNS: past * c.usedPercent / 100,
				Pressure: sampler.Pressure{Source: c.source, CPUSomeNS: past * c.pressed / 100},
			}
			if c.cpus > 0 {
				x.CPUUse = &sampler.CPUUse{FromNS: s.now - gvltest.Sec, AtNS: s.now, CPUs: c.cpus, OthersNS: gvltest.Sec}
			}
			s.stream.Feed(x, s.c.Classify(x))
		}
		found := s.f.Current()
		if len(found) == 0 || found[0].ID != c.want {
			t.Errorf("%s: %v, want %s first", c.name, found, c.want)
			continue
		}
		for _, f := range found {
			if own := "the process itself takes 0.5 of the 1 CPU"; f.ID == "cpu_starved" && strings.Contains(f.Text, own) != (c.cpus == 1) {
				t.Errorf("%s: %q", c.name, f.Text)
			}
			if first := strings.HasPrefix(f.Next, "give the process more CPU first"); f.ID == "gvl_saturated" && first != (c.want == "cpu_starved") {
				t.Errorf("%s: gvl_saturated advises %q", c.name, f.Next)
			}
		}
		if text := found[0].Text; c.want == "cpu_starved" {
			if !strings.Contains(text, "all threads together get only "+units.RoundPercent(float64(c.usedPercent)/100)+" of a CPU") {
				t.Errorf("%s: %q", c.name, text)
			}
			if own, _, _ := strings.Cut(text, "other processes"); strings.Contains(own, "it may use only 1 of the machine's 2 CPUs") != (c.may > 0) {
				t.Errorf("%s: %q", c.name, text)
			}
		}
	}
}
