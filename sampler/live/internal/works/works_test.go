package works

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/switches"
)

// TestWorks: a thread waits for work in a certain frame. If its stack gets deeper than this frame, it has begun work.
// The begin lies between two records. If the thread returns to this frame, it has left its work. After several readings
// that found no work, ddtop reads the thread less often.
func TestWorks(t *testing.T) {
	const us = 1000
	w := New()
	record := func(from, to int64, cfp uint64, asleep bool) (left bool) {
		r := switches.Record{Kind: switches.Out, TID: 7, InNS: from * us, NS: to * us, Thread: 1, CFP: cfp, Asleep: asleep}
		w.Note(&r)
		return r.Left
	}
	sample := func(at int64, work sampler.WorkID) {
		s := sampler.Sample{TimeNS: at * us, Threads: []sampler.Thread{{ID: 1, TID: 7, Quality: sampler.StackFresh, Serving: sampler.Serving{Work: work}}}}
		w.Saw(&s)
	}
	record(0, 10, 800, true)
	record(20, 30, 500, false)
	if list := w.Take(nil); len(list) != 0 {
		t.Errorf("before it is known where it waits: %+v", list)
	}
	record(40, 50, 800, true)
	sample(60, 0)
	record(70, 80, 900, true) // a frame further out than the one in which the thread waits for work
	if list := w.Take(nil); len(list) != 0 {
		t.Errorf("it has begun nothing: %+v", list)
	}
	record(90, 100, 500, false)
	list := w.Take(nil)
	if len(list) != 1 || list[0].TID != 7 || list[0].FromNS != 90*us || list[0].ByNS != 100*us {
		t.Fatalf("it has begun something: %+v", list)
	}
	if w.Served() {
		t.Error("no sample had work yet")
	}
	if sample(110, 3); !w.Served() {
		t.Error("a sample had work")
	}
	if record(120, 130, 600, true) || record(140, 150, 300, true) || len(w.Take(nil)) != 0 {
		t.Error("it goes on with it")
	}
	if list = w.Take(list); len(list) != 1 {
		t.Error("no sample has read it yet")
	}
	if !record(160, 170, 800, true) {
		t.Error("it has left it")
	}
	if list = w.Take(list); len(list) != 0 {
		t.Errorf("a sample would take the next work for this one: %+v", list)
	}
	looks := 0
	for at := int64(200); at < 2000; at += 100 {
		record(at, at+10, 500, false)
		looks += len(w.Take(nil))
		sample(at+20, 0)
		record(at+30, at+40, 800, true)
	}
	if looks != maxMisses {
		t.Errorf("it was looked at %d times for nothing", looks)
	}
	r := switches.Record{Kind: switches.Exited, TID: 7}
	if w.Note(&r); len(w.threads) != 0 {
		t.Error("a thread that has ended is remembered")
	}
}

// TestCopied: a copied request begins after its thread woke up. It ends when a record shows another request or none. A
// thread can wait for work on one stack while the copy is from another stack. Then a fiber serves the request, and
// ddtop does not report it.
func TestCopied(t *testing.T) {
	const us, low, end = 1000, 100, 1000
	w := New()
	record := func(from, to int64, cfp, serves uint64, asleep bool) *switches.Record {
		r := &switches.Record{Kind: switches.Out, TID: 7, InNS: from * us, NS: to * us, Thread: 1, CFP: cfp, Serves: serves, Asleep: asleep}
		w.Note(r)
		return r
	}
	begins := func(r *switches.Record, from, by int64) {
		t.Helper()
		if f, b, ok := w.Copied(r, low, end); !ok || f != from*us || b != by*us {
			t.Errorf("it has begun between %d and %d (%v), not %d and %d", f, b, ok, from*us, by*us)
		}
	}
	ends := func(r *switches.Record, at int64) {
		t.Helper()
		if !r.Ends || r.WorkNS != at*us {
			t.Errorf("a request has ended: %v at %d, not %d", r.Ends, r.WorkNS, at*us)
		}
	}
	record(0, 10, 800, 0, true)
	w.Saw(&sampler.Sample{TimeNS: 20 * us, Threads: []sampler.Thread{{ID: 1, TID: 7, Quality: sampler.StackFresh}}})
	record(30, 40, 700, 0, false) // the thread reads the request
	r := record(50, 60, 500, 0xa, true)
	if _, _, ok := w.Copied(r, 2000, 3000); ok {
		t.Error("the request of another stack")
	}
	if _, _, ok := w.Copied(r, low, end); ok || len(w.Take(nil)) != 1 {
		t.Error("the first one can have begun before the frame was known: its stack is to be read")
	}
	begins(record(62, 64, 500, 0x9, false), 62, 64)
	record(70, 80, 800, 0, true)
	record(82, 84, 700, 0, false)
	r = record(86, 90, 500, 0xa, true)
	begins(r, 82, 90)
	if len(w.Take(nil)) != 0 {
		t.Error("its stack is to be read as well")
	}
	if r := record(92, 94, 450, 0xa, false); r.Ends {
		t.Error("it goes on")
	}
	ends(record(96, 100, 600, 0, true), 100) // the thread waits for work in a deeper frame than before
	r = record(110, 120, 500, 0xb, false)
	begins(r, 110, 120)
	r = record(130, 150, 500, 0xc, false)
	ends(r, 140)
	begins(r, 130, 150)
	ends(record(160, 180, 900, 0, false), 170)
	if r := record(190, 200, 800, 0, true); r.Ends || !r.Left {
		t.Error("it has ended already")
	}
	record(210, 220, 700, 0, false) // from here on the thread can serve a short request
	r = record(230, 240, 500, 0xd, false)
	begins(r, 210, 240)
	if r := record(250, 260, 500, switches.ServesUnread, true); r.Ends || r.Left {
		t.Error("an environment that could not be read ends no request")
	}
	ends(record(270, 280, 800, 0, true), 280)
	record(290, 300, 800, switches.ServesUnread, true)
	r = record(310, 320, 500, 0xe, false)
	begins(r, 290, 320) // the request can have begun while memory could not be read
	record(330, 340, 800, 0, true)
	w.Take(nil)
	record(350, 360, 500, 0xf, true)
	if record(370, 380, 800, 0, true); len(w.Take(nil)) != 0 {
		t.Error("its stack is to be read after it has left its work")
	}
	w.Placed(405 * us)
	if _, _, ok := w.Copied(record(402, 404, 500, 0xd, false), low, end); ok {
		t.Error("a copy of another frame")
	}
	if _, _, ok := w.Copied(record(406, 408, 500, 0xe, false), low, end); ok {
		t.Error("it can have begun before its frame was known")
	}
}

