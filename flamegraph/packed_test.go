package flamegraph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func FuzzPackedDelta(f *testing.F) {
	f.Add(int32(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
	f.Add(int32(math.MaxInt32), int64(math.MaxInt64), int64(math.MinInt64), int64(-1), int64(1), int64(300), int64(-7), int64(9), int64(1<<40))
	f.Add(int32(7), int64(1e7), int64(0), int64(1e7), int64(0), int64(1), int64(12), int64(1), int64(3000))
	f.Add(int32(7), int64(1e7), int64(0), int64(1e7), int64(0), int64(1), int64(0), int64(1), int64(0))
	f.Fuzz(func(t *testing.T, entry int32, wall, cpu, wait, blame, samples, seen, ticks, total int64) {
		d := delta{max(entry, 0), Weights{wall, cpu, wait, blame, samples, seen, ticks, total}}
		after := delta{1, Weights{WallNS: 5}}
		b := appendDelta(appendDelta(nil, d), after)
		got, b := readDelta(b)
		next, b := readDelta(b)
		if got != d || next != after || len(b) != 0 {
			t.Errorf("%+v came back as %+v, the next as %+v, %d bytes left", d, got, next, len(b))
		}
	})
}

// TestRollingMemoryLimit: when old data is dropped because of the memory limit, it must also be subtracted from the
// totals. FromNS must be the beginning of the data that is left.
func TestRollingMemoryLimit(t *testing.T) {
	r := newRolling(t, 1e6, 1e3) // the window has a thousand slots
	r.maxBytes = 40_000
	rnd := rand.New(rand.NewPCG(1, 1))
	type added struct {
		at int64
		w  int64
	}
	var all []added
	for at := int64(0); at < 3e6; at += 100 {
		w := rnd.Int64N(1e6)
		r.Add(at, Key{Thread: 1, Stack: sampler.StackID(rnd.IntN(5000))}, Weights{WallNS: w})
		all = append(all, added{at, w})
	}
	if r.bytes > r.maxBytes+1000 {
		t.Errorf("%d bytes, limit %d", r.bytes, r.maxBytes)
	}
	var s, ranged Snapshot
	r.Snapshot(&s)
	if s.FromNS <= 2e6 || s.FromNS >= s.ToNS {
		t.Errorf("from %d to %d: nothing was forgotten early", s.FromNS, s.ToNS)
	}
	var want int64
	for _, a := range all {
		if a.at >= s.FromNS {
			want += a.w
		}
	}
	if got := s.Total().WallNS; got != want {
		t.Errorf("total %d, want %d", got, want)
	}
	r.SnapshotRange(0, 4e6, &ranged)
	if ranged.Total() != s.Total() || len(ranged.Entries) != len(s.Entries) || ranged.FromNS != s.FromNS {
		t.Errorf("range %+v from %d, window %+v from %d", ranged.Total(), ranged.FromNS, s.Total(), s.FromNS)
	}
}

// BenchmarkRollingSnapshotRange measures a typical read of the screen: the last 30 s of ten minutes.
func BenchmarkRollingSnapshotRange(b *testing.B) {
	r := newRolling(b, 600e9, 0)
	now := int64(0)
	for i := range 60_000 { // 100 threads at 100 Hz; 20 of them change their stack at each tick
		for th := range 100 {
			st := th + 1
			if th < 20 {
				st = 1000 + (i*7+th*13)%2000
			}
			r.Add(now, Key{Thread: sampler.ThreadID(th), Stack: sampler.StackID(st), State: 1}, Weights{WallNS: 1e7, Samples: 1})
		}
		now += 1e7
	}
	var s Snapshot
	for b.Loop() {
		r.SnapshotRange(now-30e9, now, &s)
	}
	b.ReportMetric(float64(r.bytes)/1e6, "MB/10min")
	b.ReportMetric(float64(len(s.Entries)), "entries")
}
