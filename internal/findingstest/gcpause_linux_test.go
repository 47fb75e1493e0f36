package findingstest

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// lowPauses are thresholds of the finding gc_pause for programs with small heaps. They are a third of the length of a
// full garbage collection in such a program.
var lowPauses = []string{"gc_pause.full=30ms", "gc_pause.mark=30ms"}

// TestFullCollections: threads have to wait for a full garbage collection. The finding must have the length and the
// cause of the collection, and the number of old objects. If GC.auto_compact is on, the finding also says that the
// collection moved objects.
func TestFullCollections(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	each(t, func(t *testing.T, r rubytest.Ruby) {
		for name, want := range map[string]raised{
			"full": {words: []string{"Long garbage collection: a full one kept all Ruby code from running for ", "because code asked for it",
				" old objects"}},
			"compacting": {words: []string{"it moved objects, too, because GC.auto_compact is on"}},
		} {
			t.Run(name, func(t *testing.T) {
				if name == "compacting" && !r.AtLeast(3, 1) {
					rubytest.Skip(t, "GC.auto_compact came with 3.0")
				}
				want.rules = lowPauses
				raise(t, load(t, r, "gcpause/"+name), "gc_pause", want)
			})
		}
	})
}

// TestCollectionsNoThreadWaitsFor: two programs raise no finding gc_pause. In the first one, no thread waits for the
// full garbage collections. The second one has many garbage collections, but all are short.
func TestCollectionsNoThreadWaitsFor(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	each(t, func(t *testing.T, r rubytest.Ruby) {
		for _, name := range []string{"out_of_band", "minors"} {
			t.Run(name, func(t *testing.T) {
				p := start(t, r, "gcpause/"+name)
				defer p.Stop(t)
				s := watch(t, p.PID, rulesWith(t, lowPauses...), 6*time.Second, nil, nil)
				if f, ok := s.finding("gc_pause"); ok {
					t.Errorf("raised: %s", f.Text)
				}
				if s.stat.GC.Count == 0 {
					rubytest.TooSeldom(t, "nothing was collected")
				}
			})
		}
	})
}
