package scene

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Figures are the numbers of the head lines over the stretch of time that is shown.
type Figures struct {
	Held, Waiting float64 // of the busiest ractor's GVL; all ractors' waiters
	// WaitLengths are the lengths that shares of the waits for the GVL don't exceed (waitShares); waits is how many there were.
	WaitLengths     [len(store.WaitShares)]gvl.Bounded
	Waits           int64
	CPU, Throttled  float64
	GC              float64
	Minor, Major    uint64
	GCKnown         bool
	RSS             int64
	StackHz, LockHz float64
	SelfCPU         float64
	SelfKnown       bool
	SelfShort       bool // what was measured is too short to tell it
	Priority        sampler.Priority
	Halved, lowered bool             // of the budget, at the end
	exact           bool             // every change of the GVL is known
	reads           sampler.Reads    // since the attach
	stacks          store.StackReads // of the time shown
	Dropped         uint64
	LeftOut         uint64 // names
	slow            bool
	// Halted is what holds the process from outside at the end; nil: nothing does.
	Halted     *Halt
	PauseShare float64 // of the time
	PauseNS    int64   // their mean length
	HeldSpark  []float64
	WaitSpark  []float64
	CPUSpark   []float64
	GCSpark    []float64
	RSSSpark   []float64
}

// sparkColumns is the number of columns of each sparkline.
const sparkColumns = 8

// Load reads the figures between two times.
func (f *Figures) Load(r *store.Reading, fromNS, toNS int64) {
	*f = Figures{Dropped: r.Dropped, LeftOut: r.LeftOut}
	cells := r.Timeline.Process(fromNS, toNS, sparkColumns)
	var sum gvl.ProcCell
	for _, c := range cells {
		sum.SpanNS += c.SpanNS
		sum.SampledNS += c.SampledNS
		sum.WaitNS += c.WaitNS
		sum.GCNS += c.GCNS
		sum.CPUNS += c.CPUNS
		sum.ThrottledNS += c.ThrottledNS
		unknown := c.SampledNS == 0
		f.WaitSpark = append(f.WaitSpark, style.ValueOr(unknown, c.Waiters()))
		f.CPUSpark = append(f.CPUSpark, style.ValueOr(unknown, style.Share(c.CPUNS, c.SampledNS)))
		f.GCSpark = append(f.GCSpark, style.ValueOr(unknown, c.GC()))
		f.RSSSpark = append(f.RSSSpark, style.ValueOr(c.RSSBytes == 0, float64(c.RSSBytes)))
		if c.RSSBytes != 0 {
			f.RSS = c.RSSBytes
		}
	}
	f.Waiting, f.GC = sum.Waiters(), sum.GC()
	f.CPU, f.Throttled = style.Share(sum.CPUNS, sum.SampledNS), style.Share(sum.ThrottledNS, sum.SampledNS)
	f.loadOwners(r, fromNS, toNS)
	f.loadMarks(r, fromNS, toNS)
	var open []gvl.Wait
	for i := range r.States {
		if s := &r.States[i]; s.State == gvl.Waiting && toNS >= r.LastNS {
			open = append(open, s.Wait())
		}
	}
	f.WaitLengths, f.Waits = r.Waits.Lengths(fromNS, toNS, open)
}

func (f *Figures) loadOwners(r *store.Reading, fromNS, toNS int64) {
	for _, id := range r.Timeline.Ractors() {
		cells := r.Timeline.Owners(id, fromNS, toNS, sparkColumns)
		var held, sampled int64
		spark := make([]float64, 0, len(cells))
		for _, c := range cells {
			held += c.HeldNS
			sampled += c.SampledNS
			spark = append(spark, style.ValueOr(c.SampledNS == 0, style.Share(c.HeldNS, c.SampledNS)))
		}
		if s := style.Share(held, sampled); s >= f.Held {
			f.Held, f.HeldSpark = s, spark
		}
	}
}

func (f *Figures) loadMarks(r *store.Reading, fromNS, toNS int64) {
	a, b, ok := r.Marks.Span(fromNS, toNS)
	if b == nil {
		return
	}
	f.reads, f.slow, f.Halted = b.Reads, b.Slow, HaltOf(&b.Proc)
	f.GCKnown = b.GC.Valid
	if f.RSS == 0 {
		f.RSS = b.Proc.RSSBytes
	}
	if !ok {
		return
	}
	sec := float64(b.TimeNS-a.TimeNS) / 1e9
	f.Minor, f.Major = b.GC.MinorCount-a.GC.MinorCount, b.GC.MajorCount-a.GC.MajorCount
	f.LockHz = float64(b.Reads.Ticks-a.Reads.Ticks) / sec
	f.StackHz = float64(b.Reads.StackTicks-a.Reads.StackTicks) / sec
	own, span := b.Meters.Self.Since(&a.Meters.Self)
	f.SelfCPU, f.SelfKnown, f.SelfShort = style.Share(own, span), span > 0, span == 0 && b.Meters.Self.Known()
	f.exact = r.Exact.NearlyAll(fromNS, toNS)
	f.Priority, f.Halved, f.lowered = b.Self.Priority, b.Self.Halved, b.Self.Lowered
	if n := b.Reads.Pauses - a.Reads.Pauses; n > 0 {
		paused := int64(b.Reads.PausedNS - a.Reads.PausedNS)
		f.PauseShare, f.PauseNS = style.Share(paused, b.TimeNS-a.TimeNS), paused/int64(n)
	}
	f.stacks = store.StackReads{Read: b.Stacks.Read - a.Stacks.Read, Lost: b.Stacks.Lost - a.Stacks.Lost}
}

// WaitText is one of the lengths of waits.
func (f *Figures) WaitText(of int) string { return store.WaitInWords(f.Waits, f.WaitLengths[of]) }

// WaitsText says how many waits for the GVL there were, of all threads, and how long they were; "" without any.
func (f *Figures) WaitsText() string {
	if f.Waits == 0 {
		return ""
	}
	return fmt.Sprintf("%s waits: p50 %s  p90 %s  p99 %s  max %s", units.Count(f.Waits), f.WaitText(store.WaitP50), f.WaitText(store.WaitP90),
		f.WaitText(store.WaitP99), f.WaitText(store.WaitMax))
}
