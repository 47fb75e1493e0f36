package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui"
)

// find sets the processes of a command. They come from -p, or from words after the command, or from a list on the
// terminal. The words are PIDs or a part of a process's name. Words that match no process may be a mistyped command.
func (t *target) find(cmd *cobra.Command, words []string, std run.Streams, look listLook) error {
	given := cmd.Flags().Changed("pid")
	switch {
	case given && len(words) > 0:
		return flags.Usagef("-p %s and %q both name a process: choose", t.pids.String(), strings.Join(words, " "))
	case given:
		return t.checkPID()
	case slices.ContainsFunc(words, func(w string) bool { return strings.TrimSpace(w) == "" }):
		// If a variable in a script is unset, the word is empty. It must not select a process.
		return flags.Usagef("an empty word names no process")
	case len(words) > 0 && arePIDs(words):
		for _, w := range words {
			if err := t.pids.Set(w); err != nil {
				return flags.Usagef("%w", err)
			}
		}
		return t.checkPID()
	case len(words) == 0 && !std.Terminal && cmd.HasParent():
		return flags.Usagef("%s needs -p PID, or a PID or a part of a process's name behind it; \"ddtop ps\" lists the Ruby processes", cmd.CommandPath())
	}
	typed := strings.Join(words, " ")
	if !cmd.HasParent() && habit(typed) != "" {
		// The words are a command of another profiler, such as "top". A process would match only by chance: "top" is
		// part of /srv/laptop.
		return &noMatchError{typed: typed, command: cmd}
	}
	list, err := attach.List(cmd.Context())
	if err != nil {
		return err
	}
	found := list
	if typed != "" {
		if found = matching(list, typed); len(found) == 0 {
			return &noMatchError{typed: typed, command: cmd, unread: countUnread(list)}
		}
	}
	switch {
	case t.children:
		found = roots(found)
	case !cmd.Flags().Changed("children") && isCluster(found):
		// A command that has no flag --children takes only the process at the top: the master of the workers.
		t.children, found = cmd.Flags().Lookup("children") != nil, roots(found)
	}
	if len(found) == 1 && (typed != "" || std.Terminal) || t.children && typed != "" {
		for _, c := range found {
			if err := t.pids.Set(strconv.Itoa(c.PID)); err != nil {
				return flags.Usagef("%q: %w", typed, err)
			}
			t.sayChosen(c, list, std)
		}
		*std.Chosen = run.Chosen{Words: words, PIDs: t.pids, Children: t.children}
		return t.checkPID()
	}
	return t.choose(cmd, list, found, words, std, look)
}

// sayChosen reports which process was chosen, and why: because of its name, or because there is no other. It also
// reports how many of the process's descendants are measured.
func (t *target) sayChosen(c attach.Candidate, list []attach.Candidate, std run.Streams) {
	why := ""
	if len(list) == 1 {
		why = ", the only Ruby process here"
	}
	if n := below(list, c.PID); n > 0 && t.children {
		why = " and " + units.Plural(n, "process", "processes") + " below it"
	}
	std.Say("process %d: %s%s", c.PID, run.ShortName(nameOf(c, std.Redact.Redactor())), why)
}

// nameOf returns the displayed name of a listed process.
func nameOf(c attach.Candidate, names *redact.Redactor) string {
	return strings.Join(strings.Fields(names.Program(c.Title)+" "+c.Part+" "+c.Now), " ")
}

// below counts the listed descendants of a process, at any depth.
func below(list []attach.Candidate, pid int) int {
	family := []int{pid}
	for i := 0; i < len(family); i++ { // family grows while children are found
		for _, c := range list {
			if c.PPID == family[i] && !slices.Contains(family, c.PID) {
				family = append(family, c.PID)
			}
		}
	}
	return len(family) - 1
}

// isCluster reports whether the found processes are one service: a process and at least one of its descendants.
func isCluster(found []attach.Candidate) bool { return len(found) > 1 && len(roots(found)) == 1 }

// arePIDs reports whether all words are PIDs, such as 17 or 17,18.
func arePIDs(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		return w == "" || strings.Trim(w, "0123456789,") != ""
	})
}

// matching returns the processes whose names contain all typed words, ignoring case. If there are none, it returns the
// processes whose command lines contain them.
func matching(list []attach.Candidate, typed string) []attach.Candidate {
	words := strings.Fields(strings.ToLower(typed))
	having := func(text func(attach.Candidate) string) []attach.Candidate {
		return slices.DeleteFunc(slices.Clone(list), func(c attach.Candidate) bool {
			in := strings.ToLower(text(c))
			return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(in, w) })
		})
	}
	found := having(func(c attach.Candidate) string { return c.Title + " " + c.Part })
	if len(found) == 0 {
		found = having(func(c attach.Candidate) string { return c.Title + " " + strings.Join(c.Arguments, " ") })
	}
	return found
}

