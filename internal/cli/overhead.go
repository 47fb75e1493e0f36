package cli

import (
	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
)

// defaultOverhead is the share of one CPU that ddtop takes at most, where nothing else is asked for: what a machine that is full
// does not notice.
const defaultOverhead flags.Overhead = 0.03

// mostOverhead is what ddtop takes instead if the default is not enough for the least quality of its figures (sampler.LeastQualities): twice
// as much is what a full machine leaves to reading ten stacks of a Rails worker a second. A share that was asked for holds in any case.
const mostOverhead = 0.06

func (t *target) addOverhead(cmd *cobra.Command) {
	t.overhead = defaultOverhead
	cmd.Flags().Var(flags.OverheadFlag{Overhead: &t.overhead, Asked: &t.overheadAsked}, "overhead",
		"the most that ddtop takes of one CPU, or off; unless given, up to 6%")
}

// overheadMost is the share that may be taken for the least quality of figures. It is zero if the share asked for holds in any case.
func (t *target) overheadMost() float64 {
	if t.overheadAsked {
		return 0
	}
	return mostOverhead
}
