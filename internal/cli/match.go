package cli

import (
	"os/user"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// matchFlag is a flag's value: a regular expression on the titles of the processes to follow; "": none are looked for.
type matchFlag string

func (m *matchFlag) addMatch(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(m), "match", "", "follow the Ruby processes whose title matches a `REGEXP`, including later ones")
}

// userFlag is a flag's value: whose processes --match may find, a name or a number; "": everybody's.
type userFlag string

func (u *userFlag) addUser(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(u), "user", "", "with --match: only processes of this user, by `NAME` or number")
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

// finder returns what looks for processes that match; nil: none are looked for.
func (m matchFlag) finder(of userFlag) (func(known func(int) bool) []int, error) {
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
	if _, err := finder.Find(func(int) bool { return true }); err != nil {
		return nil, err
	}
	return func(known func(int) bool) []int {
		found, _ := finder.Find(known) // it could be read at the start; the next time it may be again
		return found
	}, nil
}
