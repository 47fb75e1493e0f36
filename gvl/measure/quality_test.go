package measure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestLeastQuality: if a figure is based on too few samples, it is null and not a number, and the reason is reported.
// Counters do not depend on the number of samples, so they are reported at all rates.
func TestLeastQuality(t *testing.T) {
	dict := sampler.NewDictionary()
	for _, c := range []struct {
		name string
		n    int   // number of samples
		step int64 // time between two samples, in ns
		low  bool
	}{{"at 100 Hz", 200, 10 * gvltest.MS, false}, {"at 2 Hz", 20, 500 * gvltest.MS, true}} {
		m := New(sampler.Process{PID: 1, LockRate: 1000, StackRate: 100}, dict, nil)
		var lines []report.StatLine
		l := account.NewLines(m.Stream(), sampler.Process{PID: 1}, gvltest.Sec, func(line report.StatLine) { lines = append(lines, line) })
		for i := range c.n {
			now := int64(i+1) * c.step
			s := &sampler.Sample{TimeNS: now, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: 1, OwnerEnd: 1}}}
			if i%4 == 0 {
				s.Depth = sampler.StackTick
			}
			s.Self.Lowered = true
			s.Threads = []sampler.Thread{gvltest.Holder(1), gvltest.Holder(2)}
			s.GC = sampler.GC{Valid: true, Count: uint64(i)}
			s.Proc = sampler.Proc{AtNS: now, UserNS: now, MajorFaults: int64(i)}
			for j := range s.Threads {
				s.Threads[j].TID = int32(j + 1)
				k := &s.Threads[j].Kernel
				k.CPUAtNS, k.CPUNS = now, now/2
			}
			m.Feed(s)
		}
		m.Stream().Finish()
		l.Finish()
		for i := range lines {
			line := &lines[i]
			if text, err := json.Marshal(line); err != nil || line.HeldShare.Told() == c.low || strings.Contains(string(text), `"held_share":null`) != c.low ||
				strings.Contains(string(text), `"ns":null,"held_share"`) != c.low || *line.CPUShare != 1 {
				t.Errorf("%s, line %d: %v %s", c.name, i, err, text)
			}
		}
		s := m.Stat(0)
		text, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Quality struct{ Lacks map[string]*string }
			GVL     []struct {
				Held  *float64        `json:"held_share"`
				Waits json.RawMessage `json:"waits"`
			} `json:"gvl"`
			Threads []struct {
				NS    json.RawMessage `json:"ns"`
				CPUNS *int64          `json:"cpu_ns"`
				Waits json.RawMessage `json:"waits"`
			}
			Blame    json.RawMessage
			GC       struct{ Count, NS *int64 } `json:"gc"`
			Process  map[string]any
			Requests struct{ Endpoints json.RawMessage }
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		null := func(what string, is bool) {
			if is != c.low {
				t.Errorf("%s: %s is null: %v", c.name, what, is)
			}
		}
		for kind, why := range got.Quality.Lacks {
			if (why != nil) != c.low {
				t.Errorf("%s: %s lack something: %v", c.name, kind, why != nil)
			}
		}
		isNull := func(x json.RawMessage) bool { return string(x) == "null" }
		null("held_share", got.GVL[0].Held == nil)
		null("waits of the GVL", isNull(got.GVL[0].Waits))
		null("the states of a thread", isNull(got.Threads[0].NS))
		null("the waits of a thread", isNull(got.Threads[0].Waits))
		null("blame", isNull(got.Blame))
		null("endpoints", isNull(got.Requests.Endpoints))
		null("the time of the collector", got.GC.NS == nil)
		if got.GC.Count == nil || *got.GC.Count != int64(c.n-1) {
			t.Errorf("%s: collections: %v", c.name, got.GC.Count)
		}
		want := float64(int64(c.n-1) * c.step)
		if cpu := got.Threads[0].CPUNS; cpu == nil || float64(*cpu) != want/2 {
			t.Errorf("%s: CPU time of a thread: %v, want %v", c.name, cpu, want/2)
		}
		if cpu := got.Process["cpu_ns"]; cpu != want {
			t.Errorf("%s: CPU time of the process: %v, want %v", c.name, cpu, want)
		}
	}
}

// TestUnreadIsNull: the growth of a counter that was read only once, or never, is unknown. It must be null and not 0.
func TestUnreadIsNull(t *testing.T) {
	m := New(sampler.Process{PID: 1}, sampler.NewDictionary(), nil)
	for i := range 3 {
		s := &sampler.Sample{TimeNS: int64(i+1) * gvltest.MS, Threads: []sampler.Thread{gvltest.Holder(1)}}
		s.Proc = sampler.Proc{AtNS: gvltest.MS, UserNS: 5 * gvltest.MS} // the same reading in all samples
		m.Feed(s)
	}
	text, err := json.Marshal(m.Stat(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"cpu_ns":null,"run_delay_ns":null`, `"count":null`, `"allocated":null`, `"user_ns":null,"system_ns":null,"cpu_ns":null,"throttled_ns":null`,
		`"major_faults":null`, `"context_switches":null`, `"cpu_some_ns":null`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %s in %s", want, text)
		}
	}
}
