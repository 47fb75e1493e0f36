package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// gcFeeder feeds samples of two threads, a millisecond apart. In each sample, one of the threads holds the GVL.
type gcFeeder struct {
	s    *stream.Stream
	a    *Account
	at   int64
	last sampler.GC
}

func (f *gcFeeder) feed(holder sampler.ThreadID, stack sampler.StackID, gc sampler.GC) {
	f.at += 1e6
	gc.Valid = true
	s := &sampler.Sample{TimeNS: f.at, GC: gc, Threads: []sampler.Thread{{ID: 1, Ractor: 1}, {ID: 2, Ractor: 1}},
		Ractors: []sampler.Ractor{{ID: 1, OwnerStart: holder, OwnerEnd: holder}}}
	states := []gvl.ThreadState{{Thread: 1, Ractor: 1, State: gvl.Waiting}, {Thread: 2, Ractor: 1, State: gvl.Waiting}}
	if holder != 0 {
		st := &states[holder-1]
		st.State, st.Stack = gvl.Running, stack
		if gc.During {
			st.State = gvl.GC
		}
	}
	f.s.Feed(s, states)
	f.last = gc
}

// TestGCAccount: the account distinguishes code that starts collections from code inside which the collector works, and
// counts nothing twice.
func TestGCAccount(t *testing.T) {
	d := sampler.NewDictionary()
	stack := func(labels ...string) sampler.StackID {
		var ids []sampler.FrameID
		for _, l := range labels {
			ids = append(ids, d.InternFrame(sampler.Frame{Label: l, Path: "a.rb", Line: 3, C: l == "GC.start" || l == "Array#dup"}))
		}
		return d.InternStackOf(ids)
	}
	starter, maker, sweeper := stack("GC.start", "A#tidy", "<main>"), stack("A#make", "<main>"), stack("Array#dup", "A#copy", "<main>")
	p := sampler.Process{LockRate: 1000}
	f := &gcFeeder{s: stream.New(p), at: 1e9}
	f.a = New(f.s, p, d)
	f.feed(1, maker, sampler.GC{Count: 10, MinorCount: 9, MajorCount: 1, Allocated: 1000})
	// GC.start runs a collection. One sample shows the collector marking, and one shows it sweeping. The collection
	// takes 2 ms: the 1 ms between the samples, and half an interval before and after.
	method := uint32(sampler.GCByMethod | sampler.GCMajorByForce)
	f.feed(1, starter, sampler.GC{Count: 11, During: true, Mode: sampler.GCMarking, Reason: method, MinorCount: 9, MajorCount: 2})
	f.feed(1, starter, sampler.GC{Count: 11, During: true, Mode: sampler.GCSweeping, Reason: method, MinorCount: 9, MajorCount: 2})
	f.feed(1, maker, sampler.GC{Count: 11, Reason: method, MinorCount: 9, MajorCount: 2})
	// A collection begins because there is no free slot. It works in steps, and the first sample that sees it lies
	// between two steps. Later, the other thread sweeps in Array#dup.
	newobj := uint32(sampler.GCByNewObject)
	f.feed(1, maker, sampler.GC{Count: 12, Mode: sampler.GCSweeping, Reason: newobj, MinorCount: 10, MajorCount: 2})
	f.feed(2, sweeper, sampler.GC{Count: 12, During: true, Mode: sampler.GCSweeping, Reason: newobj, MinorCount: 10, MajorCount: 2})
	// Three collections begin between two samples. Only the reason of the last one is known.
	f.feed(1, maker, sampler.GC{Count: 15, Reason: uint32(sampler.GCByMalloc | sampler.GCMajorByOldMalloc), MinorCount: 12, MajorCount: 3, Allocated: 5000})
	g := f.a.Stat().GC
	if g.Count != 5 || g.Minor != 3 || g.Major != 2 || g.Allocated != 4000 || g.NS != 3e6 {
		t.Errorf("%+v", g)
	}
	if want := (report.StatGCBy{NewObj: 1, Malloc: 1, Method: 1, Unknown: 2}); g.By != want {
		t.Errorf("by %+v, want %+v", g.By, want)
	}
	if want := (report.StatGCMajorBy{Force: 1, OldMalloc: 1}); g.MajorBy != want {
		t.Errorf("major by %+v, want %+v", g.MajorBy, want)
	}
	if want := (report.StatGCPhases{Mark: 1e6, Sweep: 2e6}); g.PhaseNS != want || want.Mark+want.Sweep != g.NS {
		t.Errorf("phases %+v, want %+v", g.PhaseNS, want)
	}
	triggers := []report.StatGCTrigger{
		{StatCode: report.StatCode{Label: "A#make", Path: "a.rb", Line: 3}, Probable: 4},
		{StatCode: report.StatCode{Label: "GC.start", Path: "a.rb", Line: 3, Caller: "A#tidy"}, Seen: 1},
	}
	if len(g.Triggers) != 2 || g.Triggers[0] != triggers[0] || g.Triggers[1] != triggers[1] {
		t.Errorf("triggers %+v", g.Triggers)
	}
	payers := []report.StatGCPayer{
		{StatCode: report.StatCode{Label: "GC.start", Path: "a.rb", Line: 3, Caller: "A#tidy"}, NS: 2e6, Share: 2. / 3},
		{StatCode: report.StatCode{Label: "Array#dup", Path: "a.rb", Line: 3, Caller: "A#copy"}, NS: 1e6, Share: 1. / 3},
	}
	if len(g.Payers) != 2 || g.Payers[0] != payers[0] || g.Payers[1] != payers[1] {
		t.Errorf("payers %+v", g.Payers)
	}
}

