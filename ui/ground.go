package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// groundWithin is how long a terminal that was asked for its background has to answer, over a slow connection, too.
const groundWithin = time.Second

// noGroundMsg comes when that time is over.
type noGroundMsg struct{}

// askGround asks the terminal for its background.
func askGround() tea.Cmd {
	return tea.Batch(func() tea.Msg { return writeMsg{ansi.RequestBackgroundColor} }, tea.Tick(groundWithin, func(time.Time) tea.Msg { return noGroundMsg{} }))
}
