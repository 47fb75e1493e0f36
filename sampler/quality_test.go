package sampler

import (
	"strings"
	"testing"
	"time"
)

// TestLacks: Lacks reports that a figure's quality is too low just below the least quality, but not at exactly this
// quality. Time that is known without samples counts as full quality. So does idle time.
func TestLacks(t *testing.T) {
	const second = int64(time.Second)
	polled := func(span, samples, stacks int64) Quality {
		return Quality{SpanNS: span, PolledNS: span, PolledSteps: max(samples-1, 0), Samples: samples, Stacks: stacks}
	}
	for _, c := range []struct {
		name string
		q    Quality
		want string // the figures that lack something
	}{
		{"the rates asked for", polled(10*second, 10_000, 1000), ""},
		{"the defaults for a second", polled(second, 1000, 100), ""},
		{"the rates that a budget aims at", polled(10*second, 200, 80), ""},
		{"the least", polled(10*second, 102, 41), ""},
		{"a full machine at 1 % of a CPU", polled(10*second, 27, 10), "states waits stacks requests"},
		{"too few samples", polled(second, 50, 20), "states"},
		{"half of the time idle", Quality{SpanNS: 10 * second, IdleNS: 5 * second, PolledNS: 5 * second, PolledSteps: 14, Samples: 60, Stacks: 40}, "waits"},
		{"half of the time idle, and fewer", Quality{SpanNS: 10 * second, IdleNS: 5 * second, PolledNS: 5 * second, PolledSteps: 12, Samples: 60, Stacks: 40}, "states waits"},
		{"too far apart", polled(10*second, 90, 41), "waits"},
		{"stacks too far apart for requests", polled(10*second, 200, 30), "requests"},
		{"too short a time", polled(second/20, 51, 5), "stacks"},
		{"nothing", Quality{}, "states waits stacks requests"},
		{"one sample", polled(0, 1, 1), "states waits stacks requests"},
		{"by switches at few samples", Quality{SpanNS: 10 * second, Samples: 27, Stacks: 45}, ""},
		{"by switches and few stacks", Quality{SpanNS: 10 * second, Samples: 27, Stacks: 10}, "stacks requests"},
		{"by switches and stacks too far apart", Quality{SpanNS: 10 * second, Samples: 150, Stacks: 25}, "requests"},
		{"by switches and looks", Quality{SpanNS: 10 * second, Samples: 150, Stacks: 25, Looks: 40}, ""},
		{"by switches and looks alone", Quality{SpanNS: 10 * second, Samples: 150, Stacks: 9, Looks: 40}, "stacks"},
		{"by switches that find requests", Quality{SpanNS: 10 * second, Samples: 40, Stacks: 20, Found: 80, Unfound: 20}, ""},
		{"by switches that find too few", Quality{SpanNS: 10 * second, Samples: 40, Stacks: 20, Found: 79, Unfound: 21}, "requests"},
		{"by switches that find none", Quality{SpanNS: 10 * second, Samples: 40, Stacks: 20, Unfound: 1}, "requests"},
		{"idle", Quality{SpanNS: 10 * second, IdleNS: 10 * second, Samples: 27, Stacks: 13}, ""},
	} {
		var lacks []string
		for f := range NumFigures {
			if why := c.q.Lacks(f); why != "" {
				lacks = append(lacks, f.String())
				if !strings.HasSuffix(why, LeastQualities[f].Why) {
					t.Errorf("%s: %s lacks %q", c.name, f, why)
				}
			}
		}
		if got := strings.Join(lacks, " "); got != c.want {
			t.Errorf("%s: %q lack something, want %q", c.name, got, c.want)
		}
	}
}

// TestLeastRates: at the rates that LeastRates returns, each figure of the window reaches its least quality. Because of
// QualityMargin, this is true even at half of these rates.
func TestLeastRates(t *testing.T) {
	for _, window := range []time.Duration{time.Second, QualityWindow, time.Minute} {
		for _, exact := range []bool{false, true} {
			lockHz, stackHz := LeastRates(window, exact, NumFigures)
			of := max(window, QualityWindow)
			for _, part := range []float64{1, 0.5} {
				span := of
				if window < of && !exact {
					span = window
				}
				n := int64(lockHz * part * span.Seconds())
				q := Quality{SpanNS: int64(span), Samples: n, Stacks: int64(stackHz * part * of.Seconds())}
				if !exact {
					q.PolledNS, q.PolledSteps = int64(span), n
				}
				for f := range NumFigures {
					if why := q.Lacks(f); why != "" {
						t.Errorf("%v, exact %v: at %g of %.1f and %.1f Hz %s lacks %s", window, exact, part, lockHz, stackHz, f, why)
					}
				}
			}
		}
	}
	if a, _ := LeastRates(QualityWindow, false, NumFigures); a != 20 {
		t.Errorf("it aims at %g samples a second, and docs/reference/cli.md says 20", a)
	}
	if _, b := LeastRates(QualityWindow, false, NumFigures); b != 8 {
		t.Errorf("it aims at %g readings of stacks a second, and docs/reference/cli.md says 8", b)
	}
}
