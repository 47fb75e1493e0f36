package cli

import (
	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
)

const exactHelp = `
--exact follows every change of the GVL, to the microsecond, where sampling knows shares. While it lasts, the kernel
keeps breakpoints in the process's code (libruby), in its memory only; when they cost the process more than
--exact-cost of its CPU time they are taken out, which is said, and it is sampled on. It needs root or capabilities,
and a kernel and a Ruby that it is for: "ddtop doctor" says whether it can be had (docs/exact.md).`

// addExact adds --exact, and what it means to the command's help.
func (t *target) addExact(cmd *cobra.Command) {
	t.exact.AddTo(cmd)
	cmd.Long += "\n" + exactHelp
}

// checkExact refuses what does not go together. A screen can switch exact mode on later, by a key: later is true there.
func (t *target) checkExact(cmd *cobra.Command, later bool) error {
	switch {
	case !t.exact.On && !later && cmd.Flags().Changed(exact.CostFlag):
		return flags.Usagef("--exact-cost is of --exact, which is not asked for")
	case t.exact.On && t.pause:
		return flags.Usagef("--exact does not go with --pause, whose stops would be in all that it says")
	}
	return nil
}

// exactSwitch returns the switch for a process.
func (t *target) exactSwitch(src exact.Source) *exact.Switch {
	return &exact.Switch{Src: src, Flags: t.exact, Paused: t.pause}
}
