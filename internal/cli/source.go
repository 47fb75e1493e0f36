package cli

import (
	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// sourceFlag is --source: how it is learned what threads do.
type sourceFlag struct{ from live.From }

func (f *sourceFlag) addTo(cmd *cobra.Command) {
	f.from = live.FromAuto
	cmd.Flags().Var(f, "source", "`SOURCE` of thread states: auto, switches, moved, polling")
	// The flag is there: it has just been added.
	_ = cmd.RegisterFlagCompletionFunc("source", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(live.FromAuto), string(live.FromSwitches), string(live.FromMoved), string(live.FromPolling)}, cobra.ShellCompDirectiveNoFileComp
	})
}

// String returns the value as it was written.
func (f *sourceFlag) String() string { return string(f.from) }

// Type is the word for the value in help texts.
func (f *sourceFlag) Type() string { return "string" }

// Set parses a value.
func (f *sourceFlag) Set(text string) error {
	from, err := live.ParseFrom(text)
	if err == nil {
		f.from = from
	}
	return err
}

// from says how it is learned what threads do. Exact mode tells more than thread switches.
func (t *target) from() live.From {
	if t.source.from == live.FromAuto && t.exact.on {
		return live.FromPolling
	}
	return t.source.from
}

// checkSource refuses what does not go together.
func (t *target) checkSource() error {
	if from := t.source.from; (from == live.FromSwitches || from == live.FromMoved) && t.pause {
		return usageErrorf("--source %s does not go with --pause, whose stops would be in all that it says", from)
	}
	return nil
}

// switchSource is a process that can be followed by its thread switches: a *live.Source.
type switchSource interface{ SwitchStatus() sampler.SwitchStatus }

// fillSource says in a Stat how it was learned what threads did.
func fillSource(stat *gvl.Stat, src sampler.Source) {
	from, ok := src.(switchSource)
	if !ok {
		return
	}
	s := from.SwitchStatus()
	out := &gvl.StatSource{Kind: string(live.FromPolling), Why: s.Ended, Records: s.Records, Lost: s.Lost, FailedWords: s.Failed, KernelNS: s.BusyNS}
	if s.SinceNS != 0 && s.Ended == "" {
		out.Kind = s.Kind
	}
	stat.Source = out
}

// examineSwitches says in `ddtop doctor` whether thread switches can be followed.
func (d *doctor) examineSwitches() {
	if err := live.CheckSwitches(); err != nil {
		d.say(checkNote, "switches", "", "thread switches cannot be followed, so processes are polled: %s", printable(d.names.redactor().Error(err)))
		return
	}
	d.say(checkGood, "switches", "", "this machine lets ddtop follow thread switches, which it does unless --source polling says otherwise")
}
