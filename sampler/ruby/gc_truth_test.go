package ruby

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// gcProgram runs commands and prints all of Ruby's figures about the collector. Then it stops itself, which allocates
// almost nothing. When it continues, it prints them again. ddtop reads the figures while the program is stopped, so
// they must lie between the two answers. Nearly all figures are equal in both answers.
const gcProgram = `
def fill(out)
  GC.stat(out[0])
  GC.latest_gc_info(out[1])
  if out[2]
    i = 0
    while i < out[2].size
      GC.stat_heap(i, out[2][i])
      i += 1
    end
  end
end
heaps = GC.respond_to?(:stat_heap) ? GC.stat_heap.size : 0
empty = lambda { [{}, {}, heaps > 0 ? Array.new(heaps) { {} } : nil] }
before, after = empty.call, empty.call
show = lambda { |h| "{" + h.map { |k, v| "\"#{k}\":" + (v.is_a?(Symbol) ? "\"#{v}\"" : v.nil? ? "null" : v.to_s) }.join(",") + "}" }
told = lambda { |a| "{\"stat\":#{show.call(a[0])},\"info\":#{show.call(a[1])},\"heaps\":[#{(a[2] || []).map { |h| show.call(h) }.join(',')}]}" }
keep = []
act = {
  "nothing" => lambda { },
  "start" => lambda { GC.start },
  "minor" => lambda { GC.start(full_mark: false) },
  "lazy" => lambda { GC.start(immediate_mark: false, immediate_sweep: false) },
  "burst" => lambda { 400_000.times { Object.new } },
  "survive" => lambda { 60_000.times { |i| keep << [i, i.to_s] } },
  "sizes" => lambda { 5_000.times { |i| keep << ("y" * (i % 600)) << Array.new(i % 60) } },
  "drop" => lambda { keep.clear; 50_000.times { Object.new } },
  "strings" => lambda { 3_000.times { "x" * 40_000 } },
  "finalizers" => lambda { 200.times { ObjectSpace.define_finalizer(Object.new, lambda { |id| }) }; GC.start },
  "compact" => lambda { GC.compact if GC.respond_to?(:compact) },
  "disable" => lambda { GC.disable; 20_000.times { Object.new } },
  "enable" => lambda { GC.enable },
  "stress" => lambda { GC.stress = true; 3.times { Object.new } },
  "calm" => lambda { GC.stress = false },
  "unmeasured" => lambda { GC.measure_total_time = false if GC.respond_to?(:measure_total_time=); GC.start },
}
turn = lambda do |name|
  act[name].call
  fill(before)
  Process.kill(:STOP, $$)
  fill(after)
end
$stdout.sync = true
# Warm: what is made once only is made now.
3.times { fill(before); fill(after); show.call(before[0]) }
puts "ready"
while (line = $stdin.gets)
  turn.call(line.strip)
  puts "{\"before\":#{told.call(before)},\"after\":#{told.call(after)}}"
end
`

// waitStopped waits until all threads of a process are stopped.
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(rubytest.Timeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		// The state follows the name, which is in parentheses (proc(5)).
		if _, rest, ok := strings.Cut(string(b), ") "); ok && rest[0] == 'T' {
			return
		}
	}
	t.Fatalf("process %d did not stop within %v", pid, rubytest.Timeout)
}

type gcSaid struct {
	Stat, Info map[string]any
	Heaps      []map[string]any
}

var gcScenarios = []string{"nothing", "nothing", "start", "minor", "lazy", "burst", "survive", "start", "minor", "sizes", "drop", "strings",
	"finalizers", "compact", "nothing", "disable", "enable", "stress", "calm", "burst", "unmeasured", "nothing"}

// statKeys returns the values that ddtop has read, by the names that they have in GC.stat.
func statKeys(g *sampler.GC, d *sampler.GCDetail) map[string]int64 {
	return map[string]int64{
		"count": int64(g.Count), "minor_gc_count": int64(g.MinorCount), "major_gc_count": int64(g.MajorCount),
		"time": int64(g.TimeNS) / 1e6, "marking_time": d.MarkingNS / 1e6, "sweeping_time": d.SweepingNS / 1e6,
		"compact_count": d.Compactions, "total_moved_objects": d.Moved,
		"total_allocated_objects": d.Allocated, "total_freed_objects": d.Freed, "heap_live_slots": d.Live,
		"heap_marked_slots": d.Marked, "heap_available_slots": d.AvailableSlots, "heap_free_slots": d.FreeSlots,
		"heap_final_slots": d.FinalSlots, "heap_allocated_pages": d.AllocatedPages, "heap_eden_pages": d.EdenPages,
		"heap_tomb_pages": d.TombPages, "heap_empty_pages": d.EmptyPages, "total_allocated_pages": d.PagesMade,
		"total_freed_pages": d.PagesFreed, "heap_allocatable_pages": d.AllocatablePages,
		"heap_allocatable_slots": d.AllocatableSlots, "heap_allocatable_bytes": d.AllocatableBytes,
		"malloc_increase_bytes": d.MallocIncrease, "malloc_increase_bytes_limit": d.MallocLimit,
		"oldmalloc_increase_bytes": d.OldMallocIncrease, "oldmalloc_increase_bytes_limit": d.OldMallocLimit,
		"old_objects": d.OldObjects, "old_objects_limit": d.OldObjectsLimit,
		"remembered_wb_unprotected_objects":       d.Unprotected,
		"remembered_wb_unprotected_objects_limit": d.UnprotectedLimit,
		"weak_references_count":                   d.WeakReferences, "retained_weak_references_count": d.RetainedWeakReferences,
	}
}

