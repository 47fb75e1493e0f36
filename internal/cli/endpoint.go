package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
)

// endpointFlag is the value of --endpoint: which routes and classes of jobs are told of.
type endpointFlag struct{ re *regexp.Regexp }

// addEndpoint adds the flag.
func (f *endpointFlag) addEndpoint(cmd *cobra.Command) {
	cmd.Flags().Var(f, "endpoint", "only requests and jobs whose route or class matches a `REGEXP`")
}

// String is the expression.
func (f *endpointFlag) String() string {
	if f.re == nil {
		return ""
	}
	return f.re.String()
}

// Type is the word for the value in help texts.
func (f *endpointFlag) Type() string { return "REGEXP" }

// Set takes an expression; "" is none.
func (f *endpointFlag) Set(text string) error {
	f.re = nil
	if text == "" {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("%q is no regular expression: %w", text, err)
	}
	f.re = re
	return nil
}

// match is nil where all are told of.
func (f *endpointFlag) match() func(name string) bool {
	if f.re == nil {
		return nil
	}
	return f.re.MatchString
}

// check refuses the flag for what has no part that belongs to a request: the order of time of all threads, the whole recording,
// and objects, of which only the sum is exact.
func (f *endpointFlag) check(format format, metric flamegraph.Metric) error {
	switch {
	case f.re == nil:
	case format.timed, format.name == recordingFormat:
		return usageErrorf("--endpoint does not go with %s, which holds all threads", format.name)
	case metric == flamegraph.Allocations:
		return usageErrorf("--endpoint: objects can't be told apart by request; choose another metric")
	}
	return nil
}

// only leaves the weights of the requests and jobs that are told of.
func (f *endpointFlag) only(m *profile.Measured) {
	if f.re != nil {
		m.OnlyEndpoints(f.re.MatchString)
	}
}
