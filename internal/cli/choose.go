package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui"
)

// errNotChosen is returned when the user chose none.
var errNotChosen = errors.New("no process was chosen")

// listLook is how the list of processes looks, by the flags and settings of the screen.
type listLook struct {
	options ui.Options
	// verb is what is done with the process that is chosen, in a word.
	verb string
}

// plainLook is that of a command without a screen.
func plainLook(verb string, std run.Streams) listLook {
	return listLook{ui.Options{Input: std.In, Output: std.Out, Suspend: canSuspend()}, verb}
}

// choose lets one of several processes be chosen from a list that shows at first those found, by the words typed. Without a
// terminal it fails with a usage error that says what to do and lists them.
func (t *target) choose(cmd *cobra.Command, list, found []attach.Candidate, words []string, std run.Streams, look listLook) error {
	typed := strings.Join(words, " ")
	if len(list) == 0 {
		return flags.Usagef("there is no Ruby process on this machine that can be seen from here: " +
			"\"ddtop demo\" starts one to look at, \"ddtop -- ruby app.rb\" your own")
	}
	names := std.Redact.Redactor()
	switch {
	case !std.Terminal && typed == "": // the list is what was asked for
		if err := writePs(std.Out, describeAll(list, false, names)); err != nil {
			return err
		}
		return flags.Usagef("without a terminal no process can be chosen: name one, by its PID or a part of its name, with dump, stat or record")
	case !std.Terminal:
		return flags.Usagef("%d Ruby processes have %q in their names or command lines: %s; name one by its PID (%s %d)%s",
			len(found), typed, listed(found, names), cmd.CommandPath(), found[0].PID, allOf(cmd, found, typed))
	}
	o := look.options
	o.Redactor = names
	choice, err := ui.Choose(cmd.Context(), o, ui.Choosing{
		First: candidates(list, names), Filter: typed, Verb: look.verb,
		List: func(ctx context.Context) ([]ui.Candidate, error) {
			l, err := attach.List(ctx)
			return candidates(l, names), err
		},
	})
	if errors.Is(err, ui.ErrCancelled) || cmd.Context().Err() != nil {
		return errNotChosen
	}
	if err != nil {
		return err
	}
	t.pids, t.children = flags.PIDs{choice.PID}, t.children || choice.Children
	*std.Chosen = run.Chosen{Words: words, PIDs: t.pids, Children: t.children}
	return t.checkPID()
}

// maxListed is how many processes an error lists.
const maxListed = 16

// listed are processes in words: "17 puma, 18 puma (below 17)".
func listed(found []attach.Candidate, names *redact.Redactor) string {
	var words []string
	for _, c := range found[:min(len(found), maxListed)] {
		word := fmt.Sprintf("%d %s", c.PID, run.ShortName(names.Program(c.Title)))
		if slices.ContainsFunc(found, func(x attach.Candidate) bool { return x.PID == c.PPID }) {
			word += fmt.Sprintf(" (below %d)", c.PPID)
		}
		words = append(words, word)
	}
	if n := len(found) - maxListed; n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(words, ", ")
}

// allOf says how all processes found are looked at: together with the one that they are below.
func allOf(cmd *cobra.Command, found []attach.Candidate, typed string) string {
	if top := roots(found); len(top) < len(found) {
		return ", or all together (" + cmd.CommandPath() + " " + typed + " --children)"
	}
	return ""
}

// candidates are the processes as the list shows them. With pseudonyms there are no command lines.
func candidates(list []attach.Candidate, names *redact.Redactor) []ui.Candidate {
	out := make([]ui.Candidate, 0, len(list))
	for i, p := range describeAll(list, true, names) {
		c := ui.Candidate{PID: p.PID, PPID: p.PPID, Threads: p.Threads, CPU: list[i].CPU, Started: list[i].Started,
			User: p.User, Title: p.Title, Command: strings.Join(p.Args, " ")}
		if p.Version != nil {
			c.Ruby = *p.Version
		}
		if p.WhyNot != nil {
			c.Why = *p.WhyNot
		}
		out = append(out, c)
	}
	return out
}
