package cli

import (
	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
)

// pprofFormat is the format of pprof profiles.
const pprofFormat = "pprof"

// Values of --labels.
const (
	datadogNames = "datadog"
	ddtopNames   = "ddtop"
)

// pprofFlags say what a pprof profile holds.
type pprofFlags struct {
	labels   string
	timeline bool
}

func (f *pprofFlags) addPprof(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.labels, "labels", datadogNames, "whose names pprof has, a `NAMING`: datadog or ddtop (docs/cli.md)")
	cmd.Flags().BoolVar(&f.timeline, "timeline", false, "pprof: a sample for each stretch of time, with its end")
}

// check refuses the flags for other formats.
func (f *pprofFlags) check(cmd *cobra.Command, of *format) error {
	if of.name != pprofFormat {
		for _, name := range []string{"labels", "timeline"} {
			if cmd.Flags().Changed(name) {
				return usageErrorf("--%s goes with --format %s", name, pprofFormat)
			}
		}
		return nil
	}
	of.stamped = f.timeline
	switch f.labels {
	case datadogNames, ddtopNames:
		return nil
	}
	return usageErrorf("there are no labels %q: they are %s or %s", f.labels, datadogNames, ddtopNames)
}

// apply chooses the names.
func (f *pprofFlags) apply(m *export.Measured) {
	if f.labels == ddtopNames {
		m.Labels = export.DdtopLabels
	}
}
