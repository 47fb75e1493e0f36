package recording

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// statesAt returns each thread's state towards the GVL after the changes of sample i. It computes the states from the
// changes of all samples up to i. ok is false if the states are not known, because some changes are missing.
func statesAt(all []resolved, i int) (list []sampler.Change, ok bool) {
	states, before := map[int32]sampler.Change{}, int64(0)
	for _, s := range all[:i+1] {
		c := &s.sample.Changes
		if ok = c.Known() && (c.Fresh || ok && c.FromNS == before); !ok || c.Fresh {
			clear(states)
		}
		before = c.ToNS
		for _, x := range c.List {
			states[x.TID] = sampler.Change{AtNS: all[i].sample.Changes.ToNS, Thread: x.Thread, TID: x.TID, State: x.State}
			if x.State == sampler.GVLGone {
				delete(states, x.TID)
			}
		}
	}
	for _, x := range states {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b sampler.Change) int { return cmp.Compare(a.TID, b.TID) })
	return list, ok
}

// joined returns what a reader must get for sample i. The reader has all changes of the GVL up to beforeNS, but no
// changes between beforeNS and this sample. begun is false if the reader began in the middle of the recording.
func joined(all []resolved, i int, beforeNS int64, begun bool) resolved {
	s := all[i]
	c := &s.sample.Changes
	list, ok := statesAt(all, i)
	if !c.Known() || c.Fresh || c.FromNS == beforeNS || begun && !ok {
		return s
	}
	to := c.ToNS
	if *c = (sampler.Changes{}); ok {
		*c = sampler.Changes{FromNS: to, ToNS: to, Fresh: true, List: list}
	}
	return s
}

// lockSamples makes n samples, 100 per second, with the changes of a GVL. The first sample also has the states of all
// threads (Fresh).
func lockSamples(m *lockModel, n int) []*sampler.Sample {
	var list []*sampler.Sample
	last := int64(1e15)
	m.atNS = last
	for i := range n {
		s := &sampler.Sample{TimeNS: last + 1e7, Depth: sampler.StackTick}
		m.fill(&s.Changes, last, s.TimeNS, i == 0)
		list = append(list, s)
		last = s.TimeNS
	}
	return list
}

