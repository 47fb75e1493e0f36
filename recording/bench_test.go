package recording

import (
	"bytes"
	"io"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// minute is the number of samples in a minute, if ddtop reads the GVL's state 1,000 times per second. Every tenth
// sample also has all stacks.
const minute = 60_000

// TestSizeOfAMinute: a recording of one minute and 100 threads takes less than 2 MB. Stacks are read at 100 Hz, and the
// GVL's state at 1 kHz.
func TestSizeOfAMinute(t *testing.T) {
	if raceDivisor > 1 {
		t.Skip("a size, which the race detector has nothing to do with")
	}
	g := newGenerator(11)
	h, err := NewHistory(1<<62, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	var n countWriter
	w, err := NewWriter(&n, testProcess, g.d)
	if err != nil {
		t.Fatal(err)
	}
	for range minute {
		s := g.program(100)
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
		if err := h.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("a minute takes %d bytes in a file, %d in memory", n, h.Bytes())
	if n > 2e6 {
		t.Errorf("a minute takes %d bytes in a file", n)
	}
	if h.Bytes() > 15<<20 {
		t.Errorf("a minute takes %d bytes in memory", h.Bytes())
	}
}

type countWriter int64

func (n *countWriter) Write(b []byte) (int, error) {
	*n += countWriter(len(b))
	return len(b), nil
}

// samplesOf makes n samples in advance, so that a benchmark measures only the encoding.
func samplesOf(n, threads int) (*generator, []*sampler.Sample) {
	g := newGenerator(12)
	out := make([]*sampler.Sample, n)
	for i := range out {
		out[i] = g.program(threads).Clone()
	}
	return g, out
}

// feed passes the samples to the function one, again and again until the benchmark ends. For each repetition, feed
// moves the samples' times forward, so that times always grow.
func feed(b *testing.B, samples []*sampler.Sample, one func(*sampler.Sample) error) {
	b.Helper()
	span := samples[len(samples)-1].TimeNS - samples[0].TimeNS + 1e6
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := samples[i%len(samples)]
		if i >= len(samples) {
			s.TimeNS += span
		}
		if err := one(s); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name    string
		threads int
	}{{"10threads", 10}, {"100threads", 100}, {"500threads", 500}} {
		b.Run(c.name, func(b *testing.B) {
			_, samples := samplesOf(4000, c.threads)
			h, err := NewHistory(600e9, 150<<20)
			if err != nil {
				b.Fatal(err)
			}
			feed(b, samples, h.Append)
		})
	}
}

// BenchmarkEncode measures how long Append takes to encode a sample. It leaves out the work that Append does only once
// per second.
func BenchmarkEncode(b *testing.B) {
	_, samples := samplesOf(1000, 100)
	e := newEncoder(false)
	e.begin(streams{})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%len(samples) == 0 {
			e.begin(e.out)
		}
		if err := e.add(samples[i%len(samples)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkWrite measures what a Writer costs the goroutine that takes samples. Another goroutine compresses in
// parallel.
func BenchmarkWrite(b *testing.B) {
	g, samples := samplesOf(4000, 100)
	w, err := NewWriter(io.Discard, testProcess, g.d)
	if err != nil {
		b.Fatal(err)
	}
	feed(b, samples, w.Write)
	if err := w.Close(nil); err != nil {
		b.Fatal(err)
	}
}

// filled returns a History of n samples of 100 threads.
func filled(b *testing.B, n int) *History {
	b.Helper()
	_, samples := samplesOf(n, 100)
	h, err := NewHistory(600e9, 150<<20)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range samples {
		if err := h.Append(s); err != nil {
			b.Fatal(err)
		}
	}
	return h
}

// BenchmarkRange reads 30 s of 100 threads from the history. ns/op is the time for the whole 30 s.
func BenchmarkRange(b *testing.B) {
	h := filled(b, 32000)
	_, last := h.Span()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		if err := h.Range(last-30e9, last+1, func(*sampler.Sample) { n++ }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n), "samples/op")
}

// BenchmarkAt measures how long History.At takes to find the sample at one moment.
func BenchmarkAt(b *testing.B) {
	h := filled(b, 8000)
	first, last := h.Span()
	for b.Loop() {
		if s, err := h.At((first + last) / 2); s == nil || err != nil {
			b.Fatal(s, err)
		}
	}
}

// tenMinutes writes a recording of ten minutes with 100 threads. It repeats the samples of one minute ten times.
func tenMinutes(b *testing.B) []byte {
	b.Helper()
	g, samples := samplesOf(minute, 100)
	var buf bytes.Buffer
	w, err := NewWriter(&buf, testProcess, g.d)
	if err != nil {
		b.Fatal(err)
	}
	span := samples[len(samples)-1].TimeNS - samples[0].TimeNS + 1e6
	for range 10 {
		for _, s := range samples {
			if err := w.Write(s); err != nil {
				b.Fatal(err)
			}
			s.TimeNS += span
		}
	}
	if err := w.Close(nil); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// BenchmarkTenMinutes measures a big recording: how long it takes to open it (with all checksums), to seek to a moment,
// and to read all of it.
func BenchmarkTenMinutes(b *testing.B) {
	file := tenMinutes(b)
	open := func(b *testing.B) *Reader {
		b.Helper()
		r, err := NewReader(bytes.NewReader(file), int64(len(file)), "bench")
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open(b).Close()
		}
		b.ReportMetric(float64(len(file))/1e6, "MB")
	})
	b.Run("seek", func(b *testing.B) {
		r := open(b)
		defer r.Close()
		first, last := r.Span()
		i := int64(0)
		for b.Loop() {
			i = (i + 7919) % 10_000 // choose moments in all parts of the file
			if s, err := r.At(first + (last-first)/10_000*i); s == nil || err != nil {
				b.Fatal(s, err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		n := 0
		for b.Loop() {
			r := open(b)
			n = 0
			if err := r.Range(0, 1<<62, func(*sampler.Sample) { n++ }); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/sample")
	})
}

// BenchmarkEncodeChanges measures the encoding of one second in which the GVL changes about 28,000 times. A change is
// the moment at which a thread asks for the GVL, gets it or releases it (sampler.Changes).
func BenchmarkEncodeChanges(b *testing.B) {
	m := newLockModel(5)
	m.holdNS, m.outsideNS = 60_000, 1_000_000
	for range 8 {
		m.add(true)
	}
	samples := lockSamples(m, 100)
	changes := 0
	for _, s := range samples {
		changes += len(s.Changes.List)
	}
	e := newEncoder(false)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		e.begin(e.out)
		for _, s := range samples {
			if err := e.add(s); err != nil {
				b.Fatal(err)
			}
		}
		n += changes
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
}

// BenchmarkDecodeChanges measures the decoding of the same changes of the GVL that BenchmarkEncodeChanges encodes.
func BenchmarkDecodeChanges(b *testing.B) {
	m := newLockModel(5)
	m.holdNS, m.outsideNS = 60_000, 1_000_000
	for range 8 {
		m.add(true)
	}
	e := newEncoder(false)
	e.begin(streams{})
	changes := 0
	for _, s := range lockSamples(m, 100) {
		changes += len(s.Changes.List)
		if err := e.add(s); err != nil {
			b.Fatal(err)
		}
	}
	d := newDecoder()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for d.openStreams(e.out, e.samples); d.next(); {
		}
		if d.err() != nil {
			b.Fatal(d.err())
		}
		n += changes
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
}
