package units

import "testing"

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"500MB": 500e6, "2GB": 2e9, "1.5 kB": 1500, "1000": 1000, "7B": 7} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "MB", "1TBx", "NaN", "1e300GB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"enter", "entr", 1}, {"wait_p99", "wait_p95", 1}, {"hog", "gvl_hog", 4}, {"kitten", "sitting", 3}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