// roots returns the processes whose parents are not in the list.
func roots(list []attach.Candidate) []attach.Candidate {
	parents := make(map[int]int, len(list))
	for _, c := range list {
		parents[c.PID] = c.PPID
	}
	return slices.DeleteFunc(slices.Clone(list), func(c attach.Candidate) bool {
		_, listed := parents[c.PPID]
		return listed && c.PPID != c.PID
	})
}

// noMatchError says that no process matches the typed words.
type noMatchError struct {
	typed   string
	command *cobra.Command
	unread  int // processes whose names could not be read in time
}

// countUnread counts the processes of a list whose names could not be read in time.
func countUnread(list []attach.Candidate) (n int) {
	for _, c := range list {
		if errors.Is(c.Err, attach.ErrNoAnswer) {
			n++
		}
	}
	return n
}

// Error also suggests the command that the user may have meant, if the words are in a place where a command can be.
func (e *noMatchError) Error() string {
	if e.command.HasParent() {
		if e.unread > 0 {
			return fmt.Sprintf("no Ruby process has %q in its name or command line, of those whose names could be read; "+
				"%d did not answer in time: try again, or give -p PID", e.typed, e.unread)
		}
		return fmt.Sprintf("no Ruby process has %q in its name or command line; \"ddtop ps\" lists them", e.typed)
	}
	if does := habit(e.typed); does != "" {
		return does
	}
	var unread string
	if e.unread > 0 {
		unread = fmt.Sprintf("; %d did not answer in time: try again if a process was meant", e.unread)
	}
	if near := e.command.SuggestionsFor(e.typed); len(near) > 0 {
		return fmt.Sprintf("there is no command %q; did you mean %s? No Ruby process has that in its name or command line, "+
			"either", e.typed, strings.Join(near, " or ")) + unread
	}
	return fmt.Sprintf("there is no command %q, and no Ruby process has that in its name or command line; \"ddtop help\" lists "+
		"the commands, \"ddtop ps\" the processes, \"ddtop -- %s\" starts a program", e.typed, e.typed) + unread
}

// Unwrap returns attach.ErrNoProcess. If the words may be a mistyped command, it returns a usage error.
func (e *noMatchError) Unwrap() error {
	if e.command.HasParent() {
		return attach.ErrNoProcess
	}
	return &flags.UsageError{Err: errors.New("no such command")}
}

const maxCompletion = 32

