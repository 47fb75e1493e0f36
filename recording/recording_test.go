package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

var testProcess = sampler.Process{
	PID: 4711, StartTicks: 12, StartedAt: time.Unix(1_700_000_000, 5).UTC(), Title: "puma", CommandLine: []string{"puma", "-w", "2"},
	User: "app", Host: "web-1", RubyVersion: "3.4.11", RubyDescription: "ruby 3.4.11", JIT: "yjit", Era: sampler.EraSched,
	Machine: "x86_64", Layout: "3.4.9 x86_64", CPUs: 2, StackRate: 100, LockRate: 1000,
	AttachedAt: time.Unix(1_700_000_100, 7).UTC(), AttachedNS: 1e15, PriorityNote: "nice 0",
}

func TestFileRoundTrip(t *testing.T) {
	for seed := range uint64(rounds(10)) {
		g := newGenerator(seed)
		end := &sampler.End{AtNS: 5, Reason: "exited", ExitKnown: true, ExitCode: 3}
		file, want := record(t, 300, g.wild, g.d, end)
		r := openBytes(t, file)
		if r.Damage() != nil {
			t.Fatal(r.Damage())
		}
		if !reflect.DeepEqual(r.Process(), testProcess) {
			t.Errorf("process %+v", r.Process())
		}
		compare(t, "Run", readAll(t, r), want)
		if got, ok := r.End(); !ok || got != *end {
			t.Errorf("end %+v %v", got, ok)
		}
		first, last := r.Span()
		if first != want[0].sample.TimeNS || last != want[len(want)-1].sample.TimeNS || r.Duration() != time.Duration(last-first) {
			t.Errorf("span %d to %d", first, last)
		}
		if len(r.Blocks()) < 3 {
			t.Errorf("%d blocks for %v", len(r.Blocks()), r.Duration())
		}
		testParts(t, "file", want, r.Dictionary(), r.Range, r.At)
		testGone(t, g, r)
	}
}

// testGone checks that the recording has the end of each thread that ended. It leaves out threads that ended in the
// last block.
func testGone(t *testing.T, g *generator, r *Reader) {
	t.Helper()
	lastBlock := r.Blocks()[len(r.Blocks())-1]
	for id := sampler.ThreadID(1); id < g.nextID; id++ {
		want, _ := g.d.Thread(id)
		got, known := r.Dictionary().Thread(id)
		if known && want.GoneNS != 0 && want.GoneNS < lastBlock.FirstNS && got != want {
			t.Fatalf("thread %d: %+v, want %+v", id, got, want)
		}
	}
}

// testParts compares the samples that Range and At return with those that were written.
func testParts(t *testing.T, what string, want []resolved, d *sampler.Dictionary, rng func(t0, t1 int64, fn func(*sampler.Sample)) error,
	at func(int64) (*sampler.Sample, error)) {
	t.Helper()
	hashes := newHashes(d)
	for _, c := range [][2]int{{0, len(want)}, {0, 1}, {len(want) / 3, len(want) / 2}, {len(want) - 1, len(want)}, {5, 5}} {
		t0, t1 := want[min(c[0], len(want)-1)].sample.TimeNS, int64(1<<62)
		if c[1] < len(want) {
			t1 = want[c[1]].sample.TimeNS
		}
		var expect, got []resolved
		for i, s := range want {
			if s.sample.TimeNS >= t0 && s.sample.TimeNS < t1 {
				if len(expect) == 0 {
					s = joined(want, i, 0, false)
				}
				expect = append(expect, s)
			}
		}
		if err := rng(t0, t1, func(s *sampler.Sample) { got = append(got, resolve(s, hashes)) }); err != nil {
			t.Fatal(err)
		}
		compare(t, what+" Range", got, expect)
	}
	for _, i := range []int{0, 1, len(want) / 2, len(want) - 1} {
		next := int64(1 << 62)
		if i+1 < len(want) {
			next = want[i+1].sample.TimeNS
		}
		for _, ns := range []int64{want[i].sample.TimeNS, next - 1} {
			if ns < want[i].sample.TimeNS {
				continue // two samples have the same time, so At returns the later one
			}
			s, err := at(ns)
			if err != nil || s == nil {
				t.Fatalf("%s: At(%d): %v %v", what, ns, s, err)
			}
			if i+1 < len(want) && next == want[i].sample.TimeNS {
				continue
			}
			compare(t, what+" At", []resolved{resolve(s, hashes)}, want[i:i+1])
		}
	}
	if s, err := at(want[0].sample.TimeNS - 1); s != nil || err != nil {
		t.Errorf("%s: At before the first sample: %v %v", what, s, err)
	}
}

