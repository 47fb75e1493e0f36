package tenses

import "testing"

// TestSpoken: Spoken returns a text in the present and in the past tense. The name of a process may contain the bytes
// that mark words. The text must still be right.
func TestSpoken(t *testing.T) {
	for _, c := range []struct{ text, present, past string }{
		{"3 threads " + Wait + " for it, which " + Is + " full", "3 threads wait for it, which is full", "3 threads waited for it, which was full"},
		{"plain", "plain", "plain"},
		{"cut \x01short", "cut short", "cut short"},
		{"cut \x01a\x02b", "cut ab", "cut ab"},
		{"\x03\x02", "\x03\x02", "\x03\x02"},
		{"", "", ""},
	} {
		if a, b := Spoken(c.text, false), Spoken(c.text, true); a != c.present || b != c.past {
			t.Errorf("%q: %q, %q", c.text, a, b)
		}
	}
}
