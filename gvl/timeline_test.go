package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// playTimeline feeds a Stream samples of 1 ms for d, as gen says.
func playTimeline(stream *Stream, c *Classifier, from, d int64, gen func(at int64) *sampler.Sample) int64 {
	for at := from; at < from+d; at += ms {
		s := gen(at)
		stream.Feed(s, c.Classify(s))
	}
	return from + d
}

func TestTimelineColumns(t *testing.T) {
	p := procOf(sampler.EraSched)
	c, stream := NewClassifier(p, nil), NewStream(p)
	tl := NewTimeline(stream, 0, 600)
	// Each 100 ms: 70 ms run, 29 ms wait for thread 2, 1 ms sleep.
	at := playTimeline(stream, c, base, 20*sec, func(at int64) *sampler.Sample {
		switch phase := at / ms % 100; {
		case phase < 70:
			return sampleAt(at, 1, holder(1), queued(2))
		case phase < 99:
			return sampleAt(at, 2, queued(1), holder(2))
		}
		return sampleAt(at, 0, asleep(1, 1, sampler.BlockSleep), asleep(2, 1, sampler.BlockSleep))
	})
	from, to := tl.Window(at, 10*sec, 100)
	if to != base+20*sec || to-from != 10*sec {
		t.Fatalf("window %d to %d", from-base, to-base)
	}
	for i, cell := range tl.Row(1, from, to-100*ms, 99) {
		if cell.Dominant != Running || cell.Share < .69 || cell.Share > .71 || cell.NS[Waiting] == 0 || cell.NS[Sleeping] < ms/2 {
			t.Fatalf("cell %d: %+v", i, cell)
		}
		if cell.SpanNS != 100*ms || cell.Listed() != 100*ms {
			t.Fatalf("cell %d: span %d, listed %d", i, cell.SpanNS, cell.Listed())
		}
	}
	for i, o := range tl.Owners(1, from, to-100*ms, 33) {
		if o.Owner != 1 || o.HeldNS != 297*ms || o.WaitNS != 297*ms || o.HeldByOwnerNS != 210*ms {
			t.Fatalf("owner cell %d: %+v", i, o)
		}
	}
	for i, pc := range tl.Process(from, to-100*ms, 33) {
		if w := pc.Waiters(); w < .98 || w > 1 || pc.GC() != 0 {
			t.Fatalf("process cell %d: %+v", i, pc)
		}
	}
	// A thread that is not there, and a time that is not kept.
	if r := tl.Row(99, from, to, 3); len(r) != 3 || r[0].Listed() != 0 {
		t.Errorf("%+v", r)
	}
	if r := tl.Row(1, base-100*sec, base, 3); len(r) != 3 || r[2].Listed() != 0 {
		t.Errorf("%+v", r)
	}
	if n := len(tl.Row(1, from, to, 1<<30)); n != maxCells {
		t.Errorf("%d cells", n)
	}
}

// What is older than the ring is gone, what is younger is right, also for threads that ended.
func TestTimelineForgets(t *testing.T) {
	p := procOf(sampler.EraSched)
	c, stream := NewClassifier(p, nil), NewStream(p)
	tl := NewTimeline(stream, 10*ms, 100)
	at := playTimeline(stream, c, base, 300*ms, func(at int64) *sampler.Sample {
		return sampleAt(at, 1, holder(1), asleep(2, 1, sampler.BlockSleep))
	})
	at = playTimeline(stream, c, at, 600*ms, func(at int64) *sampler.Sample { return sampleAt(at, 1, holder(1)) })
	if ids := tl.Threads(nil, at-1000*ms, at); len(ids) != 2 {
		t.Errorf("%v", ids)
	}
	if ids := tl.Threads(nil, at-300*ms, at); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("%v", ids)
	}
	if ns := tl.Totals(2, base, at); ns[Sleeping] < 299*ms || ns[Sleeping] > 300*ms {
		t.Errorf("%v", ns)
	}
	at = playTimeline(stream, c, at, 2000*ms, func(at int64) *sampler.Sample { return sampleAt(at, 1, holder(1)) })
	from, to := tl.Range()
	if to-from > 1000*ms || to-from < 980*ms {
		t.Errorf("kept %d", to-from)
	}
	if ns := tl.Totals(1, base, at); ns[Running] > 1000*ms || ns[Running] < 980*ms {
		t.Errorf("%v", ns)
	}
	if len(tl.rows) != 1 {
		t.Errorf("%d rows are kept", len(tl.rows))
	}
}

