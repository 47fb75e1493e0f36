package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

func TestStatPauses(t *testing.T) {
	st := stream.New(sampler.Process{})
	a := New(st, sampler.Process{}, nil)
	if got := a.Stat().Pauses; got != (report.StatPauses{}) {
		t.Errorf("without a pause: %+v", got)
	}
	for i := range 101 {
		s := sampler.Sample{TimeNS: int64(i) * 1e6, Reads: sampler.Reads{Pauses: uint64(i), PausesCut: uint64(i / 10)}}
		if i > 0 {
			s.PauseNS = int64(i) * 1000
		}
		st.Feed(&s, nil)
	}
	got := a.Stat().Pauses
	near := func(v, want int64) bool { return v > want*96/100 && v < want*104/100 }
	if got.Count != 100 || got.Cut != 10 || got.MaxNS != 100_000 || got.TotalNS != 5_050_000 || !near(got.P50NS, 50_000) || !near(got.P99NS, 99_000) {
		t.Errorf("%+v", got)
	}
}
