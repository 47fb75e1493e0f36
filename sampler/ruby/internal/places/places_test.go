package places

import "testing"

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"3.4.11": {3, 4, 11}, "2.5.0": {2, 5, 0}, "4.1.0dev": {4, 1, 0}, " 3.3.0preview1\n": {3, 3, 0},
	} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3.4", "a.b.c", "3.4.x", "-1.2.3", "3..1", "99999.1.1"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
	r := Release{3, 4, 1}
	if !r.AtLeast(3, 4) || !r.AtLeast(2, 7) || r.AtLeast(3, 5) || r.AtLeast(4, 0) {
		t.Error("AtLeast")
	}
}

func TestParsePlace(t *testing.T) {
	for _, tag := range []string{"", "sizeof ", "sizeof a.b", "a.b,form=3.0", "a.b,from=3", "a.b,before="} {
		if p, err := Parse(tag); err == nil {
			t.Errorf("%q is %+v", tag, p)
		}
	}
}
