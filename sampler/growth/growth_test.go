package growth

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// program makes counts of the heap of an invented program, one every two seconds. A count has the objects that are
// alive, and the garbage that has become old since the last major collection.
type program struct {
	alive   func(second float64) float64
	garbage float64 // garbage that becomes old, in objects per second
	major   float64 // seconds between two major collections; zero means none
}

func (p program) watch(seconds float64) *Watch {
	var w Watch
	lastMajor, majors := 0.0, uint64(7)
	for i := 0; float64(i)*2 <= seconds; i++ {
		now := float64(i) * 2
		for p.major > 0 && lastMajor+p.major <= now {
			lastMajor += p.major
			majors++
		}
		old := uint64(p.alive(now) + p.garbage*(now-lastMajor))
		w.Add(&sampler.HeapCount{BeganNS: int64(now * 1e9), Collections: uint64(100 + 5*i), Majors: majors, Classes: []sampler.HeapKind{
			{Name: "Entry", Objects: old + 10, Old: old, SlotBytes: 40 * (old + 10)}, {Name: "Still", Objects: 5, Old: 5, SlotBytes: 200}}})
	}
	return &w
}

func TestGrowth(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	saw := func(top float64) func(float64) float64 {
		return func(s float64) float64 { return float64(int(1000*s) % int(top)) }
	}
	for _, c := range []struct {
		name    string
		p       program
		seconds float64
		// rate is the growth with which the class must be reported, in objects per second. It is zero if the class must
		// not be reported. sure is true if the growth must be confirmed. leak is true if it must be reported as a leak.
		rate float64
		sure bool
		leak bool
	}{
		{"a slow leak", program{alive: func(s float64) float64 { return 500 + 20*s }}, 20, 20, false, false},
		{"a slow leak over major collections",
			program{alive: func(s float64) float64 { return 500 + 20*s }, major: 4}, 30, 20, true, false},
		{"a leak beside garbage",
			program{alive: func(s float64) float64 { return 100 * s }, garbage: 3000, major: 5}, 90, 100, true, false},
		{"garbage alone, swept by major collections",
			program{alive: func(float64) float64 { return 30000 }, garbage: 3000, major: 5}, 60, 0, false, false},
		{"garbage alone, of one major collection",
			program{alive: func(float64) float64 { return 30000 }, garbage: 3000, major: 11}, 20, 0, false, false},
		{"a cache that fills",
			program{alive: func(s float64) float64 { return min(60000, 1000*s) }, major: 5}, 50, 1000, true, false},
		{"a cache that was filled at half of the time",
			program{alive: func(s float64) float64 { return min(20000, 1000*s) }, major: 5}, 40, 0, false, false},
		{"a bounded cache", program{alive: func(float64) float64 { return 20000 }, major: 7}, 40, 0, false, false},
		{"a sawtooth", program{alive: saw(5000), major: 3}, 40, 0, false, false},
		{"a sawtooth without major collections", program{alive: saw(5000)}, 40, 0, false, false},
		{"a restless program",
			program{alive: func(float64) float64 { return 20000 + 2000*noise.Float64() }, major: 3}, 60, 0, false, false},
		{"one object a minute", program{alive: func(s float64) float64 { return 20000 + s/60 }}, 60, 0, false, false},
		{"a leak of five minutes",
			program{alive: func(s float64) float64 { return 500 + 20*s }, major: 10}, 360, 20, true, true},
		{"a cache that fills more and more slowly",
			program{alive: func(s float64) float64 { return 60000 * (1 - math.Exp(-s/200)) }, major: 10}, 360, 139, true, false},
		{"a boot",
			program{alive: func(s float64) float64 { return 40000 * min(1, s/20) }, major: 4}, 300, 0, false, false},
		{"too short", program{alive: func(s float64) float64 { return 1000 * s }}, 8, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := c.p.watch(c.seconds).Classes()
			switch {
			case c.rate == 0:
				if len(list) > 0 {
					t.Errorf("%+v is named", list)
				}
			case len(list) != 1 || list[0].Name != "Entry" || list[0].Confirmed != c.sure || list[0].Leak != c.leak:
				t.Errorf("%+v", list)
			case list[0].PerSecond < 0.9*c.rate || list[0].PerSecond > 1.1*c.rate:
				t.Errorf("%g a second, not %g", list[0].PerSecond, c.rate)
			case list[0].BytesPerSecond < 40*list[0].PerSecond || list[0].To <= list[0].From:
				t.Errorf("%+v", list[0])
			}
		})
	}
}

// TestGrowthStops: while a cache fills, its class must be reported as growing. When the cache is full, the class must
// be reported as stopped, with the rate that it had. If it grows again, it must be reported as growing again.
func TestGrowthStops(t *testing.T) {
	alive := func(s float64) float64 { return min(20000, 1000*s) + 100*max(0, s-60) }
	for _, c := range []struct {
		seconds        float64
		grows, stopped bool
	}{{18, true, false}, {30, false, true}, {60, false, true}, {200, true, false}} {
		w := program{alive: alive, major: 2}.watch(c.seconds)
		stopped := w.Stopped()
		if len(w.Classes()) > 0 != c.grows || len(stopped) > 0 != c.stopped {
			t.Errorf("after %g s %+v grow, %+v have stopped", c.seconds, w.Classes(), stopped)
			continue
		}
		if !c.stopped {
			continue
		}
		k := stopped[0]
		if k.Name != "Entry" || k.To != 20000 || k.StoppedNS < 20e9 || k.StoppedNS > 30e9 || k.PerSecond < 700 {
			t.Errorf("after %g s %+v", c.seconds, stopped)
		}
	}
}

// TestGrowthOfMany: ten thousand classes gain and lose objects all the time without growing. At most two of them may be
// reported as growing.
func TestGrowthOfMany(t *testing.T) {
	noise := rand.New(rand.NewPCG(3, 4))
	named := 0
	for range 10_000 {
		scale := 10 + 5000*noise.Float64()
		p := program{alive: func(float64) float64 { return 5000 + scale*noise.Float64() }, garbage: scale * noise.Float64(), major: 3 + 4*noise.Float64()}
		named += len(p.watch(40).Classes())
	}
	if named > 2 {
		t.Errorf("%d classes are named", named)
	}
}

// TestGrowthWithoutCollections: counts between which no collection ran must not be compared, because no object became
// old. Counts during which objects moved must not be compared either.
func TestGrowthWithoutCollections(t *testing.T) {
	var w Watch
	for i := range 50 {
		w.Add(&sampler.HeapCount{BeganNS: int64(i) * 2e9, Collections: 9, Classes: []sampler.HeapKind{{Name: "Entry", Objects: 100, Old: uint64(i)}}})
		w.Add(&sampler.HeapCount{BeganNS: int64(i) * 2e9, Collections: uint64(i), Compacted: true})
	}
	if taken, compared := w.Counts(); taken != 100 || compared != 1 || w.Enough() || w.Classes() != nil {
		t.Errorf("%d of %d counts are compared", compared, taken)
	}
}

// TestGrowthIsBounded: if growth is watched for a long time, only few counts may be kept, and a leak must still be
// reported.
func TestGrowthIsBounded(t *testing.T) {
	w := program{alive: func(s float64) float64 { return 20 * s }, major: 30}.watch(2 * 5000)
	if len(w.points) > maxPoints {
		t.Errorf("%d counts are kept", len(w.points))
	}
	if list := w.Classes(); len(list) != 1 || !list[0].Confirmed {
		t.Errorf("%+v", list)
	}
}