// TestRest: if ddtop reads a thread and finds no work, it reads the thread less and less often, down to once in
// mostMissNS. If the thread has had work before, ddtop still reads it once in missNS.
func TestRest(t *testing.T) {
	const ms = int64(1e6)
	w, at := New(), int64(0)
	turn := func(work sampler.WorkID) (looked bool) {
		at += 10 * ms
		w.Note(&switches.Record{Kind: switches.Out, TID: 7, InNS: at - ms, NS: at, Thread: 1, CFP: 500})
		looked = len(w.Take(nil)) > 0
		x := sampler.Thread{TID: 7, Quality: sampler.StackFresh, Serving: sampler.Serving{Work: work}}
		w.Saw(&sampler.Sample{TimeNS: at + ms, Threads: []sampler.Thread{x}})
		w.Note(&switches.Record{Kind: switches.Out, TID: 7, InNS: at + 2*ms, NS: at + 3*ms, Thread: 1, CFP: 800, Asleep: true})
		w.Saw(&sampler.Sample{TimeNS: at + 4*ms, Threads: []sampler.Thread{{TID: 7, Quality: sampler.StackFresh}}})
		return looked
	}
	// apart returns the time between the next two readings, in ns.
	apart := func() int64 {
		for !turn(0) {
		}
		from := at
		for !turn(0) {
		}
		return at - from
	}
	for range 2 + maxMisses {
		turn(0)
	}
	for _, rest := range []int64{2 * missNS, 8 * missNS, mostMissNS, mostMissNS} {
		if got := apart(); got < rest || got > rest+20*ms {
			t.Errorf("it is read after %d ms, want %d", got/ms, rest/ms)
		}
	}
	turn(3)
	for range maxMisses {
		turn(0)
	}
	if got := apart(); got < missNS || got > missNS+20*ms {
		t.Errorf("a thread that has had work is read after %d ms", got/ms)
	}
}

// TestFirstRecord: if a sample has shown a thread without work, ddtop reads the thread's stack after the thread's first
// record. ddtop does not read a thread that no sample has shown.
func TestFirstRecord(t *testing.T) {
	w := New()
	w.Saw(&sampler.Sample{TimeNS: 1, Threads: []sampler.Thread{{TID: 7, Quality: sampler.StackFresh}, {TID: 8}}})
	for _, tid := range []int32{7, 8, 9} {
		w.Note(&switches.Record{Kind: switches.Out, TID: tid, InNS: 10, NS: 20, Thread: 1, CFP: 500})
	}
	if list := w.Take(nil); len(list) != 1 || list[0].TID != 7 || list[0].FromNS != 10 || list[0].ByNS != 20 {
		t.Errorf("%+v, want the thread that a sample has shown", list)
	}
	x := sampler.Thread{TID: 7, Quality: sampler.StackFresh, Serving: sampler.Serving{Work: 3}}
	w.Saw(&sampler.Sample{TimeNS: 30, Threads: []sampler.Thread{x}})
	w.Note(&switches.Record{Kind: switches.Out, TID: 7, InNS: 40, NS: 50, Thread: 1, CFP: 400})
	if list := w.Take(nil); len(list) != 0 || !w.Served() {
		t.Errorf("it works already, and is looked at: %+v", list)
	}
}
