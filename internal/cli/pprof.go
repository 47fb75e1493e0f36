package cli

import "github.com/spf13/cobra"

// pprofFormat is the format of pprof profiles.
const pprofFormat = "pprof"

// pprofFlags say what a pprof profile holds.
type pprofFlags struct {
	timeline bool
}

func (f *pprofFlags) addPprof(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.timeline, "timeline", false, "pprof: a sample for each interval, with its end")
}

// check refuses the flag for other formats.
func (f *pprofFlags) check(of format) error {
	if f.timeline && of.name != pprofFormat {
		return usageErrorf("--timeline goes with --format %s", pprofFormat)
	}
	return nil
}
