package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// TestRulesReachTheScreen: the screen shows the finding of a rule. If the rule is turned off in the options, the screen
// must not show it.
func TestRulesReachTheScreen(t *testing.T) {
	found := func(rules *findings.Rules) bool {
		r, err := recording.Open("../../screenshots/recordings/hog.ddtop")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		store, err := New(r, Options{History: DefaultHistory, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context(), store.Feed); err != nil && !errors.Is(err, sampler.ErrEnded) {
			t.Fatal(err)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		for i := range store.marks.ring {
			if slices.ContainsFunc(store.marks.Mark(i).Findings, func(f findings.Finding) bool { return f.ID == "gvl_hog" }) {
				return true
			}
		}
		return false
	}
	off := findings.NewRules()
	if err := off.Set("gvl_hog=off"); err != nil {
		t.Fatal(err)
	}
	if !found(nil) || found(off) {
		t.Errorf("gvl_hog is found: %v; turned off: %v", found(nil), found(off))
	}
}