// isTypable reports whether a shell reads a name as one harmless word. Completion inserts the name without quotes. A
// process can choose any name, even one that would run a command when the user presses enter.
func isTypable(name string) bool {
	return name != "" && len(name) <= maxCompletion && name[0] != '-' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// completePIDs completes the PIDs and names of the Ruby processes. After "--" and the name of a program to start, it
// completes files.
func completePIDs(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	// To complete a word, cobra calls ddtop with another "--" after the typed words.
	if dash := cmd.ArgsLenAtDash(); dash >= 0 && dash < len(args) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	list, err := attach.List(cmp.Or(cmd.Context(), context.Background()))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for _, c := range list {
		pid := strconv.Itoa(c.PID)
		if strings.HasPrefix(pid, typed) {
			out = append(out, cobra.CompletionWithDesc(pid, run.ShortName(nameOf(c, nil))))
		}
		if typed != "" && isTypable(c.Title) && !slices.Contains(out, c.Title) && strings.HasPrefix(c.Title, typed) {
			out = append(out, c.Title)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// errNotChosen means that the user left the list of processes without choosing one.
var errNotChosen = errors.New("no process was chosen")

// listLook is how the list of processes looks on the screen, and what the user can do in it.
type listLook struct {
	options ui.Options
	// verb names what the command does with the chosen process.
	verb string
}

// plainLook returns how the list looks for a command that has no screen.
func plainLook(verb string, std run.Streams) listLook {
	return listLook{ui.Options{Input: std.In, Output: std.Out, Suspend: canSuspend()}, verb}
}

// choose lets the user choose a process from a list. At first the list shows the processes that match the typed words.
// Without a terminal it returns a usage error with the list and advice.
func (t *target) choose(cmd *cobra.Command, list, found []attach.Candidate, words []string, std run.Streams, look listLook) error {
	typed := strings.Join(words, " ")
	if len(list) == 0 {
		return flags.Usagef("there is no Ruby process on this machine that can be seen from here: " +
			"\"ddtop demo\" starts one to look at, \"ddtop -- ruby app.rb\" your own")
	}
	names := std.Redact.Redactor()
	switch {
	case !std.Terminal && typed == "": // the user typed only `ddtop`, so print the list
		if err := writePs(std.Out, psOf(cmd.Context(), list, false, names)); err != nil {
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

// maxListed limits how many processes an error lists.
const maxListed = 16

// listed returns the found processes as text, such as "17 puma, 18 puma (below 17)".
func listed(found []attach.Candidate, names *redact.Redactor) string {
	var words []string
	for _, c := range found[:min(len(found), maxListed)] {
		word := fmt.Sprintf("%d %s", c.PID, run.ShortName(nameOf(c, names)))
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

// allOf returns advice on how to select all found processes: by naming their common ancestor.
func allOf(cmd *cobra.Command, found []attach.Candidate, typed string) string {
	if top := roots(found); len(top) < len(found) {
		return ", or all together (" + cmd.CommandPath() + " " + typed + " --children)"
	}
	return ""
}

// candidates converts processes for the screen's list. With --redact, the list has no command lines.
func candidates(list []attach.Candidate, names *redact.Redactor) []ui.Candidate {
	out := make([]ui.Candidate, 0, len(list))
	for i, p := range describeAll(list, true, names) {
		c := ui.Candidate{PID: p.PID, PPID: p.PPID, Threads: p.Threads, CPU: list[i].CPU, Started: list[i].Started,
			User: p.User, Title: nameOf(list[i], names), Command: strings.Join(p.Args, " ")}
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

// matchFlag is the value of --match, a regular expression. ddtop follows the processes whose titles match it. If it is
// empty, ddtop does not search for processes.
type matchFlag string

func (m *matchFlag) addMatch(cmd *cobra.Command) {
	cmd.Flags().Var(m, "match", "follow the Ruby processes whose title matches a `REGEXP`, including later ones")
}

// String returns the expression.
func (m *matchFlag) String() string { return string(*m) }

// Type returns the word that stands for the value of --match in help texts.
func (m *matchFlag) Type() string { return "REGEXP" }

// Set adds an expression to --match. ddtop follows processes that match at least one of the expressions.
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

// userFlag is the value of --user: a user's name or number. It limits --match to processes of this user. If it is
// empty, --match finds the processes of all users.
type userFlag string

func (u *userFlag) addUser(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(u), "user", "", "with --match: only processes of this user, by `NAME` or number")
}

// only returns a function that tests whether a process belongs to the user of --user, or nil for all users.
func (u userFlag) only() (func(pid int) bool, error) {
	if u == "" {
		return nil, nil
	}
	uid, err := strconv.Atoi(string(u))
	if err != nil {
		known, err := user.Lookup(string(u))
		if err != nil {
			return nil, flags.Usagef("--user: %w", err)
		}
		if uid, err = strconv.Atoi(known.Uid); err != nil {
			return nil, flags.Usagef("--user %s: %w", u, err)
		}
	}
	return func(pid int) bool {
		got, err := kernel.UserOf(pid)
		return err == nil && got == uid
	}, nil
}

// maxRubySearch limits how long anyRuby examines processes.
const maxRubySearch = time.Second

// anyRuby reports whether a process that matches --match can be a Ruby. The shell or sudo that started ddtop matches
// too, because its command line contains the expression, but it is no Ruby.
func anyRuby(pids []int) bool {
	begun := time.Now()
	return slices.ContainsFunc(pids, func(pid int) bool {
		if time.Since(begun) > maxRubySearch {
			return true
		}
		p, err := attach.Open(pid)
		if err == nil {
			var m *attach.Module
			if m, err = attach.FindRuby(p); err == nil {
				m.Close()
			}
			p.Close()
		}
		return !run.IsAny(err, attach.ErrNotRuby, attach.ErrKernelThread, attach.ErrNoProcess, attach.ErrGone, attach.ErrZombie)
	})
}

// finder returns a function that finds the processes that match m, or nil if m is empty. If of is not empty, it finds
// only processes of this user. It calls say once if the first complete search finds no process.
func (m matchFlag) finder(of userFlag, say func(text string)) (func(known func(int) bool) []int, error) {
	if m == "" {
		if of != "" {
			return nil, flags.Usagef("--user goes with --match")
		}
		return nil, nil
	}
	only, err := of.only()
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(string(m))
	if err != nil {
		return nil, flags.Usagef("--match: %w", err)
	}
	finder := attach.NewFinder(re.MatchString)
	finder.Only = only
	var all []int // processes found until the first complete search
	told := false
	tell := func(found []int) {
		if told {
			return
		}
		all, told = append(all, found...), finder.Whole()
		if told && !anyRuby(all) {
			say("no Ruby process matches --match " + flamegraph.Printable(string(m)) + " now; those that come later are followed")
		}
	}
	found, err := finder.Find(func(int) bool { return false })
	if err != nil {
		return nil, err
	}
	tell(found)
	return func(known func(int) bool) []int {
		found, _ := finder.Find(known) // ignore the error: /proc was readable at the start, so this is temporary
		tell(found)
		return found
	}, nil
}
