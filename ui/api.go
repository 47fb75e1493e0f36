package ui

import "github.com/ddtop/ddtop/ui/style"

// Themes are the names that ThemeByName knows.
var Themes = style.Themes

// ThemeByName returns a theme. An empty name and "auto" give the dark theme.
func ThemeByName(name string) (style.Theme, error) { return style.ThemeByName(name) }
