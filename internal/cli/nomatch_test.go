package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestNoMatchWithoutAnAnswer: if no command or process has the typed name, ddtop says so. If processes did not answer
// in time, their names are unknown. ddtop then adds the number of these processes.
func TestNoMatchWithoutAnAnswer(t *testing.T) {
	root := &cobra.Command{Use: "ddtop", SuggestionsMinimumDistance: 2}
	dump := &cobra.Command{Use: "dump", Run: func(*cobra.Command, []string) {}}
	root.AddCommand(dump)
	for _, c := range []struct {
		typed   string
		command *cobra.Command
		says    []string
	}{
		{"nonsense", root, []string{`no command "nonsense"`, "; 2 did not answer in time"}},
		{"dunp", root, []string{"did you mean dump?", "; 2 did not answer in time"}},
		{"nonsense", dump, []string{"of those whose names could be read; 2 did not answer in time"}},
	} {
		text := (&noMatchError{typed: c.typed, command: c.command, unread: 2}).Error()
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		}
	}
}
