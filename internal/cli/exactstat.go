package cli

import (
	"sync"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// exactSums are what exact mode saw of each process.
type exactSums struct {
	mu  sync.Mutex
	all map[sampler.Source]*exact.Account
}

// of returns a process's.
func (x *exactSums) of(src sampler.Source) *exact.Account {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = make(map[sampler.Source]*exact.Account)
	}
	a, ok := x.all[src]
	if !ok {
		a = exact.NewAccount()
		x.all[src] = a
	}
	return a
}

// fill adds what exact mode saw of a process, once it has ended.
func (x *exactSums) fill(stat *gvl.Stat, src sampler.Source) error {
	from, ok := src.(exactSource)
	if x == nil || !ok || from.ExactStatus().SinceNS == 0 {
		return nil
	}
	r, err := from.EndExact()
	if err != nil {
		return err
	}
	s := exact.Stat{StartNS: r.FromNS, EndNS: r.ToNS, DurationNS: r.ToNS - r.FromNS, Threads: []exact.Thread{}, Longest: []exact.StatWait{}}
	if r.Hits == 0 && !r.Wrong { // nothing shows that a change would have been seen
		r.Ended, r.Wrong = "no thread came past a probe", true
	}
	if r.Wrong {
		stat.Sampled()
	} else {
		s = x.of(src).Stat(r.FromNS, r.ToNS)
	}
	s.Ended, s.Wrong = r.Ended, r.Wrong
	s.Probes = exact.Probes{
		Hits: r.Hits, Records: r.Checks.Records, Lost: r.Lost, CostNS: r.CostNS, CPUNS: r.CPUNS, HitNS: r.HitNS,
		Agreed: r.Checks.Agreed, Disagreed: r.Checks.Disagreed,
	}
	stat.Exact = &s
	return nil
}
