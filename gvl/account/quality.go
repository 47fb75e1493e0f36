package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// QualityMeter adds up the sampler.Quality of all ticks since the stream began. The sum shows how many samples the
// figures are computed from. QualityMeter is a gvl.Consumer.
type QualityMeter struct {
	gvl.Ignore
	sampler.Quality
}

// Tick adds a sample.
func (m *QualityMeter) Tick(k *gvl.Tick) {
	q := k.Quality()
	m.Add(&q)
}
