package ui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestFooterAlwaysNamesHelpAndQuit: the footer shows the keys for help and for quitting, in every view and at every
// width. If the user can go back, it also shows the key for this.
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

// TestViewNamesAreOnEveryView: on a screen of 120 columns, each view shows the names of the other views. A click on a
// name opens its view.
func TestViewNamesAreOnEveryView(t *testing.T) {
	check := func(offers scene.Offers, press func(key string), text func() string) {
		t.Helper()
		offered := tabs(offers)
		for _, v := range offered {
			press(v.Key)
			for _, other := range offered {
				if name := " " + other.Key + " " + string(other.ID); other.ID != v.ID && !strings.Contains(text(), name) {
					t.Errorf("%s has no%s:\n%s", v.ID, name, text())
				}
			}
		}
	}
	of := clusterScreen(t, 120, 40, scene.Options{})
	of.press("down", "enter")
	check(of.fleet.screen().Offers, func(key string) { of.press(key) }, of.text)
	s := serving(t, 120, 40, scene.Options{})
	check(s.model.Offers, func(key string) { s.press(key) }, s.text)
	s.press("1")
	x, y := 0, 0
	for i, l := range strings.Split(s.text(), "\n") {
		if j := strings.Index(l, " 6 locks"); j >= 0 {
			x, y = canvas.Width(l[:j])+3, i
		}
	}
	s.model.Update(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft})
	if s.model.Page != scene.PageLocks {
		t.Errorf("a click at %d, %d opens %s", x, y, s.model.Page)
	}
}
