package live

import (
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// TakeMore lets ddtop use more CPU time for the duration d. With it, a Source is a sampler.Spender.
func (s *Source) TakeMore(d time.Duration) {
	until := pace.Monotonic() + int64(d)
	s.exact.moreNS.Store(until)
	s.budget.TakeMore(sampler.MoreShare, until)
}
