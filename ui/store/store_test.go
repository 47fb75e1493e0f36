package store

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// TestStoreForgetsABurst: if it takes long to make a picture, many samples are copied and wait. After the picture, the
// store must free most of these copies and keep only a few to use them again.
func TestStoreForgetsABurst(t *testing.T) {
	samples := samplesOf(t, demosource.Options{Length: time.Second, HTTP: 3})
	s, err := New(demosource.New(demosource.Options{Length: time.Second, HTTP: 3}), Options{History: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	feed := func(from, to int) {
		for _, x := range samples[from:to] {
			s.Feed(x)
		}
	}
	n := len(samples)
	if n < 3*maxSpare {
		t.Fatalf("%d samples are not a burst", n)
	}
	s.Read(func(*Reading) { feed(0, n/2) })
	s.Read(func(r *Reading) {
		if r.LastNS != samples[n/2-1].TimeNS || r.Dropped != 0 {
			t.Errorf("read up to %d, %d dropped; want %d, 0", r.LastNS, r.Dropped, samples[n/2-1].TimeNS)
		}
		if len(s.spare) != maxSpare {
			t.Errorf("%d samples are kept to be used again, want %d", len(s.spare), maxSpare)
		}
		feed(n/2, n)
		if len(s.spare) != 0 {
			t.Errorf("%d samples were not used again", len(s.spare))
		}
	})
	s.Read(func(r *Reading) {
		if r.LastNS != samples[n-1].TimeNS || len(s.spare) != maxSpare {
			t.Errorf("read up to %d, want %d; %d kept", r.LastNS, samples[n-1].TimeNS, len(s.spare))
		}
	})
}

// TestMarksGrowToTheHistory: the ring buffer of marks grows until it covers the length of the history. After that, each
// new mark must replace the oldest one.
func TestMarksGrowToTheHistory(t *testing.T) {
	m := newMarks(5 * time.Second)
	samples := samplesOf(t, demosource.Options{Length: time.Second, HTTP: 1})
	for i := range int64(40) {
		x := *samples[0]
		x.TimeNS = (i + 1) * MarkEachNS
		if !m.due(x.TimeNS) || m.due(i*MarkEachNS+1) && i > 0 {
			t.Fatalf("mark %d is not due when it should be", i)
		}
		m.add(&x, nil, findings.Growing{}, judged, StackReads{}, meters{}, sampler.Quality{})
		if m.last().TimeNS != x.TimeNS || m.LastBefore(x.TimeNS+1).TimeNS != x.TimeNS {
			t.Fatalf("after mark %d the newest is of %d", i, m.last().TimeNS)
		}
		if oldest := max(i-11, 0); m.Mark(0).TimeNS != (oldest+1)*MarkEachNS || len(m.ring) > 12 {
			t.Fatalf("after mark %d the oldest of %d is of %d", i, len(m.ring), m.Mark(0).TimeNS)
		}
		if i > 4 {
			if a, b, ok := m.Span(x.TimeNS-2*MarkEachNS, x.TimeNS); !ok || b.TimeNS-a.TimeNS != 2*MarkEachNS {
				t.Fatalf("the last second after mark %d is not between two marks", i)
			}
		}
	}
}

func samplesOf(t *testing.T, o demosource.Options) []*sampler.Sample {
	t.Helper()
	out, err := demosource.Samples(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
