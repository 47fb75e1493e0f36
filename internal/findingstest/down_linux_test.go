package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestNotReachable: a program tries to connect to a database that never answers. The finding must say that the database
// is not reachable. If clients connect for each query and the database answers late, the finding must say that the
// database is slow.
func TestNotReachable(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	for name, want := range map[string]raised{
		"silent": {words: []string{"Database not reachable: ", " of the busy time goes into attempts to connect to ", ":5432 PostgreSQL"},
			never: []string{"http_slow"}},
		"again": {words: []string{"Database slow: ", " of the busy time waits for ", ":5432 PostgreSQL"}, never: []string{"http_slow"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "down/"+name)
				defer p.Stop(t)
				s := watch(t, p.PID, nil, raiseTime, is("db_slow"), nil)
				checkRaised(t, s, "db_slow", want)
			})
		})
	}
}
