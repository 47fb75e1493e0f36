package findings

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestHoldOverGaps: a thread keeps the GVL for 18 s, but there are several gaps between samples. ddtop must report one
// hold, because counters prove that no other thread had the GVL in a gap.
func TestHoldOverGaps(t *testing.T) {
	for _, c := range []struct {
		name     string
		stepNS   int64
		counters bool
		want     string
	}{
		{"short", 40 * gvltest.MS, true, "kept it 1"},
		{"long", 400 * gvltest.MS, true, "kept it 1"},
		{"without counters", 40 * gvltest.MS, false, "kept it ≥6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			hog, small := s.stack("c:Native.work"), s.stack("Server#handle")
			begin, end := s.now, s.now+18*gvltest.Sec
			for tick := 0; s.now < end; tick++ {
				s.now += gvltest.MS
				if tick%700 == 699 {
					s.now += c.stepNS - gvltest.MS
				}
				list := []sampler.Thread{s.at(gvltest.Holder(1), hog), s.at(gvltest.Queued(2), small), s.at(gvltest.Queued(3), small)}
				for i := range list {
					if k := &list[i].Kernel; c.counters {
						k.CPUAtNS, k.Turns, k.CPUNS = s.now, 5, 1000
						if i == 0 {
							k.CPUNS += s.now - begin
							k.Turns += int64(tick) // the thread loses its CPU to others at each tick
						}
					}
				}
				x := gvltest.SampleAt(s.now, 1, list...)
				x.GC.Valid = true
				s.stream.Feed(x, s.c.Classify(x))
			}
			for _, f := range s.f.Current() {
				if f.ID == "gvl_stuck" {
					if !strings.Contains(f.Text, c.want) || c.counters && !strings.Contains(f.Text, " s without") {
						t.Errorf("%s, want %q", f.Text, c.want)
					}
					return
				}
			}
			t.Errorf("no finding: %v", s.f.Current())
		})
	}
}

// TestHoldEndsInAGap: if another thread had the GVL in a gap between samples, the hold before the gap has ended.
func TestHoldEndsInAGap(t *testing.T) {
	s := newScene(t)
	hog, small := s.stack("c:Native.work"), s.stack("Server#handle")
	turns := int64(5)
	for tick := range 18_000 {
		s.now += gvltest.MS
		if tick%100 == 99 {
			s.now += 40 * gvltest.MS
			turns++
		}
		list := []sampler.Thread{s.at(gvltest.Holder(1), hog), s.at(gvltest.Queued(2), small)}
		for i := range list {
			k := &list[i].Kernel
			k.CPUAtNS, k.Turns, k.CPUNS = s.now, turns+int64(1-i)*int64(tick), turns*1000+int64(1-i)*int64(tick)*gvltest.MS
		}
		x := gvltest.SampleAt(s.now, 1, list...)
		x.GC.Valid = true
		s.stream.Feed(x, s.c.Classify(x))
	}
	for _, f := range s.f.Current() {
		if f.ID == "gvl_stuck" {
			t.Errorf("holds of 0.1 s: %s", f.Text)
		}
	}
}
