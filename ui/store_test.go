package ui

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// A picture that took long, on a full machine, leaves no memory behind for all the samples that waited for it.
func TestStoreForgetsABurst(t *testing.T) {
	samples := record(t, demosource.Options{Length: time.Second, HTTP: 3})
	s, err := NewStore(demosource.New(demosource.Options{Length: time.Second, HTTP: 3}), time.Minute)
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
	s.Read(func(*reading) { feed(0, n/2) })
	s.Read(func(r *reading) {
		if r.lastNS != samples[n/2-1].TimeNS || r.dropped != 0 {
			t.Errorf("read up to %d, %d dropped; want %d, 0", r.lastNS, r.dropped, samples[n/2-1].TimeNS)
		}
		if len(s.spare) != maxSpare {
			t.Errorf("%d samples are kept to be used again, want %d", len(s.spare), maxSpare)
		}
		feed(n/2, n)
		if len(s.spare) != 0 {
			t.Errorf("%d samples were not used again", len(s.spare))
		}
	})
	s.Read(func(r *reading) {
		if r.lastNS != samples[n-1].TimeNS || len(s.spare) != maxSpare {
			t.Errorf("read up to %d, want %d; %d kept", r.lastNS, samples[n-1].TimeNS, len(s.spare))
		}
	})
}

// The ring of marks grows to what the history needs, and then the oldest go.
func TestMarksGrowToTheHistory(t *testing.T) {
	m := newMarks(5 * time.Second)
	samples := record(t, demosource.Options{Length: time.Second, HTTP: 1})
	for i := range int64(40) {
		x := *samples[0]
		x.TimeNS = (i + 1) * markEachNS
		if !m.due(x.TimeNS) || m.due(i*markEachNS+1) && i > 0 {
			t.Fatalf("mark %d is not due when it should be", i)
		}
		m.add(&x, nil, judged, stackReads{}, meters{}, sampler.Quality{})
		if m.newest().timeNS != x.TimeNS || m.before(x.TimeNS+1).timeNS != x.TimeNS {
			t.Fatalf("after mark %d the newest is of %d", i, m.newest().timeNS)
		}
		if oldest := max(i-11, 0); m.at(0).timeNS != (oldest+1)*markEachNS || len(m.ring) > 12 {
			t.Fatalf("after mark %d the oldest of %d is of %d", i, len(m.ring), m.at(0).timeNS)
		}
		if i > 4 {
			if a, b, ok := m.span(x.TimeNS-2*markEachNS, x.TimeNS); !ok || b.timeNS-a.timeNS != 2*markEachNS {
				t.Fatalf("the last second after mark %d is not between two marks", i)
			}
		}
	}
}
