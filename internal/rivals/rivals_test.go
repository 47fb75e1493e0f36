package rivals

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestJudge: in stacks with known faults, judge must find a wrong line, an impossible call and a frame without a name.
func TestJudge(t *testing.T) {
	if got := slices.Sorted(maps.Keys(calls)); !slices.Equal(got, []string{"turn", "work"}) {
		t.Fatalf("calls of %v", got)
	}
	lines := strings.Split(script, "\n")
	line := func(text string) int { return slices.Index(lines, text) + 1 }
	second, last, turn := line("  second # turn calls second"), line("  $turns += 1"), line("    turn # work calls turn")
	var v verdict
	v.judge("1", []frame{{"second", 3}, {"turn", second}, {"Object#work", turn}, {"block in <main>", 1}})
	if v.stacks != 1 || v.callers != 2 || v.right != 2 || v.impossible != 0 || v.named != 4 || len(v.threads) != 1 {
		t.Errorf("a right stack: %+v", v)
	}
	v.judge("2", []frame{{"Object#second", 3}, {"Object#turn", last}, {"(unknown) [c function]", 0}, {"work", turn}})
	if v.stacks != 2 || v.callers != 4 || v.right != 2 || v.impossible != 1 || v.frames != 8 || v.named != 7 || len(v.threads) != 2 {
		t.Errorf("with a wrong line and an impossible call: %+v", v)
	}
	if !strings.Contains(v.firstWrong, "Object#turn") || !strings.Contains(v.firstOdd, "work called") {
		t.Errorf("it says %q and %q", v.firstWrong, v.firstOdd)
	}
	v = verdict{}
	v.judge("1", []frame{{"first", 3}, {"work", turn}})
	if v.impossible != 1 || v.right != 0 {
		t.Errorf("work never calls first: %+v", v)
	}
}

// TestDebiansRubies: the benchmarks are in another module than scripts/rubies, and must find Debian's Rubies. With
// CI=true the test fails if one of these Rubies is missing.
func TestDebiansRubies(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, "puts RUBY_VERSION; $stdout.flush; $stdin.gets", rubytest.Options{})
		p.Expect(t, r.Version)
	})
}
