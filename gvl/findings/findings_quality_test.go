package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestFindingsNeedQuality: with too few samples, no finding about shares of the time is raised. With more samples of
// the same load, or with known changes of the GVL, it is raised. The finding shows how many samples it is based on.
func TestFindingsNeedQuality(t *testing.T) {
	for _, c := range []struct {
		name  string
		every int64
		exact bool
		want  []string
	}{
		{"at 20 Hz", 50 * gvltest.MS, false, []string{"gvl_saturated"}},
		{"at 3 Hz", 333 * gvltest.MS, false, nil},
		{"at 3 Hz, every change is known", 333 * gvltest.MS, true, []string{"gvl_saturated"}},
	} {
		s := newScene(t)
		work := []sampler.StackID{s.stack("Work#a"), s.stack("Work#b")}
		for i := range 20 * gvltest.Sec / c.every {
			s.now += c.every
			a, b := sampler.ThreadID(1+i%2), sampler.ThreadID(2-i%2)
			x := gvltest.SampleAt(s.now, a, s.at(gvltest.Holder(a), work[i%2]), s.at(gvltest.Queued(b), work[1-i%2]), s.at(gvltest.Queued(3), work[0]))
			x.Depth, x.Self.Lowered = sampler.StackTick, true
			if c.exact {
				x.Changes = sampler.Changes{FromNS: s.now - c.every, ToNS: s.now}
			}
			s.stream.Feed(x, s.c.Classify(x))
		}
		found := s.f.Current()
		var ids []string
		for _, f := range found {
			ids = append(ids, f.ID)
			if n := 10 * gvltest.Sec / c.every; f.Evidence.Samples < n || f.Evidence.Samples > n*11/10+1 || c.exact != (f.Evidence.ApartNS() == 0) {
				t.Errorf("%s: %s rests on %+v", c.name, f.ID, f.Evidence)
			}
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", c.name, ids, c.want)
		}
	}
}