func TestProgramRoundTrip(t *testing.T) {
	g := newGenerator(1)
	file, want := record(t, 3500, func() *sampler.Sample { return g.program(20) }, g.d, nil)
	r := openBytes(t, file)
	compare(t, "Run", readAll(t, r), want)
	if _, ok := r.End(); ok {
		t.Error("an end that nobody saw")
	}
}

// TestEachBlockStandsAlone reads only one block of a file, with an empty Dictionary. The samples must be the same as in
// the whole file.
func TestEachBlockStandsAlone(t *testing.T) {
	g := newGenerator(3)
	file, want := record(t, 400, g.wild, g.d, nil)
	n := len(openBytes(t, file).Blocks())
	for i := 0; i < n; i += raceDivisor {
		r := openBytes(t, file)
		b := r.Blocks()[i]
		var got, expect []resolved
		d, err := r.decoder(i)
		if err != nil {
			t.Fatal(err)
		}
		for d.next() {
			got = append(got, resolve(&d.sample, newHashes(r.Dictionary())))
		}
		for _, s := range want {
			if s.sample.TimeNS >= b.FirstNS && s.sample.TimeNS <= b.LastNS {
				expect = append(expect, s)
			}
		}
		if len(got) != b.Samples {
			t.Errorf("block %d has %d samples, its header says %d", i, len(got), b.Samples)
		}
		compare(t, "block", got, expect)
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	for seed := range uint64(rounds(10)) {
		g := newGenerator(seed)
		h, err := NewHistory(1<<62, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := h.At(1); s != nil || err != nil {
			t.Errorf("At of an empty history: %v %v", s, err)
		}
		var want []resolved
		hashes := newHashes(g.d)
		for range 300 {
			s := g.wild()
			want = append(want, resolve(asWritten(s), hashes))
			if err := h.Append(s); err != nil {
				t.Fatal(err)
			}
		}
		testParts(t, "history", want, g.d, h.Range, h.At)
		first, last := h.Span()
		if first != want[0].sample.TimeNS || last != want[len(want)-1].sample.TimeNS {
			t.Errorf("span %d to %d", first, last)
		}
		var buf bytes.Buffer
		if err := h.SaveAs(&buf, testProcess, g.d, 0, 1<<62, &sampler.End{Reason: "exited"}, nil); err != nil {
			t.Fatal(err)
		}
		r := openBytes(t, buf.Bytes())
		want[0] = joined(want, 0, 0, false)
		compare(t, "saved", readAll(t, r), want)
		if end, ok := r.End(); !ok || end.Reason != "exited" {
			t.Errorf("end %+v", end)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	g := newGenerator(5)
	byTime, err := NewHistory(3e9, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 200 << 10
	bySize, err := NewHistory(1<<62, limit)
	if err != nil {
		t.Fatal(err)
	}
	for range 20000 {
		s := g.program(100)
		for _, h := range []*History{byTime, bySize} {
			if err := h.Append(s); err != nil {
				t.Fatal(err)
			}
		}
		first, last := byTime.Span()
		if last-first > 3e9+3*blockNS {
			t.Fatalf("%v kept, the limit is 3 s", time.Duration(last-first))
		}
		bySize.mu.Lock()
		kept := bySize.bytes
		bySize.mu.Unlock()
		if kept > limit {
			t.Fatalf("%d bytes kept, the limit is %d", kept, limit)
		}
	}
	if first, last := bySize.Span(); first == 0 || last-first < 1e9 {
		t.Errorf("only %v fits %d bytes", time.Duration(last-first), limit)
	}
	if _, last := byTime.Span(); last != g.s.TimeNS {
		t.Errorf("the newest sample is at %d, appended %d", last, g.s.TimeNS)
	}
}

// TestHistoryConcurrently reads a History while samples are appended to it, so that the race detector can find races.
func TestHistoryConcurrently(t *testing.T) {
	g := newGenerator(6)
	h, err := NewHistory(5e9, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	stop := make(chan struct{})
	for range 2 {
		go func() {
			var failed error
			for {
				select {
				case <-stop:
					done <- failed
					return
				default:
				}
				first, last := h.Span()
				lastSeen := int64(0)
				err := h.Range(last-2e9, 1<<62, func(s *sampler.Sample) {
					if s.TimeNS <= lastSeen || len(s.Threads) != 20 {
						failed = errors.New("samples out of order or torn")
					}
					lastSeen = s.TimeNS
				})
				if _, atErr := h.At((first + last) / 2); err == nil {
					err = atErr
				}
				if err == nil && last != 0 && lastSeen < last {
					err = errors.New("the newest sample is missing")
				}
				if err != nil {
					failed = err
				}
				h.Bytes()
			}
		}()
	}
	for range 8000 {
		if err := h.Append(g.program(20)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	g := newGenerator(4)
	file, want := record(t, 50, g.wild, g.d, nil)
	put := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	r, err := Open(put("good", file))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "file", readAll(t, r), want)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	newer := bytes.Clone(file)
	binary.LittleEndian.PutUint32(newer[len(fileMagic):], Version+1)
	for name, c := range map[string]struct {
		b   []byte
		err error
	}{"empty": {nil, errNotRecording}, "other": {[]byte(strings.Repeat("gzip", 99)), errNotRecording}, "newer": {newer, errVersion}} {
		if _, err := Open(put(name, c.b)); !errors.Is(err, c.err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	// A newer kind of block is skipped.
	unknown := appendBlock(bytes.Clone(file), header{kind: 77, raw: 3}, []byte("abc"))
	if r := openBytes(t, unknown); r.Damage() != nil || len(readAll(t, r)) != len(want) {
		t.Errorf("unknown block: %v", r.Damage())
	}
}

// TestFlush: after Flush, all samples that were written before it can be read, while the recording continues.
func TestFlush(t *testing.T) {
	g := newGenerator(2)
	var buf bytes.Buffer
	w, err := NewWriter(&buf, testProcess, g.d)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		if err := w.Write(g.wild()); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := len(readAll(t, openBytes(t, buf.Bytes()))); got != n+1 {
			t.Errorf("%d samples after %d", got, n+1)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Error(err)
	}
}

// TestNotes: notes are read in the order of their times, even if they were written in another order. If a part of the
// history is saved, the recording has the notes of this part's time.
func TestNotes(t *testing.T) {
	g := newGenerator(2)
	var buf bytes.Buffer
	w, err := NewWriter(&buf, testProcess, g.d)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(1<<62, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	notes := []sampler.Note{{AtNS: 2e9, Text: "deploy \x1b[2J zurückgerollt"}, {AtNS: 1e9, Text: "deploy"}, {AtNS: 2e9, Text: "later"}}
	samples := 0
	for i := range 30 {
		s := g.wild()
		if err := errors.Join(w.Write(s), h.Append(s)); err != nil {
			t.Fatal(err)
		}
		samples++
		if i%10 == 9 {
			if err := w.Note(notes[i/10]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Note(sampler.Note{Text: strings.Repeat("x", maxNoteText+1)}); !errors.Is(err, errLimit) {
		t.Errorf("a note of any length: %v", err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Note(notes[0]); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	want := []sampler.Note{notes[1], notes[0], notes[2]}
	r := openBytes(t, buf.Bytes())
	if got := r.Notes(); !reflect.DeepEqual(got, want) || r.Damage() != nil || len(readAll(t, r)) != samples {
		t.Errorf("%+v, damage %v", got, r.Damage())
	}
	buf.Reset()
	if err := h.SaveAs(&buf, testProcess, g.d, 0, 2e9, nil, notes); err != nil {
		t.Fatal(err)
	}
	if got := openBytes(t, buf.Bytes()).Notes(); !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("of the first 2 s: %+v", got)
	}
}
