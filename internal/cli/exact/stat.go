package exact

import (
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// Fill ends exact mode if it is on, and adds what exact mode measured to stat.
func Fill(stat *report.Stat, src sampler.Source) error {
	from, ok := src.(Source)
	if !ok || from.ExactStatus().SinceNS == 0 {
		return nil
	}
	r, err := from.EndExact()
	if err != nil {
		return err
	}
	if r.Hits == 0 && !r.Wrong { // no probe was hit, so nothing proves that the probes work
		r.Ended, r.Wrong = "no thread came past a probe", true
	}
	stat.Exact = &report.StatExact{
		StartNS: r.FromNS, EndNS: r.ToNS, DurationNS: r.ToNS - r.FromNS, Ended: r.Ended, Wrong: r.Wrong,
		Probes: report.StatProbes{
			Hits: r.Hits, Records: r.Checks.Records, Lost: r.Lost, CostNS: r.CostNS, CPUNS: r.CPUNS, HitNS: r.HitNS,
			Agreed: r.Checks.Agreed, Disagreed: r.Checks.Disagreed,
		},
	}
	if r.Wrong {
		stat.Sampled()
	} else {
		stat.Exact.Turns = r.Checks.Runs
	}
	return nil
}
