package live_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/published"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// sayPublished compares the spans of a sample's threads with truth, the spans that the program reports. The result all
// is true if each thread has its span. The result wrong has the spans that differ from truth, by thread.
func sayPublished(s *sampler.Sample, dict *sampler.Dictionary, truth map[string]published.Span) (all bool, wrong map[string]published.Span) {
	wrong = make(map[string]published.Span)
	seen := 0
	for i := range s.Threads {
		info, _ := dict.Thread(s.Threads[i].ID)
		want, ok := truth[info.Name]
		if !ok {
			continue
		}
		seen++
		number := func(n uint64) string { return strconv.FormatUint(n, 10) }
		serving := s.Threads[i].Serving
		if got := (published.Span{ID: number(serving.Span), Root: number(serving.RootSpan)}); got != want {
			wrong[info.Name] = got
		}
	}
	return seen == len(truth) && len(wrong) == 0, wrong
}

// TestPublished: ddtop must find the spans that threads publish, even if a program begins to publish only after ddtop
// has attached.
func TestPublished(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		rubytest.Skip(t, "thread-local variables are told on x86_64 alone")
	}
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, late := range []bool{false, true} {
			if late && (rubytest.Short(t) || r.Name != rubytest.One(t).Name) {
				continue // it takes ten seconds, and the interval of the search is the same for every Ruby
			}
			t.Run("late "+strconv.FormatBool(late), func(t *testing.T) {
				p := published.Prepare(t, r, rubytest.Options{Args: []string{"parked"}})
				var truth map[string]published.Span
				publish := func() {
					p.Send(t, "go")
					p.JSON(t, &truth)
				}
				if !late {
					publish()
				}
				src, err := live.Open(t.Context(), p.PID, live.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				if late {
					publish()
				}
				ctx, stop := context.WithTimeout(t.Context(), rubytest.Timeout)
				defer stop()
				found := false
				var last map[string]published.Span
				err = src.Run(ctx, func(s *sampler.Sample) {
					if s.Depth != sampler.StackTick || found {
						return
					}
					if found, last = sayPublished(s, src.Dictionary(), truth); found {
						stop()
					}
				})
				if err != nil && !errors.Is(err, sampler.ErrEnded) {
					t.Fatal(err)
				}
				if !found {
					t.Errorf("in the end threads are in %v; they say %v", last, truth)
				}
			})
		}
	})
}
