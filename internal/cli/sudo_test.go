package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/cli/sudo"
)

// TestAgain: the user may name processes by words. In the command that ddtop offers to run with sudo, PIDs replace
// these words. Nothing else changes. If the value of a flag is the same word, it must stay.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		words, args, want string
		children          bool
	}{
		{"web", "web", "-p 17", false},
		{"web", "web --children=false --snapshots web", "--children=false --snapshots web -p 17", false},
		{"web", "record web -o web", "record -o web -p 17", false},
		{"web", "record -o web web", "record -o web -p 17", false},
		{"web", "record -oweb web -d 5s", "record -oweb -d 5s -p 17", false},
		{"puma app", "stat puma app -d 5s", "stat -d 5s -p 17", false},
		{"web", "stat web", "stat -p 17 --children", true},
		{"stat", "stat stat", "stat -p 17", false},
		{"web", "web", "-p 17 --children", true},
	} {
		cmd, _, err := newRoot(run.Streams{}).Find(strings.Fields(c.args))
		if err != nil {
			t.Fatal(err)
		}
		choice := run.Chosen{Words: strings.Fields(c.words), PIDs: flags.PIDs{17}, Children: c.children}
		if got := sudo.Again(&choice, strings.Fields(c.args), cmd); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
