package cli

import (
	"regexp"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
)

// matchFlag is a flag's value: a regular expression on the titles of the processes to follow; "": none are looked for.
type matchFlag string

func (m *matchFlag) addMatch(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(m), "match", "", "follow the Ruby processes whose title matches, a `REGEXP`; those to come, too")
}

// finder returns what looks for processes that match; nil: none are looked for.
func (m matchFlag) finder() (func(known func(int) bool) []int, error) {
	if m == "" {
		return nil, nil
	}
	re, err := regexp.Compile(string(m))
	if err != nil {
		return nil, usageErrorf("--match: %w", err)
	}
	finder := attach.NewFinder(re.MatchString)
	if _, err := finder.Find(func(int) bool { return true }); err != nil {
		return nil, err
	}
	return func(known func(int) bool) []int {
		found, _ := finder.Find(known) // it could be read at the start; the next time it may be again
		return found
	}, nil
}
