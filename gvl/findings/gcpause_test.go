package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestFullCollections: there is a finding for a full collection that takes 300 ms, or marks for 200 ms. There is no
// finding for three other collections of this length. One is minor, one runs in steps, and one was started by the
// program at a time of its choice.
func TestFullCollections(t *testing.T) {
	const full, ms = sampler.GCMajorByOldGen | sampler.GCByNewObject, gvltest.MS
	for _, c := range []struct {
		name          string
		reason        uint32
		markMS, allMS int64
		// stepMS is how long a step of the collection takes. It is zero if there is only one step. cpu is the thread's
		// share of a CPU, in percent.
		stepMS   int64
		cpu      int64
		compacts bool
		by       string
		waits    bool
		boots    bool
		// early is true if the first sample of the collection read the thread's stack before the thread had the GVL.
		// This stack does not show what started the collection.
		early bool
		says  []string
	}{
		{name: "long", reason: full, markMS: 150, allMS: 350, cpu: 100, says: []string{
			"a full one kept all Ruby code from running for 3", "in Shop#build", "because old objects had reached their limit",
			"1,500,000 old objects, 50 % more than "}},
		{name: "marks long", reason: full, markMS: 240, allMS: 260, cpu: 100, says: []string{"a full one"}},
		{name: "shorter than both", reason: full, markMS: 150, allMS: 260, cpu: 100},
		{name: "minor", reason: sampler.GCByNewObject, markMS: 240, allMS: 400, cpu: 100},
		{name: "in steps", reason: full, markMS: 150, allMS: 400, stepMS: 50, cpu: 100},
		{name: "without a CPU", reason: full, markMS: 240, allMS: 400, cpu: 25},
		{name: "out of band", reason: sampler.GCMajorByForce, markMS: 240, allMS: 400, cpu: 100, by: "c:GC.start"},
		{name: "out of band, after a wait for the GVL", reason: sampler.GCMajorByForce, markMS: 240, allMS: 400, cpu: 100, by: "c:GC.start",
			early: true},
		{name: "out of band, with a stack from before the call", markMS: 240, allMS: 400, cpu: 100,
			reason: sampler.GCMajorByForce | sampler.GCByMethod},
		{name: "GC.start in the way", reason: sampler.GCMajorByForce, markMS: 240, allMS: 400, cpu: 100, by: "c:GC.start", waits: true,
			says: []string{"because code asked for it"}},
		{name: "compacts", reason: full, compacts: true, markMS: 240, allMS: 400, cpu: 100, says: []string{"GC.auto_compact is on"}},
		{name: "told to compact", reason: full | sampler.GCCompact, compacts: true, markMS: 240, allMS: 400, cpu: 100,
			says: []string{"it moved objects, too (compaction)"}},
		{name: "at the start", reason: full, markMS: 240, allMS: 400, cpu: 100, boots: true},
	} {
		s := newScene(t)
		if c.boots {
			p := gvltest.ProcOf(sampler.EraSched)
			p.AttachedNS = gvltest.Base
			s.watch(p, nil)
		}
		labels := []string{"Shop#build"}
		if c.by != "" {
			labels = slices.Insert(labels, 0, c.by)
		}
		stack, cpu := s.stack(labels...), int64(0)
		live := func(int) (sampler.ThreadID, []sampler.Thread) {
			x := s.at(gvltest.Holder(1), stack)
			cpu += sceneTick * c.cpu / 100
			x.Kernel.CPUAtNS, x.Kernel.CPUNS = s.now, cpu
			if c.waits {
				return 1, []sampler.Thread{x, gvltest.Queued(2)}
			}
			if c.early && s.gc.During {
				c.early = false
				return 0, []sampler.Thread{gvltest.Queued(1), gvltest.Asleep(2, sampler.StoppedForever, sampler.BlockQueue)}
			}
			return 1, []sampler.Thread{x, gvltest.Asleep(2, sampler.StoppedForever, sampler.BlockQueue)}
		}
		s.detail = sampler.GCDetail{OldObjects: 1_000_000}
		s.play(1000*ms, live)
		s.detail.OldObjects = 1_500_000
		s.play(1000*ms, live)
		s.gc.During, s.gc.Reason, s.gc.MajorCount = true, c.reason, 1
		for from := s.now; s.now-from < c.allMS*ms; {
			s.gc.Mode = sampler.GCSweeping
			if s.now-from < c.markMS*ms {
				s.gc.Mode = sampler.GCMarking
			} else if c.compacts {
				s.gc.Mode = sampler.GCCompacting
			}
			s.play(sceneTick, live)
			if c.stepMS > 0 && (s.now-from)%(c.stepMS*ms) == 0 {
				s.gc.TimeNS += uint64(c.stepMS * ms)
			}
		}
		s.gc.During, s.gc.Mode, s.gc.TimeNS = false, sampler.GCIdle, s.gc.TimeNS+uint64(c.allMS*ms)
		s.play(1000*ms, live)
		i := slices.IndexFunc(s.f.Current(), func(f Finding) bool { return f.ID == "gc_pause" })
		if got := i >= 0; got != (c.says != nil) {
			t.Errorf("%s: raised %v: %v", c.name, got, s.f.Current())
			continue
		}
		for _, w := range c.says {
			if f := s.f.Current()[i]; !strings.Contains(f.Text, w) {
				t.Errorf("%s: %q does not say %q", c.name, f.Text, w)
			}
		}
	}
}

// TestFullCollectionsAreCounted: after a second long collection, the finding says that there were two.
func TestFullCollectionsAreCounted(t *testing.T) {
	s := newScene(t)
	stack := s.stack("Shop#build")
	run := func(int) (sampler.ThreadID, []sampler.Thread) {
		return 1, []sampler.Thread{s.at(gvltest.Holder(1), stack)}
	}
	for n := range uint64(2) {
		s.play(20*gvltest.Sec, run)
		s.gc = sampler.GC{During: true, Mode: sampler.GCMarking, Reason: sampler.GCMajorByNoFree, Count: n + 1}
		s.play(400*gvltest.MS, run)
		s.gc.During, s.gc.Mode = false, sampler.GCIdle
	}
	s.play(gvltest.Sec, run)
	s.want("two", []string{"gc_pause"}, "because no slot was free", "2 such collections in 21", "took 79", "together")
}
