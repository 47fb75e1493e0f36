package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestLoadsInACircle: two threads load files that need each other, by require or by autoload of a constant. So each
// thread waits for the other. The finding names the lines at which they wait.
func TestLoadsInACircle(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	for name, pattern := range map[string]string{
		"circle":    `^(first.rb:1 ↔ second.rb:1|second.rb:1 ↔ first.rb:1): (first|second) waits for .* held by (first|second) in `,
		"constants": `^(left.rb:3 ↔ right.rb:3|right.rb:3 ↔ left.rb:3): `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				if name == "constants" && !r.AtLeast(3, 2) {
					rubytest.Skip(t, "up to 3.1 an autoload waits in a list without an owner")
				}
				t.Parallel()
				p := start(t, r, "loads/"+name)
				defer p.Stop(t)
				s := watch(t, p.PID, nil, raiseTime, is("deadlock"), nil)
				checkRaised(t, s, "deadlock", raised{words: []string{"Loads wait for each other: "}, pattern: pattern,
					never: []string{"lock_convoy", "load_wait"}})
			})
		})
	}
}
