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

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/cli/watch"
	"github.com/ddtop/ddtop/sampler/live/group"
)

const (
	// The defaults of --when. defaultBefore is recorded before and after the event, and figures cover defaultOver.
	// defaultLongest limits one recording, defaultKeep the number of recordings, and defaultKept their size in bytes.
	defaultBefore  = 30 * time.Second
	defaultOver    = 5 * time.Second
	defaultLongest = 10 * time.Minute
	defaultKeep    = 100
	defaultKept    = 1e9
	// maxBefore bounds how much time before an event is kept in memory. minKept is the smallest value of --size, in
	// bytes. maxKeep is the largest value of --keep.
	maxBefore = 10 * time.Minute
	minKept   = 1e6
	maxKeep   = 10_000
	// maxConditions bounds the number of conditions.
	maxConditions = 64
)

type whenFlags struct {
	watch.Options
	keep  int
	size  flags.ByteSize
	match matchFlag
	user  userFlag
}

func newWhenFlags() whenFlags {
	return whenFlags{
		Options: watch.Options{
			Before:  flags.Duration{Value: defaultBefore, Max: maxBefore},
			After:   flags.Duration{Value: defaultBefore, Min: time.Second, Max: time.Hour},
			Over:    flags.Duration{Value: defaultOver, Min: measure.MinOverNS, Max: measure.MaxOverNS},
			Longest: flags.Duration{Value: defaultLongest, Min: 10 * time.Second, Max: 24 * time.Hour}, Rules: findings.NewRules(),
		},
		keep: defaultKeep, size: defaultKept,
	}
}

func (f *whenFlags) add(text string) error {
	if len(f.Conditions) >= maxConditions {
		return fmt.Errorf("there are more than %d", maxConditions)
	}
	x, err := measure.ParseCondition(text)
	if err == nil {
		f.Conditions = append(f.Conditions, x)
	}
	return err
}

// whenOnly are the flags that need --when. notWhen are the flags that cannot be combined with --when.
var (
	whenOnly = []string{"before", "after", "over", "longest", "keep", "size", "match", "finding", "json"}
	notWhen  = []string{"metric", "own", "endpoint", "timeline"}
)

func (f *whenFlags) addWhen(cmd *cobra.Command) {
	set := cmd.Flags()
	set.Var(flags.Each{Kind: "CONDITION", Add: f.add}, "when", "record what is around a finding, or a figure such as 'wait_p99>200ms', into the folder -o")
	set.Var(&f.Before, "before", "with --when: how long before it a recording begins")
	set.Var(&f.After, "after", "with --when: how long after it is over a recording ends")
	set.Var(&f.Over, "over", "with --when: the past that figures are of")
	set.Var(&f.Longest, "longest", "with --when: how long a recording can be after it has begun")
	set.IntVar(&f.keep, "keep", f.keep, "with --when: keep the newest `N` recordings")
	set.Var(&f.size, "size", "with --when: what all recordings in the folder may take")
	f.match.addMatch(cmd)
	f.user.addUser(cmd)
	set.Lookup("match").Usage = "with --when: " + set.Lookup("match").Usage
	addFinding(cmd, f.Rules.Set)
	set.Lookup("finding").Usage = "with --when: " + set.Lookup("finding").Usage
	set.BoolVar(&f.AsJSON, "json", false, "with --when: print JSON, a line each (docs/reference/json.md)")
}

func whenHelp() string {
	var b strings.Builder
	b.WriteString("With --when ddtop waits for a condition, which it checks once a second. It then writes a recording into the folder -o,\n" +
		"from --before the condition to --after its end. A condition is the name of a finding (docs/reference/findings.md),\n" +
		"any (every finding that is at least a warning), or a figure with > >= < <= and a threshold:\n")
	for _, x := range measure.Figures() {
		fmt.Fprintf(&b, "  %-12s%-7s%s\n", x.Name, x.Like, x.About)
	}
	return b.String()
}

// given reports whether the user gave --when. It refuses flags that contradict it.
func (f *whenFlags) given(cmd *cobra.Command) (bool, error) {
	if len(f.Conditions) == 0 {
		for _, name := range whenOnly {
			if cmd.Flags().Changed(name) {
				return false, flags.Usagef("--%s goes with --when", name)
			}
		}
		return false, nil
	}
	for _, name := range notWhen {
		if cmd.Flags().Changed(name) {
			return false, flags.Usagef("--%s does not go with --when, which writes recordings: they hold everything, and \"ddtop report\" makes the rest of them", name)
		}
	}
	switch {
	case f.keep < 1 || f.keep > maxKeep:
		return false, flags.Usagef("--keep takes 1 to %d, not %d", maxKeep, f.keep)
	case f.size < minKept:
		return false, flags.Usagef("--size takes 1MB or more, not %d bytes: one recording alone is as large as that", f.size)
	case f.Longest.Value < f.After.Value:
		return false, flags.Usagef("--longest %v is shorter than --after %v", f.Longest.Value, f.After.Value)
	}
	return true, nil
}

func (f *recordFlags) watch(cmd *cobra.Command, words []string, std run.Streams) error {
	switch {
	case cmd.Flags().Changed("format") && f.format != recordingFormat:
		return flags.Usagef("--when writes recordings (--format %s), not %s: \"ddtop report\" makes that of them", recordingFormat, f.format)
	case f.output == "" || f.output == "-":
		return flags.Usagef("%s --when needs -o FOLDER, where recordings are kept", cmd.CommandPath())
	}
	find, err := f.when.match.finder(f.when.user, func(text string) { std.Say("%s", text) })
	if err != nil {
		return err
	}
	folder := watch.NewFolder(filepath.Clean(f.output), f.when.keep, int64(f.when.size))
	if find != nil && len(words) == 0 && len(f.pids) == 0 {
		err = errors.Join(f.checkRates(), f.checkExact(cmd, false))
	} else {
		err = f.measurement.check(cmd, words, std)
	}
	if err := cmp.Or(err, folder.Check()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	if cmd.Flags().Changed("duration") {
		ctx, cancel = context.WithTimeout(ctx, f.length.Value)
		defer cancel()
	}
	if f.pause {
		exact.StayAwake()
	}
	processes, err := group.Open(ctx, f.pids, group.Options{Children: f.children, Find: find, Options: f.attaching(layoutProgress(f.names))})
	if err != nil {
		return err
	}
	g, err := f.exact.Group(ctx, processes, run.TellExact(std.Say), true)
	if err != nil {
		return err
	}
	defer g.Close()
	return watch.Run(ctx, cancel, g, &f.when.Options, folder, std)
}
