package ui

import (
	"strings"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// between separates the parts of a line that says what is shown.
const between = " · "

// fitParts leaves out the last parts of a line that have no room.
func fitParts(s string, w int) string {
	for canvas.Width(s) > w {
		i := strings.LastIndex(s, between)
		if i < 0 {
			break
		}
		s = s[:i]
	}
	return s
}
