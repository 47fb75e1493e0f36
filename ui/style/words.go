package style

import (
	"strings"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Wrap breaks a text at spaces into at most n lines of at most w columns; when there are more, the last line is cut and the
// text is not whole.
func Wrap(s string, w, n int) (lines []string, whole bool) {
	s = canvas.Clean(s)
	for len(lines) < n-1 && canvas.Width(s) > w {
		at, col := -1, 0
		for i, r := range s {
			if r == ' ' {
				at = i
			}
			if col += canvas.RuneWidth(r); col > w {
				break
			}
		}
		if at <= 0 {
			break
		}
		lines = append(lines, s[:at])
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, canvas.Cut(s, w)), canvas.Width(s) <= w
}
