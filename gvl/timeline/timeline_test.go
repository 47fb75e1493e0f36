package timeline

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// playTimeline feeds a Stream samples from gen, 1 ms apart, for a time of d. It returns the end of this time.
func playTimeline(stream *stream.Stream, c *gvl.Classifier, from, d int64, gen func(at int64) *sampler.Sample) int64 {
	for at := from; at < from+d; at += gvltest.MS {
		s := gen(at)
		stream.Feed(s, c.Classify(s))
	}
	return from + d
}

func TestTimelineColumns(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, nil), stream.New(p)
	tl := New(stream, 0, 600)
	// In every 100 ms, thread 1 runs for 70 ms, waits for 29 ms while thread 2 holds the GVL, and sleeps for 1 ms.
	at := playTimeline(stream, c, gvltest.Base, 20*gvltest.Sec, func(at int64) *sampler.Sample {
		switch phase := at / gvltest.MS % 100; {
		case phase < 70:
			return gvltest.SampleAt(at, 1, gvltest.Holder(1), gvltest.Queued(2))
		case phase < 99:
			return gvltest.SampleAt(at, 2, gvltest.Queued(1), gvltest.Holder(2))
		}
		return gvltest.SampleAt(at, 0, gvltest.Asleep(1, 1, sampler.BlockSleep), gvltest.Asleep(2, 1, sampler.BlockSleep))
	})
	from, to := tl.Window(at, 10*gvltest.Sec, 100)
	if to != gvltest.Base+20*gvltest.Sec || to-from != 10*gvltest.Sec {
		t.Fatalf("window %d to %d", from-gvltest.Base, to-gvltest.Base)
	}
	for i, cell := range tl.Row(1, from, to-100*gvltest.MS, 99) {
		if cell.Dominant != gvl.Running || cell.Share < .69 || cell.Share > .71 || cell.NS[gvl.Waiting] == 0 || cell.NS[gvl.Sleeping] < gvltest.MS/2 {
			t.Fatalf("cell %d: %+v", i, cell)
		}
		if cell.SpanNS != 100*gvltest.MS || cell.Listed() != 100*gvltest.MS {
			t.Fatalf("cell %d: span %d, listed %d", i, cell.SpanNS, cell.Listed())
		}
	}
	for i, o := range tl.Owners(1, from, to-100*gvltest.MS, 33) {
		if o.Owner != 1 || o.HeldNS != 297*gvltest.MS || o.WaitNS != 297*gvltest.MS || o.HeldByOwnerNS != 210*gvltest.MS {
			t.Fatalf("owner cell %d: %+v", i, o)
		}
	}
	for i, pc := range tl.Process(from, to-100*gvltest.MS, 33) {
		if w := pc.Waiters(); w < .98 || w > 1 || pc.GC() != 0 {
			t.Fatalf("process cell %d: %+v", i, pc)
		}
	}
	// Asking for a thread that does not exist, or for a time that is not kept, must return empty cells.
	if r := tl.Row(99, from, to, 3); len(r) != 3 || r[0].Listed() != 0 {
		t.Errorf("%+v", r)
	}
	if r := tl.Row(1, gvltest.Base-100*gvltest.Sec, gvltest.Base, 3); len(r) != 3 || r[2].Listed() != 0 {
		t.Errorf("%+v", r)
	}
	if n := len(tl.Row(1, from, to, 1<<30)); n != maxCells {
		t.Errorf("%d cells", n)
	}
}

// TestTimelineForgets: data older than the stored columns is dropped. Newer data is right, also for threads that have
// ended.
func TestTimelineForgets(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, nil), stream.New(p)
	tl := New(stream, 10*gvltest.MS, 100)
	at := playTimeline(stream, c, gvltest.Base, 300*gvltest.MS, func(at int64) *sampler.Sample {
		return gvltest.SampleAt(at, 1, gvltest.Holder(1), gvltest.Asleep(2, 1, sampler.BlockSleep))
	})
	at = playTimeline(stream, c, at, 600*gvltest.MS, func(at int64) *sampler.Sample { return gvltest.SampleAt(at, 1, gvltest.Holder(1)) })
	if ids := tl.Threads(nil, at-1000*gvltest.MS, at); len(ids) != 2 {
		t.Errorf("%v", ids)
	}
	if ids := tl.Threads(nil, at-300*gvltest.MS, at); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("%v", ids)
	}
	if ns := tl.Totals(2, gvltest.Base, at); ns[gvl.Sleeping] < 299*gvltest.MS || ns[gvl.Sleeping] > 300*gvltest.MS {
		t.Errorf("%v", ns)
	}
	at = playTimeline(stream, c, at, 2000*gvltest.MS, func(at int64) *sampler.Sample { return gvltest.SampleAt(at, 1, gvltest.Holder(1)) })
	from, to := tl.Range()
	if to-from > 1000*gvltest.MS || to-from < 980*gvltest.MS {
		t.Errorf("kept %d", to-from)
	}
	if ns := tl.Totals(1, gvltest.Base, at); ns[gvl.Running] > 1000*gvltest.MS || ns[gvl.Running] < 980*gvltest.MS {
		t.Errorf("%v", ns)
	}
	if len(tl.rows) != 1 {
		t.Errorf("%d rows are kept", len(tl.rows))
	}
}

