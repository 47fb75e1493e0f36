package cli

import (
	"fmt"
	"os/user"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// matchFlag is a flag's value: a regular expression on the titles of the processes to follow; "": none are looked for.
type matchFlag string

func (m *matchFlag) addMatch(cmd *cobra.Command) {
	cmd.Flags().Var(m, "match", "follow the Ruby processes whose title matches, a `REGEXP`; those to come, too")
}

// String is the expression.
func (m *matchFlag) String() string { return string(*m) }

// Type is the word for the value in help texts.
func (m *matchFlag) Type() string { return "REGEXP" }

// Set takes an expression. One that is given after another one means the processes of either.
func (m *matchFlag) Set(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("%q is no regular expression: %w", text, err)
	}
	switch {
	case *m == "" || text == "":
		*m = matchFlag(text)
	default:
		*m = matchFlag("(?:" + string(*m) + ")|(?:" + text + ")")
	}
	return nil
}

// userFlag is a flag's value: whose processes --match may find, a name or a number; "": everybody's.
type userFlag string

func (u *userFlag) addUser(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(u), "user", "", "with --match: only processes of this user, a `NAME` or a number")
}

// only returns what tells the user's processes; nil: everybody's are meant.
func (u userFlag) only() (func(pid int) bool, error) {
	if u == "" {
		return nil, nil
	}
	uid, err := strconv.Atoi(string(u))
	if err != nil {
		known, err := user.Lookup(string(u))
		if err != nil {
			return nil, usageErrorf("--user: %w", err)
		}
		if uid, err = strconv.Atoi(known.Uid); err != nil {
			return nil, usageErrorf("--user %s: %w", u, err)
		}
	}
	return func(pid int) bool {
		got, err := kernel.UserOf(pid)
		return err == nil && got == uid
	}, nil
}

// finder returns what looks for processes that match; nil: none are looked for. It says if there is none now.
func (m matchFlag) finder(of userFlag, say func(text string)) (func(known func(int) bool) []int, error) {
	if m == "" {
		if of != "" {
			return nil, usageErrorf("--user goes with --match")
		}
		return nil, nil
	}
	only, err := of.only()
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(string(m))
	if err != nil {
		return nil, usageErrorf("--match: %w", err)
	}
	finder := attach.NewFinder(re.MatchString)
	finder.Only = only
	now, err := finder.Find(func(int) bool { return false })
	if err != nil {
		return nil, err
	}
	if len(now) == 0 {
		say("no process matches --match " + flamegraph.Printable(string(m)) + " now; those that come later are followed")
	}
	return func(known func(int) bool) []int {
		found, _ := finder.Find(known) // it could be read at the start; the next time it may be again
		return found
	}, nil
}
