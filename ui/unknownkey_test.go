package ui

import (
	"strings"
	"testing"
)

// TestUnknownKeysSayWhatIsKnown: if a key does nothing in a view, a message names a similar key, or the views in which
// the key works. The next key removes the message.
func TestUnknownKeysSayWhatIsKnown(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}} {
		s := hogged(t, size[0], size[1])
		for _, c := range []struct{ view, key, want string }{
			{"1", "Z", "Z does nothing here"},
			{"1", "Q", "q: quit"},
			{"1", "F", "f: flames"},
			{"1", "<", "view 2 5"},
			{"2", "<", "by waits p99"}, // on view 2, < sorts the table
			{"6", "t", "view 2"},
			{"1", "f7", "f7 does nothing here"},
		} {
			s.press(c.view, c.key)
			if c.want == "by waits p99" && size[0] < 120 {
				continue
			}
			if rows := strings.Split(s.text(), "\n"); !strings.Contains(strings.Join(rows, "\n"), c.want) {
				t.Errorf("%v: %s on view %s says nothing of %q:\n%s", size, c.key, c.view, c.want, s.text())
			}
			s.press("2", "1")
			s.misses("does nothing here")
		}
	}
}

// TestSortKeysDoNothingElse: the keys < and > only sort tables. They must not move the time by a tenth of the history.
// The keys , and . do that.
func TestSortKeysDoNothingElse(t *testing.T) {
	s := hogged(t, 120, 40)
	for _, view := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		s.press(view, "<", ">")
		if s.model.Frozen {
			t.Errorf("< moves the time on view %s", view)
		}
		s.press(",")
		if !s.model.Frozen {
			t.Errorf(", does not move the time on view %s", view)
		}
		s.press("space", "esc")
	}
}

// TestKeysThatMoveNothingSayNothing: if a view has no cursor to move, the cursor keys show no message.
func TestKeysThatMoveNothingSayNothing(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("7")
	for _, k := range moving {
		s.press(k)
		s.misses("does nothing here")
	}
}
