package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// growsSoon sets low thresholds for the finding memory_grows, so that growth of 30 MB in 9 s raises it.
var growsSoon = []string{"memory_grows.time=9s", "memory_grows.mib=30", "memory_grows.growth=30%"}

// growsLater is growsSoon with twice the time. It is for a program whose memory grows and shrinks. In four readings,
// its memory can look like steady growth by chance. In seven readings this is rare.
var growsLater = append([]string{"memory_grows.time=18s"}, growsSoon[1:]...)

// TestMemoryOfC: the finding must say whether memory of C code or memory of Ruby's objects grows. Ruby's own counts
// show the difference. Memory that C code frees again raises no finding.
func TestMemoryOfC(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for name, want := range map[string]string{
		"c_code":  `, most of it memory of C code, not of Ruby objects \(Ruby's own memory grew by [^)]*\)$`,
		"strings": `, most of it outside of the objects' slots \(malloc\)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				raise(t, load(t, r, "memory/"+name), "memory_grows", raised{pattern: want, rules: growsSoon})
			})
		})
	}
	t.Run("freed", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, r rubytest.Ruby) {
			t.Parallel()
			p := start(t, r, "memory/freed")
			defer p.Stop(t)
			s := watch(t, p.PID, rulesWith(t, growsLater...), 3*quietTime, is("memory_grows"), nil)
			if f, ok := s.finding("memory_grows"); ok {
				t.Error(f.Text)
			}
		})
	})
}
