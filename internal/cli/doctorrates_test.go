package cli

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestDoctorRates: a rate far below the wanted rate is a note, not a success. If the rate is too low for some figures,
// `ddtop doctor` names these figures and a remedy.
func TestDoctorRates(t *testing.T) {
	const second = int64(1e9)
	polled := func(lockHz, stackHz float64, idle int64) report.StatQuality {
		q := sampler.Quality{SpanNS: 2 * second, IdleNS: idle, Samples: int64(2 * lockHz), Stacks: int64(2 * stackHz)}
		if idle == 0 {
			q.PolledNS, q.PolledSteps = 2*second, q.Samples
		}
		return report.StatQuality{Of: q, ApartNS: q.ApartNS()}
	}
	for _, c := range []struct {
		name        string
		lock, stack float64
		idle        int64
		lowered     bool
		state       string
		words       []string
		remedy      bool
	}{
		{"as asked for", 998, 100, 0, false, checkGood, []string{"the GVL 998 times"}, false},
		{"one of a hundred", 2, 1, 0, true, checkNote, []string{"(asked for 1000 and 100); fewer than asked for, too few for some figures: shares of time are not told (–)"}, true},
		{"65 of 1000", 65, 12, 0, true, checkNote, []string{"fewer than asked for, to keep within the limit; enough for all figures, waits shorter than 15 ms can be missed"}, false},
		{"idle", 20, 10, 2 * second, false, checkNote, []string{"fewer than asked for: the process is idle"}, false},
		{"late", 300, 30, 0, false, checkNote, []string{"fewer than asked for: the machine is full"}, false},
	} {
		d := doctor{target: target{names: &flags.Redaction{}}}
		d.overhead.Share = defaultOverhead
		s := report.Stat{DurationNS: 2 * second, Quality: polled(c.lock, c.stack, c.idle)}
		s.Rate = report.StatRates{Stack: report.StatRate{Asked: 100, Achieved: c.stack}, Lock: report.StatRate{Asked: 1000, Achieved: c.lock}}
		s.Self.Lowered = c.lowered
		d.examineRates(&s, "1.0 % of one CPU")
		got := d.checks[0]
		if got.State != c.state || (got.Remedy != "") != c.remedy {
			t.Errorf("%s: %+v", c.name, got)
		}
		for _, w := range c.words {
			if !strings.Contains(got.Text, w) {
				t.Errorf("%s: %q is not in %q", c.name, w, got.Text)
			}
		}
	}
}
