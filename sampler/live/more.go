package live

import (
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// TakeMore lets ddtop take more CPU time for a duration. It makes a Source a sampler.Spender.
func (s *Source) TakeMore(d time.Duration) {
	until := pace.Monotonic() + int64(d)
	s.exact.moreNS.Store(until)
	s.budget.TakeMore(sampler.MoreShare, until)
}
