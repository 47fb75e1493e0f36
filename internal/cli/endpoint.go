package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
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

// only leaves the weights of the requests and jobs that are told of. It fails if none of those that were seen is.
func (f *endpointFlag) only(m *export.Measured) error {
	if f.re == nil {
		return nil
	}
	var seen []string
	for _, served := range m.Served {
		seen = append(seen, served.Name)
	}
	m.OnlyEndpoints(f.re.MatchString)
	return f.found(seen)
}

// foundIn fails if none of the requests and jobs of a measurement is told of.
func (f *endpointFlag) foundIn(m *gvl.Measure) error {
	if f.re == nil {
		return nil
	}
	var seen []string
	all := m.Requests(nil)
	for i := range all.Endpoints {
		if name := all.Endpoints[i].Endpoint; name != nil {
			seen = append(seen, *name)
		}
	}
	for i := range all.Running {
		if name := all.Running[i].Endpoint; name != nil {
			seen = append(seen, *name)
		}
	}
	return f.found(seen)
}

// maxNearNames is how many names are listed that are near to one that was not found.
const maxNearNames = 5

// found fails if none of the names that were seen matches, and lists those that are most like the expression.
func (f *endpointFlag) found(seen []string) error {
	seen = slices.DeleteFunc(slices.Clone(seen), func(name string) bool { return name == "" })
	if slices.ContainsFunc(seen, f.re.MatchString) {
		return nil
	}
	if len(seen) == 0 {
		return fmt.Errorf("--endpoint %s matches nothing: no request and no job was seen whose route or class is known; measure for longer, or leave --endpoint out", f.re)
	}
	slices.SortFunc(seen, func(x, y string) int {
		return cmp.Or(cmp.Compare(likeness(f.re.String(), y), likeness(f.re.String(), x)), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	seen = slices.Compact(seen)
	near := make([]string, 0, maxNearNames)
	for _, name := range seen[:min(len(seen), maxNearNames)] {
		near = append(near, flamegraph.Printable(name))
	}
	return fmt.Errorf("--endpoint %s matches none of the %s that were seen; nearest: %s", f.re, units.Plural(len(seen), "route or class", "routes and classes"), strings.Join(near, ", "))
}

// likeness is how many pairs of letters that follow each other two texts share.
func likeness(x, y string) int {
	pairs := func(s string) map[string]bool {
		out := make(map[string]bool)
		for s = strings.ToLower(s); len(s) > 1; s = s[1:] {
			out[s[:2]] = true
		}
		return out
	}
	a, b := pairs(x), pairs(y)
	both := 0
	for p := range a {
		if b[p] {
			both++
		}
	}
	return both
}
