package pace

import (
	"math"
	"testing"
)

// TestLoadOfSeveralProcesses: if the records of all processes' thread switches cost more than the limit, ddtop stops
// recording them for the process that makes the most.
func TestLoadOfSeveralProcesses(t *testing.T) {
	const processes, second = 10, int64(1e9)
	var l RecordLoad
	var own [processes]OwnLoad
	var gone [processes]bool
	for now := second; now < 600*second; now += second {
		rate := 0.0
		for i := range own {
			if gone[i] {
				continue
			}
			n := 1300
			if i == 3 {
				n = 13_000 // records per second; less than a single process may make
			}
			rate += float64(n)
			l.Add(&own[i], now, second, uint64(n), 0.03)
			if l.Over(&own[i], 0.03) {
				gone[i] = true
				l.Leave(&own[i])
			}
		}
		if now > 300*second && rate > 20_000 {
			t.Fatalf("%.0f records a second after %d s", rate, now/second)
		}
	}
	for i := range gone {
		if gone[i] != (i == 3) {
			t.Errorf("process %d is let go of: %v", i, gone[i])
		}
	}
}

// TestMoreThanTheUsualShare: if ddtop may use more than the usual share of a CPU, records of thread switches and
// readings between ticks may use more, too.
func TestMoreThanTheUsualShare(t *testing.T) {
	b := NewBudget(0.03)
	if got := b.InForce(); got != 0.03 {
		t.Errorf("%v", got)
	}
	b.mostShare, b.needs, b.extended = 0.06, 0.05, true
	if got := b.InForce(); got != 0.05 {
		t.Errorf("for the least quality: %v", got)
	}
	b.extended, b.full.is = false, true
	if got := b.InForce(); got != 0.03 {
		t.Errorf("where no CPU is free: %v", got)
	}
	if got := NewBudget(0).InForce(); got != 0 {
		t.Errorf("without a limit: %v", got)
	}
}

// TestBesideRecords: readings between ticks may use all CPU time that ddtop may use now, or what records of thread
// switches leave of this time. However much the records use, the readings may always use a minimum.
func TestBesideRecords(t *testing.T) {
	for _, c := range []struct {
		name        string
		share, most float64
		records     uint64 // in a second
		want        float64
	}{
		{"no limit", 0, 0, 10_000, 0},
		{"no records", .03, 0, 0, .03},
		{"a limit that was asked for", .03, 0, 10_000, .015},
		{"more than all of it", .03, 0, 30_000, .0075},
		{"the usual limit, and room above it", .03, .06, 10_000, .03},
		{"less room", .03, .06, 30_000, .015},
	} {
		b := NewBudget(c.share)
		b.Extend(c.most, 0)
		var own OwnLoad
		b.Records.Add(&own, 1e9, 1e9, c.records, b.ForRecords())
		if got := b.BesideRecords(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}
