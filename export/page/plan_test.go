package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/sampler"
)

// TestPageHasOnePlan: one worker process lacks CPU, and the GVL of another is saturated. A page of the first process
// alone advises fewer workers, and a page of the second alone advises more processes. The two pieces of advice
// contradict each other. So a page of both processes gives only the first advice.
func TestPageHasOnePlan(t *testing.T) {
	worker := func(pid int, usedPercent, pressed int64) *Incident {
		n := NewIncident(sampler.Process{PID: pid, Title: "puma"}, sampler.NewDictionary(), nil)
		for i := range int64(200) {
			a, b, past := sampler.ThreadID(1+i%2), sampler.ThreadID(2-i%2), i*100e6
			s := &sampler.Sample{TimeNS: 1e12 + past, Depth: sampler.StackTick, GC: sampler.GC{Valid: true}}
			s.Ractors = []sampler.Ractor{{ID: 1, OwnerStart: a, OwnerEnd: a, Queue: []sampler.ThreadID{b, 3}, Waiting: 2}}
			for _, id := range []sampler.ThreadID{a, b, 3} {
				th := sampler.Thread{ID: id, Ractor: 1, TID: int32(100 + id), Status: sampler.Runnable, Bits: sampler.BitQueued}
				if th.Blocked.FD, th.Kernel.FD = -1, -1; id == a {
					th.Bits = sampler.BitLinked
				}
				s.Threads = append(s.Threads, th)
			}
			s.Proc = sampler.Proc{AtNS: s.TimeNS, UserNS: past * usedPercent / 100,
				Pressure: sampler.Pressure{Source: sampler.PressureMachine, CPUSomeNS: past * pressed / 100}}
			n.Feed(s)
		}
		return n
	}
	next := func(list ...*Incident) (out string) {
		var b bytes.Buffer
		if err := WriteIncidents(&b, list); err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			return fmt.Sprint(exporttest.PageData(t, b.Bytes())["findings"])
		}
		for _, data := range exporttest.PageList(t, b.Bytes()) {
			out += fmt.Sprint(data["findings"], "\n")
		}
		return out
	}
	const fewer, more = "fewer workers on this machine", "other processes"
	if one, other := next(worker(1, 50, 80)), next(worker(2, 100, 0)); !strings.Contains(one, fewer) || !strings.Contains(other, more) {
		t.Fatalf("alone:\n%s\n%s", one, other)
	}
	if both := next(worker(1, 50, 80), worker(2, 100, 0)); !strings.Contains(both, fewer) || strings.Contains(both, more) {
		t.Errorf("together:\n%s", both)
	}
}
