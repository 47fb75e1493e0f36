package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live"
)

// exactFlags are --exact and --exact-cost.
type exactFlags struct {
	on   bool
	cost overhead
}

func newExactFlags() exactFlags { return exactFlags{cost: live.DefaultExactCost} }

func (f *exactFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "exact", false, "follow every change of the GVL by probes in the process (docs/exact.md)")
	cmd.Flags().Var(&f.cost, "exact-cost", "what --exact may cost the process of its CPU time, else it ends; or off")
}

// check refuses what does not go together.
func (f *exactFlags) check(cmd *cobra.Command, lines, several bool) error {
	switch {
	case !f.on && cmd.Flags().Changed("exact-cost"):
		return usageErrorf("--exact-cost is of --exact, which is not asked for")
	case f.on && lines:
		return usageErrorf("--exact does not go with --interval as yet")
	case f.on && several:
		return usageErrorf("--exact is for one process as yet")
	case f.on && cmd.Flags().Changed("pause"):
		return usageErrorf("--exact does not go with --pause, whose stops would be in all that it says")
	}
	return nil
}

// exactly is a measurement by probes; nil: none is asked for.
type exactly struct {
	follows *live.Exact
	sums    *exact.Account
}

// open puts the probes into the process.
func (f *exactFlags) open(ctx context.Context, src *live.Source) (*exactly, error) {
	if !f.on {
		return nil, nil
	}
	// A ddtop that is stopped would leave its probes in, and nobody would look at what they cost.
	stayAwake()
	x := &exactly{sums: exact.NewAccount()}
	limit := float64(f.cost)
	if limit == 0 {
		limit = 1 // off
	}
	var err error
	if x.follows, err = src.OpenExact(ctx, live.ExactOptions{MaxCost: limit, To: x.sums}); err != nil {
		return nil, fmt.Errorf("--exact: %w", err)
	}
	return x, nil
}

func (x *exactly) saw(s *sampler.Sample) {
	if x != nil {
		x.follows.Saw(s)
	}
}

// close takes the probes out.
func (x *exactly) close() error {
	if x == nil {
		return nil
	}
	_, err := x.follows.Close()
	return err
}

// fill closes, and adds what was seen.
func (x *exactly) fill(stat *gvl.Stat) error {
	if x == nil {
		return nil
	}
	r, err := x.follows.Close()
	if err != nil {
		return err
	}
	s := exact.Stat{StartNS: r.FromNS, EndNS: r.ToNS, DurationNS: r.ToNS - r.FromNS, Threads: []exact.Thread{}, Longest: []exact.StatWait{}}
	if !r.Wrong {
		s = x.sums.Stat(r.FromNS, r.ToNS)
	}
	s.Ended, s.Wrong = r.Ended, r.Wrong
	s.Probes = exact.Probes{
		Hits: r.Hits, Records: r.Checks.Records, Lost: r.Lost, CostNS: r.CostNS, CPUNS: r.CPUNS, HitNS: r.HitNS,
		Agreed: r.Checks.Agreed, Disagreed: r.Checks.Disagreed,
	}
	stat.Exact = &s
	return nil
}
