package widget

import (
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// ClockOf is the form of a moment on a screen of so many columns: as fine as it is known.
func ClockOf(e *store.WaitEvent, screen int) string {
	switch {
	case !e.Exact:
		return "15:04:05.000"
	case screen >= scene.WideWidth:
		return "15:04:05.000000"
	}
	return "04:05.000000"
}
