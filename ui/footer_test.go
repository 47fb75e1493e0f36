package ui

import (
	"strings"
	"testing"
)

// TestFooterAlwaysNamesHelpAndQuit: whatever else there is to say, in every view and at every width, the way to the
// help, the way out and, where there is one, the way back stand at the bottom.
func TestFooterAlwaysNamesHelpAndQuit(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {79, 24}, {80, 24}, {100, 30}, {120, 40}, {200, 50}} {
		s := hogged(t, size[0], size[1])
		for _, view := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			for _, keys := range [][]string{{"down"}, {"enter"}} {
				s.press(append([]string{view}, keys...)...)
				s.press(keys...)
				rows := strings.Split(strings.TrimRight(s.text(), "\n"), "\n")
				footer := rows[len(rows)-1]
				want := []string{"? help", "q quit"}
				if hasFlame(s.model) && canGoBack(s.model) {
					want = append(want, "esc back")
				}
				for _, w := range want {
					if !strings.Contains(footer, w) {
						t.Errorf("%v, view %s, %v: no %q in %q", size, view, keys, w, footer)
					}
				}
				s.press("esc")
			}
		}
	}
}
