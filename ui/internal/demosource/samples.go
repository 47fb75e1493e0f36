package demosource

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler"
)

// Samples returns copies of all samples of a made-up process, for tests and benchmarks.
func Samples(o Options) ([]*sampler.Sample, error) {
	var out []*sampler.Sample
	err := New(o).Run(context.Background(), func(s *sampler.Sample) { out = append(out, s.Clone()) })
	if errors.Is(err, sampler.ErrEnded) {
		err = nil
	}
	return out, err
}