// TestHistoryAfter: one reader reads the history by several calls of After, and another one by a single call. Both must
// get the same changes of the GVL.
func TestHistoryAfter(t *testing.T) {
	m := newLockModel(3)
	for range 20 {
		m.add(true)
	}
	h, err := NewHistory(1<<62, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []resolved
	hashes := newHashes(sampler.NewDictionary())
	last := int64(0)
	read := func() {
		if err := h.After(last, 1<<62, func(s *sampler.Sample) { got, last = append(got, resolve(s, hashes)), s.TimeNS }); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range lockSamples(m, 700) { // 7 s, in several blocks
		want = append(want, resolve(s, hashes))
		if err := h.Append(s); err != nil {
			t.Fatal(err)
		}
		if i%9 == 0 {
			read()
		}
	}
	read()
	compare(t, "piece by piece", got, want)
	last, got = want[300].sample.TimeNS, nil
	if err := h.After(last-1, 1<<62, func(s *sampler.Sample) { got = append(got, resolve(s, hashes)) }); err != nil {
		t.Fatal(err)
	}
	want[300] = joined(want, 300, 0, false)
	compare(t, "after what was no sample's time", got, want[300:])
}

// TestPartsStandAlone: the screen and `ddtop record --when` write a part of a recording as a new recording. The new
// recording must have the states of all threads, and all changes of the GVL in its time. The same must be true for a
// part of the new recording.
func TestPartsStandAlone(t *testing.T) {
	m := newLockModel(4)
	for range 200 { // more threads than changesState.recent can hold
		m.add(true)
	}
	h, err := NewHistory(1<<62, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	d := sampler.NewDictionary()
	hashes := newHashes(d)
	var want []resolved
	for _, s := range lockSamples(m, 900) {
		want = append(want, resolve(s, hashes))
		if err := h.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if err := h.SaveAs(&buf, testProcess, d, want[333].sample.TimeNS, 1<<62, nil, nil); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, buf.Bytes())
	part := append([]resolved{joined(want, 333, 0, false)}, want[334:]...)
	if n := len(part[0].sample.Changes.List); n != 200 || !part[0].sample.Changes.Fresh {
		t.Fatalf("%d threads at the beginning of the part", n)
	}
	compare(t, "part", readAll(t, r), part)
	var got []resolved
	if err := r.Range(want[700].sample.TimeNS, want[800].sample.TimeNS, func(s *sampler.Sample) { got = append(got, resolve(s, hashes)) }); err != nil {
		t.Fatal(err)
	}
	compare(t, "part of it", got, append([]resolved{joined(want, 700, 0, false)}, want[701:800]...))
}

// TestThreadsOfChanges: a thread gets and releases the GVL between two samples, but no sample lists this thread. The
// block must still have the thread's name.
func TestThreadsOfChanges(t *testing.T) {
	d := sampler.NewDictionary()
	d.SetThread(sampler.ThreadInfo{ID: 7, Name: "short", HasName: true})
	d.SetThread(sampler.ThreadInfo{ID: 8, Name: "sleeps", HasName: true})
	samples := []*sampler.Sample{
		{TimeNS: 1e9, Changes: sampler.Changes{FromNS: 1e9, ToNS: 1e9, Fresh: true, List: []sampler.Change{{AtNS: 1e9, Thread: 8, TID: 80, State: sampler.GVLReleased}}}},
		{TimeNS: 4e9, Changes: sampler.Changes{FromNS: 1e9, ToNS: 4e9, List: []sampler.Change{{AtNS: 2e9, Thread: 7, TID: 70, State: sampler.GVLHeld}, {AtNS: 3e9, Thread: 7, TID: 70}}}},
	}
	file, want := record(t, 2, func() *sampler.Sample { s := samples[0]; samples = samples[1:]; return s }, d, nil)
	r := openBytes(t, file)
	if n := len(r.Blocks()); n != 2 {
		t.Fatalf("%d blocks", n)
	}
	if err := r.Range(4e9, 5e9, func(s *sampler.Sample) { // reads only the second block
		if list := s.Changes.List; len(list) != 1 || list[0].Thread != 8 || !s.Changes.Fresh {
			t.Errorf("%+v", s.Changes)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for id, name := range map[sampler.ThreadID]string{7: "short", 8: "sleeps"} {
		if info, _ := r.Dictionary().Thread(id); info.Name != name {
			t.Errorf("thread %d is %q, not %q", id, info.Name, name)
		}
	}
	compare(t, "both", readAll(t, r), want)
}

// TestRefusedChanges: if a reader would refuse the changes of the GVL in a sample, the Writer returns an error and does
// not write the sample. The recording continues with the next sample.
func TestRefusedChanges(t *testing.T) {
	w, err := NewWriter(io.Discard, testProcess, sampler.NewDictionary())
	if err != nil {
		t.Fatal(err)
	}
	at := func(ns ...int64) (list []sampler.Change) {
		for _, n := range ns {
			list = append(list, sampler.Change{AtNS: n, TID: 1, State: sampler.GVLHeld})
		}
		return list
	}
	for name, x := range map[string]struct {
		list []sampler.Change
		err  error
	}{
		"too many":         {make([]sampler.Change, sampler.MaxChanges+1), errLimit},
		"out of order":     {at(103, 102), errChanges},
		"before":           {at(99), errChanges},
		"after":            {at(201), errChanges},
		"an unknown state": {[]sampler.Change{{AtNS: 150, State: sampler.GVLHeld + 1}}, errChanges},
		"as they should":   {at(100, 100, 150, 200), nil},
	} {
		s := &sampler.Sample{TimeNS: 200, Changes: sampler.Changes{FromNS: 100, ToNS: 200, List: x.list}}
		if err := w.Write(s); !errors.Is(err, x.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Close(nil); err != nil || w.Written() != 1 {
		t.Errorf("%d samples written: %v", w.Written(), err)
	}
}

// TestLyingChanges: some changes of the GVL in a file were made by hand. A reader accepts them if they follow all rules
// of the format. Otherwise it refuses them with an error.
func TestLyingChanges(t *testing.T) {
	head := func(flags uint64, rest ...uint64) *craft {
		return new(craft).uints(append([]uint64{sampleChanges, 0, flags}, rest...)...)
	}
	// thread 3, tid 7 (a signed number: the format writes 7 as 14)
	named := func(bits uint64, more ...uint64) []uint64 { return append([]uint64{bits, 3, 14}, more...) }
	list := func(n uint64, elements ...[]uint64) []uint64 {
		return append([]uint64{n}, slices.Concat(elements...)...)
	}
	for name, x := range map[string]struct {
		structure *craft
		times     []uint64
		err       string
	}{
		"a change":                     {head(changesFresh|changesFrom, list(1, named(0))...), []uint64{4, 0, 4000, 5}, ""},
		"a thread that is not there":   {head(changesFresh|changesFrom, list(1, []uint64{1 << changeBits})...), []uint64{4, 0, 4000, 5}, "has not changed"},
		"a place of 64 bits":           {head(changesFresh|changesFrom, list(1, []uint64{1<<64 - 1})...), []uint64{4, 0, 4000, 5}, "has not changed"},
		"named twice":                  {head(changesFresh|changesFrom, list(2, named(0), named(0))...), []uint64{4, 0, 4000, 5, 5}, "named twice"},
		"a state of the future":        {head(changesFresh|changesFrom, list(1, named(changeOdd, 99))...), []uint64{4, 0, 4000, 5}, "a state"},
		"after the sample":             {head(changesFresh|changesFrom, list(1, named(0))...), []uint64{4, 0, 4000, 21}, "out of their time"},
		"a time of 64 bits":            {head(changesFresh|changesFrom, list(1, named(0))...), []uint64{4, 0, 4000, 1<<64 - 1}, "out of their time"},
		"an end before the beginning":  {head(changesFresh|changesFrom|changesTo, list(1, named(0))...), []uint64{4, 0, 4000, 4001, 0}, "out of their time"},
		"65,537 changes":               {head(changesFresh|changesFrom, sampler.MaxChanges+1).times(3*sampler.MaxChanges, 0), []uint64{4, 0, 4000}, "too long"},
		"states":                       {head(changesStates|changesFrom, 1, 6, 14, 2, 0), []uint64{4, 0, 4000}, ""},
		"states of threads' next life": {head(changesStates|changesFrom, 1, 6, 14, 5, 0), []uint64{4, 0, 4000}, "a state"},
		"a million states":             {head(changesStates|changesFrom, 1<<20).times(3<<20, 0), []uint64{4, 0, 4000}, "too long"},
	} {
		b := new(craft).oneOfEach()
		times := new(craft).uints(x.times...)
		b.uints(uint64(len(x.structure.b)), uint64(len(times.b)))
		b.b = append(append(b.b, x.structure.b...), times.b...)
		file := craftFile(t, 1, b)
		r, err := NewReader(bytes.NewReader(file), int64(len(file)), "lies.ddtop")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = r.Run(context.Background(), func(*sampler.Sample) { n++ })
		r.Close()
		if x.err == "" && (n != 1 || !errors.Is(err, sampler.ErrEnded)) || x.err != "" && (n != 0 || !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), x.err)) {
			t.Errorf("%s: %d samples, %v", name, n, err)
		}
	}
}

// TestLyingChangesWork: a crafted block of some KB can contain a huge number of changes of the GVL. Reading it must
// stop after a limited number, and take limited memory.
func TestLyingChangesWork(t *testing.T) {
	structure := new(craft)
	times := new(craft)
	for i := range maxListedChanges/sampler.MaxChanges + 8 {
		flags := uint64(changesFresh | changesFrom)
		structure.uints(sampleChanges, uint64(0), flags, sampler.MaxChanges)
		for n := range sampler.MaxChanges { // each change is of another thread
			structure.uints(0, uint64(n), uint64(2*(n+i)))
		}
		times.uints(2, 0, 0).times(sampler.MaxChanges, 0)
	}
	b := new(craft).oneOfEach().uints(uint64(len(structure.b)), uint64(len(times.b)))
	b.b = append(append(b.b, structure.b...), times.b...)
	file := craftFile(t, 1000, b)
	changes := 0
	var err error
	got := allocated(func() {
		r, e := NewReader(bytes.NewReader(file), int64(len(file)), "lies.ddtop")
		if e != nil {
			t.Fatal(e)
		}
		defer r.Close()
		err = r.Run(context.Background(), func(s *sampler.Sample) { changes += len(s.Changes.List) })
	})
	if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "too many changes") || changes > maxListedChanges || changes < maxListedChanges/2 {
		t.Errorf("%d changes in a file of %d bytes: %v", changes, len(file), err)
	}
	if most := most(file); got > most {
		t.Errorf("%d MB for a file of %d KB whose block holds %d MB; %d MB are the most", got>>20, len(file)>>10, len(b.b)>>20, most>>20)
	}
}

// TestSizeOfChanges: the GVL changes 15,000 or 20,000 times per second. Each change takes at most 4 bytes before
// compression, and less after compression.
func TestSizeOfChanges(t *testing.T) {
	if raceDivisor > 1 {
		t.Skip("a size, which the race detector has nothing to do with")
	}
	for _, x := range []struct {
		name                       string
		threads                    int
		unitNS, holdNS, outsideNS  int64
		mostRaw, mostStored, least float64
	}{
		{"8 threads, 20,000 a second", 8, 100, 60_000, 1_000_000, 4, 3, 10_000},
		{"60 threads, 15,000 a second", 60, 100, 200_000, 10_000_000, 4, 3, 10_000},
		{"in ns", 8, 1, 60_000, 1_000_000, 5, 4.5, 10_000},
	} {
		m := newLockModel(5)
		m.unitNS, m.holdNS, m.outsideNS = x.unitNS, x.holdNS, x.outsideNS
		for range x.threads {
			m.add(true)
		}
		samples := lockSamples(m, 1000)
		size := func(with bool) (raw, stored, changes float64) {
			var n countWriter
			w, err := NewWriter(&n, testProcess, sampler.NewDictionary())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range samples {
				s := s.Clone()
				if changes += float64(len(s.Changes.List)); !with {
					s.Changes = sampler.Changes{}
				}
				if w.enc.full(s) {
					raw += float64(w.enc.out.size())
				}
				if err := w.Write(s); err != nil {
					t.Fatal(err)
				}
			}
			raw += float64(w.enc.out.size())
			if err := w.Close(nil); err != nil {
				t.Fatal(err)
			}
			return raw, float64(n), changes
		}
		raw, stored, changes := size(true)
		raw0, stored0, _ := size(false)
		raw, stored = (raw-raw0)/changes, (stored-stored0)/changes
		t.Logf("%s: %.0f changes a second, %.2f bytes each, %.2f compressed", x.name, changes/10, raw, stored)
		if raw > x.mostRaw || stored > x.mostStored || changes/10 < x.least {
			t.Errorf("%s: %.0f changes a second take %.2f bytes each, %.2f compressed", x.name, changes/10, raw, stored)
		}
	}
}
