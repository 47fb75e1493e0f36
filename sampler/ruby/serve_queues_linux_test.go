package ruby

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

// TestQueues: programs run jobs with Active Job and with other libraries. ddtop reports the same jobs as the jobs
// themselves log.
func TestQueues(t *testing.T) {
	rubytest.OftenEnough(t)
	active, delayed := []string{"active_job"}, []string{"active_job", "active_record", "sqlite3", "delayed_job_active_record"}
	for _, c := range []struct {
		queue               string
		jobs, kinds         int
		libraries, packages []string
	}{
		{"inline", 40, 4, active, []string{"ruby-rails"}},
		{"async", 40, 4, active, []string{"ruby-rails"}},
		{"perform_now", 40, 4, active, []string{"ruby-rails"}},
		{"delayed_job", 30, 4, delayed, []string{"ruby-rails", "ruby-sqlite3", "ruby-delayed-job-active-record"}},
		{"resque", 60, 2, nil, nil},
		{"que", 100, 1, nil, nil},
	} {
		t.Run(c.queue, func(t *testing.T) {
			rubytest.Long(t)
			pid, log := servertest.StartQueue(t, c.queue, c.jobs, c.libraries, c.packages)
			var done atomic.Bool
			var list []seen
			var wg sync.WaitGroup
			wg.Go(func() { list = watchServing(t, pid, &done) })
			for {
				if len(servertest.RequestLog(t, log)) >= c.jobs*c.kinds {
					break
				}
				select {
				case <-t.Context().Done():
					t.Fatal(t.Context().Err())
				case <-time.After(10 * time.Millisecond):
				}
			}
			done.Store(true)
			wg.Wait()
			jobs := servertest.RequestLog(t, log)
			// A job without arguments cannot be distinguished from other jobs of its class.
			nameless := func(id string) bool { return strings.HasSuffix(id, " ") }
			plain := 0
			for _, s := range list {
				if s.work.Number == 0 || !nameless(idOf(&s.work)) {
					continue
				}
				plain++
				for _, l := range jobs {
					if l.TID == s.tid && l.FromNS < s.fromNS && s.toNS < l.ToNS && l.What != s.work.Endpoint {
						t.Errorf("said to run %q while it ran %q", s.work.Endpoint, l.What)
					}
				}
			}
			if c.queue == "delayed_job" && plain == 0 {
				rubytest.TooSeldom(t, "no job without arguments was seen")
			}
			list = slices.DeleteFunc(list, func(s seen) bool { return s.statement != "" || s.work.Number != 0 && nameless(idOf(&s.work)) })
			jobs = slices.DeleteFunc(jobs, func(l servertest.Logged) bool { return nameless(l.ID) })
			checkServing(t, jobs, list)
		})
	}
}
