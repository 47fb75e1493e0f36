package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/gvl"
)

// judgement is how a measurement is judged: by which rules, and which waits are listed.
type judgement struct {
	rules *gvl.Rules
	// wait is the shortest wait that is listed.
	wait duration
	// endpoint says which requests and jobs are told of.
	endpoint endpointFlag
}

func newJudgement() judgement {
	return judgement{rules: gvl.NewRules(), wait: duration{max: time.Hour}}
}

// addRules adds the flag that changes the findings' rules.
func (j *judgement) addRules(cmd *cobra.Command) { addFinding(cmd, ruleFlag{rules: j.rules}) }

func addFinding(cmd *cobra.Command, f ruleFlag) {
	cmd.Flags().Var(f, "finding", "change a rule: gvl_hog=off, gvl_hog.wait=50ms (docs/reference/findings.md)")
}

func (j *judgement) addWait(cmd *cobra.Command) { addWait(cmd, &j.wait) }

func addWait(cmd *cobra.Command, wait *duration) {
	cmd.Flags().Var(wait, "wait-threshold", "hide shorter waits in lists; totals count all")
}

// screenRules are the rules of a screen's findings: as the file of settings has them, changed by flags.
type screenRules struct {
	rules *gvl.Rules
	// given are the flags' settings, which beat the file's.
	given []string
}

func newScreenRules() *screenRules { return &screenRules{rules: gvl.NewRules()} }

// setting takes one of the file's. What flags say still holds.
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

// ruleFlag is a flag's value that changes a rule each time it is given.
type ruleFlag struct {
	rules *gvl.Rules
	// given, if not nil, collects what was given.
	given *[]string
}

// String is the default, which is that nothing is changed.
func (ruleFlag) String() string { return "" }

// Type is the word for the value in help texts.
func (ruleFlag) Type() string { return "RULE" }

// Set changes a rule.
func (f ruleFlag) Set(text string) error {
	if f.given != nil {
		*f.given = append(*f.given, text)
	}
	return f.rules.Set(text)
}
