package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// The defaults of --when: how much is recorded before and after, over which past figures are, how long a recording can be, and
	// how many are kept, of which size in all.
	defaultBefore  = 30 * time.Second
	defaultOver    = 5 * time.Second
	defaultLongest = 10 * time.Minute
	defaultKeep    = 100
	defaultKept    = 1e9
	// maxBefore bounds what is kept in memory, minKept the size of all recordings, in bytes, and maxKeep their number.
	maxBefore = 10 * time.Minute
	minKept   = 1e6
	maxKeep   = 10_000
	// maxConditions bounds the conditions.
	maxConditions = 64
)

// whenFlags are those of `record --when`.
type whenFlags struct {
	conditions                   []gvl.Condition
	before, after, over, longest duration
	keep                         int
	size                         byteSize
	match                        matchFlag
	user                         userFlag
	rules                        *gvl.Rules
	asJSON                       bool
}

func newWhenFlags() whenFlags {
	return whenFlags{
		before: duration{value: defaultBefore, max: maxBefore}, after: duration{value: defaultBefore, min: time.Second, max: time.Hour},
		over:    duration{value: defaultOver, min: gvl.MinOverNS, max: gvl.MaxOverNS},
		longest: duration{value: defaultLongest, min: 10 * time.Second, max: 24 * time.Hour}, keep: defaultKeep, size: defaultKept, rules: gvl.NewRules(),
	}
}

// conditionFlag is a flag's value that adds a condition each time it is given.
type conditionFlag struct{ to *whenFlags }

// String is the default, which is none.
func (conditionFlag) String() string { return "" }

// Type is the word for the value in help texts.
func (conditionFlag) Type() string { return "CONDITION" }

// Set adds a condition.
func (c conditionFlag) Set(text string) error {
	if len(c.to.conditions) >= maxConditions {
		return fmt.Errorf("there are more than %d", maxConditions)
	}
	x, err := gvl.ParseCondition(text)
	if err == nil {
		c.to.conditions = append(c.to.conditions, x)
	}
	return err
}

// whenOnly are the flags that --when alone has, and notWhen those that it has not.
var (
	whenOnly = []string{"before", "after", "over", "longest", "keep", "size", "match", "finding", "json"}
	notWhen  = []string{"metric", "own", "endpoint", "timeline"}
)

func (f *whenFlags) addWhen(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(conditionFlag{f}, "when", "record what is around a finding, or a figure such as 'wait_p99>200ms', into the folder -o")
	flags.Var(&f.before, "before", "with --when: how long before it a recording begins")
	flags.Var(&f.after, "after", "with --when: how long after it is over a recording ends")
	flags.Var(&f.over, "over", "with --when: the past that figures are of")
	flags.Var(&f.longest, "longest", "with --when: how long a recording can be after it has begun")
	flags.IntVar(&f.keep, "keep", f.keep, "with --when: keep the newest `N` recordings")
	flags.Var(&f.size, "size", "with --when: what all recordings in the folder may take")
	f.match.addMatch(cmd)
	f.user.addUser(cmd)
	flags.Lookup("match").Usage = "with --when: " + flags.Lookup("match").Usage
	addFinding(cmd, ruleFlag{rules: f.rules})
	flags.Lookup("finding").Usage = "with --when: " + flags.Lookup("finding").Usage
	flags.BoolVar(&f.asJSON, "json", false, "with --when: print JSON, a line each (docs/reference/json.md)")
}

// whenHelp is what the help says of conditions.
func whenHelp() string {
	var b strings.Builder
	b.WriteString("With --when ddtop waits for a condition, which it checks once a second. It then writes a recording into the folder -o,\n" +
		"from --before the condition to --after its end. A condition is the name of a finding (docs/reference/findings.md),\n" +
		"any (every finding that is at least a warning), or a figure with > >= < <= and a threshold:\n")
	for _, x := range gvl.Figures() {
		fmt.Fprintf(&b, "  %-12s%-7s%s\n", x.Name, x.Like, x.About)
	}
	return b.String()
}

// given reports whether --when is; flags that don't go together are refused.
func (f *whenFlags) given(cmd *cobra.Command) (bool, error) {
	if len(f.conditions) == 0 {
		for _, name := range whenOnly {
			if cmd.Flags().Changed(name) {
				return false, usageErrorf("--%s goes with --when", name)
			}
		}
		return false, nil
	}
	for _, name := range notWhen {
		if cmd.Flags().Changed(name) {
			return false, usageErrorf("--%s does not go with --when, which writes recordings: they hold everything, and \"ddtop report\" makes the rest of them", name)
		}
	}
	switch {
	case f.keep < 1 || f.keep > maxKeep:
		return false, usageErrorf("--keep takes 1 to %d, not %d", maxKeep, f.keep)
	case f.size < minKept:
		return false, usageErrorf("--size takes 1MB or more, not %d bytes: one recording alone is as large as that", f.size)
	case f.longest.value < f.after.value:
		return false, usageErrorf("--longest %v is shorter than --after %v", f.longest.value, f.after.value)
	}
	return true, nil
}

// watch is `ddtop record --when`.
func (f *recordFlags) watch(cmd *cobra.Command, words []string, std Streams) error {
	switch {
	case cmd.Flags().Changed("format") && f.format != recordingFormat:
		return usageErrorf("--when writes recordings (--format %s), not %s: \"ddtop report\" makes that of them", recordingFormat, f.format)
	case f.output == "" || f.output == "-":
		return usageErrorf("%s --when needs -o FOLDER, where recordings are kept", cmd.CommandPath())
	}
	find, err := f.when.match.finder(f.when.user)
	if err != nil {
		return err
	}
	folder := &keptFolder{path: filepath.Clean(f.output), count: f.when.keep, bytes: int64(f.when.size)}
	if find != nil && len(words) == 0 && len(f.pids) == 0 {
		err = errors.Join(f.checkRates(), f.checkExact(cmd, false))
	} else {
		err = f.measurement.check(cmd, words, std)
	}
	if err := cmp.Or(err, folder.check()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	if cmd.Flags().Changed("duration") {
		ctx, cancel = context.WithTimeout(ctx, f.length.value)
		defer cancel()
	}
	if f.pause {
		stayAwake()
	}
	processes, err := live.OpenGroup(ctx, f.pids, live.GroupOptions{Children: f.children, Find: find, Options: f.attaching(layoutProgress(f.names))})
	if err != nil {
		return err
	}
	g, err := f.exact.group(ctx, processes, tellExact(std.say), true)
	if err != nil {
		return err
	}
	defer g.Close()
	return f.watchGroup(ctx, cancel, g, folder, std)
}

func (f *recordFlags) watchGroup(ctx context.Context, cancel func(), g sampler.Group, folder *keptFolder, std Streams) error {
	to := std.results(ctx)
	events := run.Print(func(e export.WatchEvent) error {
		if f.when.asJSON {
			return export.WriteWatchEventJSON(to, e)
		}
		return export.WriteWatchEvent(to, e)
	}, cancel)
	folder.removed = func(path string, size int64) {
		events.Add(export.WatchEvent{Time: time.Now(), Event: "removed", Path: path, Bytes: size})
	}
	w := &watching{when: &f.when, folder: folder, events: events, say: std.say}
	var conditions []string
	for _, c := range f.when.conditions {
		conditions = append(conditions, c.String())
	}
	std.say("waiting for %s", strings.Join(conditions, " or "))
	err := w.run(ctx, g)
	return errors.Join(err, events.Close(std.say))
}
