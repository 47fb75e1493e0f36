package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// groundWithin is how long ddtop waits until a terminal reports its background colour. It is enough even for a slow
// connection.
const groundWithin = time.Second

// noGroundMsg arrives groundWithin after ddtop has asked the terminal for its background. If the terminal has already
// answered, it has no effect.
type noGroundMsg struct{}

// askGround asks the terminal for its background.
func askGround() tea.Cmd {
	return tea.Batch(func() tea.Msg { return writeMsg{ansi.RequestBackgroundColor} }, tea.Tick(groundWithin, func(time.Time) tea.Msg { return noGroundMsg{} }))
}
