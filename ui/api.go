package ui

import (
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// These types are defined in packages below ui. They also have names here, so that commands need not import those
// packages.
type (
	// Options are the options of Run.
	Options = scene.Options
	// Against is another recording to compare with.
	Against = scene.Against
	// ExactSwitch switches exact mode on and off.
	ExactSwitch = scene.ExactSwitch
	// NativeSwitch switches the recording of running threads' C stacks on and off.
	NativeSwitch = scene.NativeSwitch
	// HeapReader reads the heap of a process.
	HeapReader = scene.HeapReader
)

// These are the defaults of Options, and the longest history that can be set.
const (
	DefaultWindow  = scene.DefaultWindow
	DefaultHistory = store.DefaultHistory
	MaxHistory     = scene.MaxHistory
)

// Themes are the names that ThemeByName knows.
var Themes = style.Themes

// ThemeByName returns the colour theme with this name. For an empty name and for "auto" it returns the dark theme.
func ThemeByName(name string) (style.Theme, error) { return style.ThemeByName(name) }
