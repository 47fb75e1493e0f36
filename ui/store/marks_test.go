package store

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
)

// TestMarksShareDetail: the newest mark has the heap figures of its own sample. Older marks have figures that are at
// most detailNS old, and share them, so that a history of ten minutes takes little memory.
func TestMarksShareDetail(t *testing.T) {
	m := newMarks(time.Minute)
	for ns := int64(1); ns < int64(2*time.Minute); ns += MarkEachNS {
		s := sampler.Sample{TimeNS: ns, GCDetail: sampler.GCDetail{AtNS: ns, Live: ns}, Classes: &sampler.AllocClasses{Seen: uint64(ns)}}
		if m.add(&s, nil, findings.Growing{}, judged, StackReads{}, meters{}, sampler.Quality{}); m.last().Heap.AtNS != ns || m.last().Classes.Seen != uint64(ns) {
			t.Fatalf("the newest mark, of %d ns, has a heap of %d ns", ns, m.last().Heap.AtNS)
		}
	}
	details := make(map[*sampler.GCDetail]bool)
	for i := range m.ring {
		x := m.Mark(i)
		details[x.Heap] = true
		if age := x.TimeNS - x.Heap.AtNS; age < 0 || age >= detailNS || x.Classes.Seen != uint64(x.Heap.AtNS) || x.Live != x.TimeNS {
			t.Errorf("the mark of %d ns has a heap of %d ns, classes of %d ns and slots of %d ns", x.TimeNS, x.Heap.AtNS, x.Classes.Seen, x.Live)
		}
	}
	if most := int(int64(time.Minute)/detailNS) + 3; len(details) > most {
		t.Errorf("%d marks have %d heaps, at most %d are allowed", len(m.ring), len(details), most)
	}
}
