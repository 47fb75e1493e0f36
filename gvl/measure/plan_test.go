package measure

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestPlanTogether: one worker lacks CPU, and the GVL of another worker is saturated. If each worker is judged alone,
// the first gets the advice to have fewer workers, and the second to have more processes. If they are judged together,
// their advice must not contradict.
func TestPlanTogether(t *testing.T) {
	worker := func(usedPercent, pressed int64) *Measure {
		dict := sampler.NewDictionary()
		p := sampler.Process{PID: 1, Title: "puma"}
		m := New(p, dict, nil)
		for i := range int64(200) {
			a, b := sampler.ThreadID(1+i%2), sampler.ThreadID(2-i%2)
			past := i * 100 * gvltest.MS
			x := gvltest.SampleAt(gvltest.Base+past, a, gvltest.Holder(a), gvltest.Queued(b), gvltest.Queued(3))
			x.Proc = sampler.Proc{AtNS: x.TimeNS, UserNS: past * usedPercent / 100,
				Pressure: sampler.Pressure{Source: sampler.PressureMachine, CPUSomeNS: past * pressed / 100}}
			m.Feed(x)
		}
		return m
	}
	starved, saturated := worker(50, 80), worker(100, 0)
	one, other := starved.Stat(0), saturated.Stat(0)
	next := func(s *report.Stat) (out string) {
		for _, f := range s.Findings {
			out += f.ID + ": " + f.Next + "\n"
		}
		return out
	}
	const fewer, more = "fewer workers on this machine", "other processes"
	if !strings.Contains(next(&one), fewer) || !strings.Contains(next(&other), more) {
		t.Fatalf("alone:\n%s%s", next(&one), next(&other))
	}
	PlanTogether([]*Measure{saturated, starved}, [][]report.StatFinding{other.Findings, one.Findings})
	if !strings.Contains(next(&one), fewer) || strings.Contains(next(&other), more) {
		t.Errorf("together:\n%s%s", next(&one), next(&other))
	}
}
