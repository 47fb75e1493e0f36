package ui

import (
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Types of the packages below ui that commands use.
type (
	// Options are the options of Run.
	Options = scene.Options
	// Against is another recording to compare with.
	Against = scene.Against
	// ExactSwitch switches exact mode on and off.
	ExactSwitch = scene.ExactSwitch
	// NativeSwitch switches C stacks of running threads on and off.
	NativeSwitch = scene.NativeSwitch
	// HeapReader reads the heap of a process.
	HeapReader = scene.HeapReader
)

// The defaults of Options, and the longest history.
const (
	DefaultWindow  = scene.DefaultWindow
	DefaultHistory = store.DefaultHistory
	MaxHistory     = scene.MaxHistory
)

// Themes are the names that ThemeByName knows.
var Themes = style.Themes

// ThemeByName returns a theme. An empty name and "auto" give the dark theme.
func ThemeByName(name string) (style.Theme, error) { return style.ThemeByName(name) }
