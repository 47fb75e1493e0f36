package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// pauseTotals adds up the times for which ddtop stopped the target's threads to read them (pauses).
type pauseTotals struct {
	hist    gvl.Histogram
	totalNS int64
}

func (p *pauseTotals) feed(s *sampler.Sample) {
	if s.PauseNS > 0 {
		p.hist.Add(s.PauseNS)
		p.totalNS += s.PauseNS
	}
}

// stat returns the totals of a window. first and last are the counters at the beginning and at the end of the window.
func (p *pauseTotals) stat(first, last *sampler.Reads) report.StatPauses {
	n, longest := p.hist.Count()
	if n == 0 {
		return report.StatPauses{}
	}
	return report.StatPauses{
		Count: n, Cut: int64(last.PausesCut - first.PausesCut), MaxNS: longest, TotalNS: p.totalNS,
		P50NS: p.hist.Quantile(.5), P99NS: p.hist.Quantile(.99),
	}
}
