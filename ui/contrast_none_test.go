package ui

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestTerminalWithoutColours: if NO_COLOR is set or the output is no terminal, Bubble Tea converts every colour to no
// colour. The screen must still draw without an error.
func TestTerminalWithoutColours(t *testing.T) {
	noTTY, ascii := tea.ColorProfileMsg{Profile: 1}, tea.ColorProfileMsg{Profile: 2}
	if noTTY.String() != "NoTTY" || ascii.String() != "Ascii" {
		t.Fatalf("the profiles are %s and %s", noTTY, ascii)
	}
	for _, p := range []tea.ColorProfileMsg{noTTY, ascii} {
		s := newScreen(t, 120, 40, demosource.Options{Length: time.Second}, scene.Options{NoColor: true})
		s.model.Update(p)
		s.sees("order-service")
	}
}
