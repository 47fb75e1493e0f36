package ui

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestTerminalWithoutColours: the screen is drawn if Bubble Tea converts every colour to no colour. Bubble Tea does
// so with NO_COLOR and without a terminal.
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