func TestTimelineLimitsThreads(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, nil), stream.New(p)
	tl := New(stream, 10*gvltest.MS, 10)
	var threads []sampler.Thread
	for id := range maxTimelineThreads + 10 {
		threads = append(threads, gvltest.Queued(sampler.ThreadID(id+1)))
	}
	threads[len(threads)-1] = gvltest.Holder(maxTimelineThreads + 10)
	for i := range int64(30) {
		s := gvltest.SampleAt(gvltest.Base+i*gvltest.MS, maxTimelineThreads+10, threads...)
		stream.Feed(s, c.Classify(s))
	}
	if tl.dropped != 10 || len(tl.rows) != maxTimelineThreads {
		t.Errorf("%d dropped, %d kept", tl.dropped, len(tl.rows))
	}
	// The lanes still count the dropped threads.
	o := tl.Owners(1, gvltest.Base, gvltest.Base+20*gvltest.MS, 1)[0]
	if o.Owner != maxTimelineThreads+10 || o.WaitNS != (maxTimelineThreads+9)*20*gvltest.MS {
		t.Errorf("%+v", o)
	}
}

// TestTimelineCPU: CPU counters are read every 250 ms. The difference between two readings is spread evenly over the
// columns in between.
func TestTimelineCPU(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, nil), stream.New(p)
	tl := New(stream, 0, 600)
	var last sampler.Proc
	at := playTimeline(stream, c, gvltest.Base, 5*gvltest.Sec, func(at int64) *sampler.Sample {
		s := gvltest.SampleAt(at, 1, gvltest.Holder(1))
		if at-last.AtNS >= 250*gvltest.MS {
			last = sampler.Proc{AtNS: at, UserNS: (at - gvltest.Base) / 2, SystemNS: (at - gvltest.Base) / 4, ThrottledNS: (at - gvltest.Base) / 8, RSSBytes: 5}
		}
		s.Proc = last
		return s
	})
	cells := tl.Process(gvltest.Base+gvltest.Sec, at-gvltest.Sec, 30)
	for i, cell := range cells {
		if v := cell.CPU(); v < .74 || v > .76 {
			t.Errorf("cell %d: CPU %v", i, v)
		}
		if r := gvl.Ratio(cell.ThrottledNS, cell.SpanNS); r < .12 || r > .13 {
			t.Errorf("cell %d: throttled %v", i, r)
		}
	}
}

func TestTimelineSlowClock(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, nil), stream.New(p)
	tl := New(stream, 0, 600)
	at := int64(gvltest.Base)
	for range 20 {
		s := gvltest.SampleAt(at, 0, gvltest.Asleep(1, 1, sampler.BlockSleep))
		s.Slow = true
		stream.Feed(s, c.Classify(s))
		at += gvltest.Sec
	}
	if ns := tl.Totals(1, gvltest.Base, at); ns[gvl.Sleeping] != 19*gvltest.Sec || ns[gvl.Unknown] != 0 {
		t.Errorf("slow: %v", ns)
	}
	// Here the clock of the samples is not slow (Sample.Slow). So the same time between two samples is a gap now.
	s := gvltest.SampleAt(at+9*gvltest.Sec, 0, gvltest.Asleep(1, 1, sampler.BlockSleep))
	stream.Feed(s, c.Classify(s))
	if ns := tl.Totals(1, gvltest.Base, at+10*gvltest.Sec); ns[gvl.Sleeping] != 19*gvltest.Sec || ns[gvl.Unknown] != 10*gvltest.Sec {
		t.Errorf("hole: %v", ns)
	}
}
