package ui

import (
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// DefaultHistory is how long the past is kept.
const DefaultHistory = store.DefaultHistory

// Themes are the names that ThemeByName knows.
var Themes = style.Themes

// ThemeByName returns a theme. An empty name and "auto" give the dark theme.
func ThemeByName(name string) (style.Theme, error) { return style.ThemeByName(name) }
