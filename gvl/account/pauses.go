package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// StatPauses says for how long the process was stopped for samples in the window (--pause); all 0 where it never was.
type StatPauses struct {
	Count int64 `json:"count"`
	// Cut is how many of them did not show one instant, because a thread could not be stopped or the time ran out
	// before all was read.
	Cut int64 `json:"cut"`
	// Quantiles come from a histogram of 3 % resolution. TotalNS is the sum.
	P50NS   int64 `json:"p50_ns"`
	P99NS   int64 `json:"p99_ns"`
	MaxNS   int64 `json:"max_ns"`
	TotalNS int64 `json:"total_ns"`
}

// pauseTotals sums the pauses of a run.
type pauseTotals struct {
	hist    gvl.Histogram
	totalNS int64
}

func (p *pauseTotals) feed(s *sampler.Sample) {
	if s.PauseNS <= 0 {
		return
	}
	p.hist.Add(s.PauseNS)
	p.totalNS += s.PauseNS
}

// stat returns the totals; first and last are the counters at the window's ends.
func (p *pauseTotals) stat(first, last *sampler.Reads) StatPauses {
	n, longest := p.hist.Count()
	if n == 0 {
		return StatPauses{}
	}
	return StatPauses{
		Count: n, Cut: int64(last.PausesCut - first.PausesCut), MaxNS: longest, TotalNS: p.totalNS,
		P50NS: p.hist.Quantile(.5), P99NS: p.hist.Quantile(.99),
	}
}
