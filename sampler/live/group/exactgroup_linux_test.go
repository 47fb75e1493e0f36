package group_test

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/live/group"
)

// TestExactGroup: in a Group of several processes, exact mode can be switched on and off for each process separately.
func TestExactGroup(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		if err := probe.Try(false); err != nil {
			rubytest.Skip(t, "%v", err)
		}
		f := startFamily(t, r)
		one, two := f.fork("1"), f.fork("2")
		g, err := group.Open(t.Context(), []int{f.PID}, group.Options{Children: true})
		if err != nil {
			t.Fatal(err)
		}
		x := follow(t, g)
		source := func(pid int) *live.Source {
			x.mu.Lock()
			defer x.mu.Unlock()
			for _, s := range x.sources {
				if s.Process().PID == pid {
					return s.(*live.Source)
				}
			}
			return nil
		}
		changes := func(pid int) bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			for s, newest := range x.newest {
				if s.Process().PID == pid {
					return newest.Changes.Known()
				}
			}
			return false
		}
		x.until("workers are sampled", func() bool { return source(one) != nil && source(two) != nil })
		if err := source(one).Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		x.until("the first worker has changes", func() bool { return changes(one) })
		if changes(two) || source(two).ExactStatus().On {
			t.Error("the second one has them, too")
		}
		if err := source(two).Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		x.until("both have changes", func() bool { return changes(one) && changes(two) })
		first := source(one)
		f.Send(t, "1 exit")
		x.until("the first one's ends with it", func() bool { return !first.ExactStatus().On })
		if report, err := first.EndExact(); err != nil || report.Ended == "" || !source(two).ExactStatus().On {
			t.Errorf("%+v, %v, the second one's %+v", report, err, source(two).ExactStatus())
		}
	})
}
