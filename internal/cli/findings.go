package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/cli/flags"
)

// judgement holds the user's settings about findings, about the waits to list, and about the endpoints to report.
type judgement struct {
	rules *findings.Rules
	// wait is the length from which on waits are listed.
	wait flags.Duration
	// endpoint selects the reported requests and jobs.
	endpoint flags.Endpoint
}

func newJudgement() judgement {
	return judgement{rules: findings.NewRules(), wait: flags.Duration{Max: time.Hour}}
}

// addRules adds the flag --finding, with which the user changes the rules of findings.
func (j *judgement) addRules(cmd *cobra.Command) { addFinding(cmd, j.rules.Set) }

func addFinding(cmd *cobra.Command, set func(rule string) error) {
	cmd.Flags().Var(flags.Each{Kind: "RULE", Add: set}, "finding", "change a rule: gvl_hog=off, gvl_hog.wait=50ms (docs/reference/findings.md)")
}

func (j *judgement) addWait(cmd *cobra.Command) { addWait(cmd, &j.wait) }

func addWait(cmd *cobra.Command, wait *flags.Duration) {
	cmd.Flags().Var(wait, "wait-threshold", "hide shorter waits in lists; totals count all")
}

// screenRules are the findings' rules for the screen or push. Flags take precedence over the settings file.
type screenRules struct {
	rules *findings.Rules
	// given are the values of the flag --finding, which override the settings file.
	given []string
}

func newScreenRules() *screenRules { return &screenRules{rules: findings.NewRules()} }

// flag applies the value of a flag.
func (s *screenRules) flag(text string) error {
	s.given = append(s.given, text)
	return s.rules.Set(text)
}

// setting applies a line of the settings file. Then it applies the flags again, because flags take precedence.
func (s *screenRules) setting(text string) error {
	if err := s.rules.Set(text); err != nil {
		return err
	}
	for _, flag := range s.given {
		if err := s.rules.Set(flag); err != nil {
			return err
		}
	}
	return nil
}