func heapKeys(d *sampler.GCDetail, h *sampler.GCHeap) map[string]int64 {
	return map[string]int64{
		"slot_size": h.SlotSize, "heap_eden_pages": h.Pages, "heap_eden_slots": h.Slots, "heap_tomb_pages": h.TombPages,
		"heap_tomb_slots": h.TombSlots, "heap_allocatable_pages": h.AllocatablePages, "total_allocated_pages": h.PagesMade,
		"total_freed_pages": h.PagesFreed, "total_allocated_objects": h.Allocated, "total_freed_objects": h.Freed,
		"heap_allocatable_slots": d.AllocatableBytes / h.SlotSize,
		"heap_live_slots":        h.Allocated - h.Freed - h.Final, "heap_free_slots": h.Slots - (h.Allocated - h.Freed),
		"heap_final_slots": h.Final, "force_major_gc_count": h.ForcedMajor, "force_incremental_marking_finish_count": h.ForcedFinish,
	}
}

// notRead are keys of GC.stat that ddtop does not read, because they do not help a user.
var notRead = map[string]bool{"heap_sorted_length": true, "read_barrier_faults": true, "heap": true,
	"total_malloc_bytes": true, "total_free_bytes": true}

type gcCompare struct {
	t             *testing.T
	where         string
	equal, within int
}

// figures compares each of Ruby's figures with the figure that ddtop has read.
func (c *gcCompare) figures(part string, got map[string]int64, before, after map[string]any) {
	for key, v := range before {
		want, ok := v.(float64)
		have, known := got[key]
		if !ok || !known || notRead[key] {
			if ok && !notRead[key] {
				c.t.Errorf("%s: %s.%s of Ruby's is not read", c.where, part, key)
			}
			continue
		}
		then, _ := after[key].(float64)
		low, high := int64(min(want, then)), int64(max(want, then))
		switch {
		case have < low || have > high:
			c.t.Errorf("%s: %s.%s is %d, Ruby says %d, then %d", c.where, part, key, have, int64(want), int64(then))
		case low == high:
			c.equal++
		default:
			c.within++
		}
	}
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

// TestGCFigures: every figure about the collector that ddtop reads must equal Ruby's own figure in GC.stat,
// GC.stat_heap and GC.latest_gc_info.
func TestGCFigures(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, gcProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		c := gcCompare{t: t}
		words, now := 0, reader.now
		for i, name := range gcScenarios {
			c.where = fmt.Sprintf("%s (%d)", name, i)
			p.Send(t, name)
			waitStopped(t, p.PID)
			reader.now = func() int64 { return now() + int64(i)*1e9 } // the details are read again each second
			var s sampler.Sample
			if err := reader.Read(sampler.StackTick, &s); err != nil {
				t.Fatal(err)
			}
			p.Signal(t, syscall.SIGCONT)
			var said struct{ Before, After gcSaid }
			p.JSON(t, &said)
			if !s.GC.Valid || s.GCDetail.AtNS == 0 {
				t.Fatalf("%s: no figures: %+v", c.where, s.GC)
			}
			c.figures("stat", statKeys(&s.GC, &s.GCDetail), said.Before.Stat, said.After.Stat)
			for h := range said.Before.Heaps {
				c.figures(fmt.Sprint("heap", h), heapKeys(&s.GCDetail, &s.GCDetail.Heaps[h]), said.Before.Heaps[h], said.After.Heaps[h])
			}
			if n := len(said.Before.Heaps); n > 0 && n != int(s.GCDetail.HeapCount) {
				t.Errorf("%s: %d heaps, Ruby has %d", c.where, s.GCDetail.HeapCount, n)
			}
			info := said.Before.Info
			for key, got := range map[string]string{"major_by": sampler.GCMajorBy(s.GC.Reason), "gc_by": sampler.GCTrigger(s.GC.Reason),
				"need_major_by": sampler.GCMajorBy(s.GCDetail.NextMajor)} {
				if want, has := info[key]; has && word(want) != word(said.After.Info[key]) {
					continue
				} else if has && word(want) != got {
					t.Errorf("%s: %s is %q, Ruby says %q", c.where, key, got, word(want))
				} else if has {
					words++
				}
			}
			if want, got := word(info["state"]), stateWord(s.GC.Mode); want != got && want == word(said.After.Info["state"]) {
				t.Errorf("%s: phase %q, Ruby says %q", c.where, got, want)
			}
			if d, want := s.GCDetail, name == "disable"; d.Disabled != want {
				t.Errorf("%s: disabled is %v", c.where, d.Disabled)
			}
			if d, want := s.GCDetail, name == "stress"; d.Stress != want {
				t.Errorf("%s: stress is %v", c.where, d.Stress)
			}
			if s.GCDetail.Allocated != int64(s.GC.Allocated) {
				t.Errorf("%s: %d objects allocated, the tick says %d", c.where, s.GCDetail.Allocated, s.GC.Allocated)
			}
		}
		// One figure in twenty may change between Ruby's two answers. For example, after a compaction, the call that
		// stops the process allocates objects.
		if c.within*20 > c.equal {
			rubytest.TooSeldom(t, "only %d figures stood still while %d moved: the comparison says too little", c.equal, c.within)
		}
		t.Logf("%s: %d figures equal, %d between Ruby's two answers, %d words", r.Version, c.equal, c.within, words)
	})
}

// stateWord returns the word that GC.latest_gc_info(:state) has for m. Ruby reports compacting as sweeping
// (gc_info_decode in gc.c).
func stateWord(m sampler.GCMode) string {
	switch m {
	case sampler.GCMarking:
		return "marking"
	case sampler.GCSweeping, sampler.GCCompacting:
		return "sweeping"
	}
	return "none"
}
