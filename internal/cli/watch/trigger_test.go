package watch

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/measure"
)

// TestTrigger passes a series of seconds to a trigger. In each second a condition is true or not. The test checks which
// recordings the trigger asks for.
func TestTrigger(t *testing.T) {
	const second = int64(1e9)
	type made struct{ from, began, end int64 } // in seconds; end is -1 while the recording goes on
	for _, c := range []struct {
		what                   string
		before, after, longest int64
		seconds                int64
		holds                  func(s int64) bool
		want                   []made
		spent                  int
	}{
		{"nothing", 30, 30, 600, 1000, func(int64) bool { return false }, nil, 0},
		{"one second", 30, 30, 600, 1000, func(s int64) bool { return s == 100 }, []made{{65, 100, 131}}, 0},
		{"two apart", 30, 30, 600, 1000, func(s int64) bool { return s == 100 || s == 132 }, []made{{65, 100, 131}, {97, 132, 163}}, 0},
		{"two that are one", 30, 30, 600, 1000, func(s int64) bool { return s == 100 || s == 129 }, []made{{65, 100, 160}}, 0},
		{"flapping for an hour", 30, 30, 600, 3600, func(s int64) bool { return s >= 100 && s < 3300 && s%20 < 3 }, []made{{65, 100, 700}}, 1},
		{"an hour, and again", 30, 30, 600, 7200, func(s int64) bool { return s >= 100 && s < 3700 || s == 4000 }, []made{{65, 100, 700}, {3965, 4000, 4031}}, 1},
		{"at the end", 5, 10, 600, 105, func(s int64) bool { return s >= 100 }, []made{{90, 100, -1}}, 0},
		{"nothing was read for an hour", 30, 30, 600, 4000, func(s int64) bool { return s == 100 || s == 3900 }, []made{{65, 100, 3700}, {3865, 3900, 3931}}, 1},
	} {
		tr := trigger{before: c.before * second, after: c.after * second, longest: c.longest * second}
		var got []made
		spent := 0
		for s := range c.seconds {
			if c.what == "nothing was read for an hour" && s > 100 && s < 3700 {
				continue
			}
			var causes []measure.Cause
			if c.holds(s) {
				causes = []measure.Cause{{Text: "a", FromNS: (s - 2) * second}, {Text: "b", FromNS: (s - 5) * second}}
			}
			switch tr.step(s*second, causes) {
			case turnBegin:
				got = append(got, made{tr.fromNS / second, s, -1})
				if tr.cause.Text != "a" {
					t.Errorf("%s: its cause is %q", c.what, tr.cause.Text)
				}
			case turnSpent:
				spent++
				fallthrough
			case turnEnd:
				got[len(got)-1].end = s
			}
		}
		if !slices.Equal(got, c.want) || spent != c.spent {
			t.Errorf("%s: %v, %d longer than can be; want %v, %d", c.what, got, spent, c.want, c.spent)
		}
	}
}