func TestTimelineLimitsThreads(t *testing.T) {
	p := procOf(sampler.EraSched)
	c, stream := NewClassifier(p, nil), NewStream(p)
	tl := NewTimeline(stream, 10*ms, 10)
	var threads []sampler.Thread
	for id := range maxTimelineThreads + 10 {
		threads = append(threads, queued(sampler.ThreadID(id+1)))
	}
	threads[len(threads)-1] = holder(maxTimelineThreads + 10)
	for i := range int64(30) {
		s := sampleAt(base+i*ms, maxTimelineThreads+10, threads...)
		stream.Feed(s, c.Classify(s))
	}
	if tl.Dropped() != 10 || len(tl.rows) != maxTimelineThreads {
		t.Errorf("%d dropped, %d kept", tl.Dropped(), len(tl.rows))
	}
	// The lanes still count them.
	o := tl.Owners(1, base, base+20*ms, 1)[0]
	if o.Owner != maxTimelineThreads+10 || o.WaitNS != (maxTimelineThreads+9)*20*ms {
		t.Errorf("%+v", o)
	}
}

// CPU counters read every 250 ms are spread over the columns between.
func TestTimelineCPU(t *testing.T) {
	p := procOf(sampler.EraSched)
	c, stream := NewClassifier(p, nil), NewStream(p)
	tl := NewTimeline(stream, 0, 600)
	var last sampler.Proc
	at := playTimeline(stream, c, base, 5*sec, func(at int64) *sampler.Sample {
		s := sampleAt(at, 1, holder(1))
		if at-last.AtNS >= 250*ms {
			last = sampler.Proc{AtNS: at, UserNS: (at - base) / 2, SystemNS: (at - base) / 4, ThrottledNS: (at - base) / 8, RSSBytes: 5}
		}
		s.Proc = last
		return s
	})
	cells := tl.Process(base+sec, at-sec, 30)
	for i, cell := range cells {
		if v := cell.CPU(); v < .74 || v > .76 {
			t.Errorf("cell %d: CPU %v", i, v)
		}
		if r := ratio(cell.ThrottledNS, cell.SpanNS); r < .12 || r > .13 {
			t.Errorf("cell %d: throttled %v", i, r)
		}
	}
}

func TestTimelineSlowClock(t *testing.T) {
	p := procOf(sampler.EraSched)
	c, stream := NewClassifier(p, nil), NewStream(p)
	tl := NewTimeline(stream, 0, 600)
	at := int64(base)
	for range 20 {
		s := sampleAt(at, 0, asleep(1, 1, sampler.BlockSleep))
		s.Slow = true
		stream.Feed(s, c.Classify(s))
		at += sec
	}
	if ns := tl.Totals(1, base, at); ns[Sleeping] != 19*sec || ns[Unknown] != 0 {
		t.Errorf("slow: %v", ns)
	}
	// The same without the slow clock is a hole in the sampling.
	s := sampleAt(at+9*sec, 0, asleep(1, 1, sampler.BlockSleep))
	stream.Feed(s, c.Classify(s))
	if ns := tl.Totals(1, base, at+10*sec); ns[Sleeping] != 19*sec || ns[Unknown] != 10*sec {
		t.Errorf("hole: %v", ns)
	}
}