// TestGCAccountLimits: the account keeps a limited number of stacks. If there are more, the totals still have all time
// and all collections.
func TestGCAccountLimits(t *testing.T) {
	g := newGCAccount()
	for i := range uint64(maxGCStacks + 100) {
		g.start(&sampler.GC{During: true, Reason: sampler.GCByNewObject}, 1, sampler.StackID(i+1), true)
		g.pay(sampler.StackID(i+1), sampler.GCMarking, 10)
	}
	if len(g.triggers) != maxGCStacks || len(g.payers) != maxGCStacks || g.lost != 100 || g.lostNS != 1000 {
		t.Errorf("%d and %d stacks, %d cycles and %d ns lost", len(g.triggers), len(g.payers), g.lost, g.lostNS)
	}
	if g.byTrigger[0] != maxGCStacks+100 || g.phaseNS[sampler.GCMarking] != 10*(maxGCStacks+100) {
		t.Errorf("%d cycles, %d ns", g.byTrigger[0], g.phaseNS[sampler.GCMarking])
	}
}

// TestGCAccountMoved: objects that compaction moved do not count as new objects.
func TestGCAccountMoved(t *testing.T) {
	p := sampler.Process{LockRate: 1000}
	st := stream.New(p)
	a := New(st, p, nil)
	for i, moved := range []int64{100, 100, 600} {
		s := &sampler.Sample{TimeNS: int64(1e9 + i*1e6), GC: sampler.GC{Valid: true, Allocated: uint64(1000 + 400*i)}}
		s.GCDetail = sampler.GCDetail{AtNS: s.TimeNS, Moved: moved, MovesCounted: true}
		st.Feed(s, nil)
	}
	if g := a.Stat().GC; g.Allocated != 300 || g.Moved != 500 || g.Figures == nil || *g.Figures.Moved != 600 {
		t.Errorf("%+v", g)
	}
}

func TestFiguresOf(t *testing.T) {
	var d sampler.GCDetail
	if report.FiguresOf(&d) != nil {
		t.Error("figures of nothing")
	}
	for _, f := range d.Fields() {
		*f = sampler.GCUnknown
	}
	d.AtNS, d.Live, d.NextMajor, d.HeapCount = 5, 0, sampler.GCMajorByOldGen|sampler.GCMajorByOldMalloc, 2
	f := report.FiguresOf(&d)
	if f.AtNS != 5 || f.Live == nil || *f.Live != 0 || f.Freed != nil || *f.NeedMajorBy != "oldgen" || len(f.Heaps) != 2 {
		t.Errorf("%+v", f)
	}
}
