package group

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// TestPlaceIsGivenToAnotherUser: the processes of one user have all places when a process of another user starts. The
// new process must get the place that has been in use longest. When the new process ends, the first user must get the
// place back.
func TestPlaceIsGivenToAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for processes of two users")
	}
	t.Parallel()
	r := rubytest.One(t)
	start := func(uid string) *rubytest.Process {
		p := r.Start(t, "Process::UID.change_privilege("+uid+"); puts 'ready'; $stdout.flush; $stdin.read", rubytest.Options{})
		p.Expect(t, "ready")
		return p
	}
	var mu sync.Mutex
	var found []int
	find := func(p *rubytest.Process) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, p.PID)
	}
	g, err := Open(t.Context(), nil, Options{LetGo: true, Find: func(known func(int) bool) (out []int) {
		mu.Lock()
		defer mu.Unlock()
		for _, pid := range found {
			if !known(pid) {
				out = append(out, pid)
			}
		}
		return out
	}})
	if err != nil {
		t.Fatal(err)
	}
	g.places = 2
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(map[int]error)
	var runs sync.WaitGroup
	runs.Go(func() {
		_ = g.Follow(ctx, func(s sampler.Source) {
			runs.Go(func() {
				err := s.Run(ctx, func(*sampler.Sample) {})
				mu.Lock()
				ended[s.Process().PID] = err
				mu.Unlock()
				g.Done(s)
			})
		})
	})
	defer func() {
		cancel()
		runs.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	until := func(p *rubytest.Process, what string, so func(r sampler.Relative) bool) {
		t.Helper()
		for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(10 * time.Millisecond) {
			list, _ := g.Relatives()
			for _, r := range list {
				if r.PID == p.PID && so(r) {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s of process %d does not come true: %+v", what, p.PID, list)
			}
		}
	}
	sampled := func(r sampler.Relative) bool { return r.Source != nil }
	first, second, third, other := start("2000"), start("2000"), start("2000"), start("2001")
	for _, p := range []*rubytest.Process{first, second} {
		find(p)
		until(p, "a place", sampled)
	}
	find(third)
	until(third, "no place", func(r sampler.Relative) bool {
		return strings.Contains(r.Why, "2 processes already are, which is the limit")
	})
	find(other)
	until(other, "a place", sampled)
	until(first, "the loss of the place", func(r sampler.Relative) bool {
		return r.Source == nil && r.EndedAt.IsZero() && strings.HasSuffix(r.Why, "it has made room for a process of another user")
	})
	mu.Lock()
	err = ended[first.PID]
	if _, ok := ended[second.PID]; ok || !errors.Is(err, sampler.ErrGaveWay) {
		t.Errorf("it was let go with %v; the other one too: %v", err, ok)
	}
	mu.Unlock()
	other.Stop(t)
	until(first, "a place again", sampled)
}
