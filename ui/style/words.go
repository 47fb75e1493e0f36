package style

import (
	"strings"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Between separates the parts of a line that says what is shown.
const Between = " · "

// FitParts leaves out the last parts of a line that have no room.
func FitParts(s string, w int) string {
	for canvas.Width(s) > w {
		i := strings.LastIndex(s, Between)
		if i < 0 {
			break
		}
		s = s[:i]
	}
	return s
}

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

// Fit returns the first of the forms of a text, the fullest first, that has room, or as much of the last as has.
func Fit(forms []string, w int) string {
	for _, s := range forms {
		if canvas.Width(s) <= w {
			return s
		}
	}
	return canvas.Cut(forms[len(forms)-1], w)
}
