package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// QualityMeter adds up the samples that figures are computed from since the stream began. It is a Consumer.
type QualityMeter struct {
	gvl.Ignore
	sampler.Quality
}

// Tick adds a sample.
func (m *QualityMeter) Tick(k *gvl.Tick) {
	q := k.Quality()
	m.Add(&q)
}
