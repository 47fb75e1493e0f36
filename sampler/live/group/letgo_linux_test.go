package group_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/live/group"
)

// TestGroupLetsGo: with LetGo, a Group keeps only a line about a process that has ended, and drops its Source.
// Otherwise each restart of a server's workers would cost memory, because a Group remembers the last 256 ended
// processes.
func TestGroupLetsGo(t *testing.T) {
	f := startFamily(t, rubytest.One(t))
	g, err := group.Open(t.Context(), []int{f.PID}, group.Options{Children: true, LetGo: true})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	sources := make(map[int]weak.Pointer[live.Source])
	done := make(map[int]bool)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		err := g.Follow(ctx, func(src sampler.Source) {
			pid := src.Process().PID
			mu.Lock()
			sources[pid] = weak.Make(src.(*live.Source))
			mu.Unlock()
			all.Go(func() {
				if err := src.Run(ctx, func(*sampler.Sample) {}); err != nil && !errors.Is(err, sampler.ErrEnded) {
					t.Errorf("process %d: %v", pid, err)
				}
				g.Done(src)
				mu.Lock()
				done[pid] = true
				mu.Unlock()
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	until := func(what string, so func() bool) {
		t.Helper()
		for deadline := time.Now().Add(rubytest.Timeout); !so(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				list, _ := g.Relatives()
				t.Fatalf("waited for %s; there are %+v", what, list)
			}
		}
	}
	locked := func(so func() bool) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return so()
		}
	}
	var workers []int
	for i := range 3 {
		pid := f.fork(fmt.Sprint(i))
		until("a worker's Source", locked(func() bool { return sources[pid].Value() != nil }))
		workers = append(workers, pid)
	}
	for i, pid := range workers {
		f.Send(t, fmt.Sprint(i, " exit"))
		until("the worker's end", locked(func() bool { return done[pid] }))
	}
	for _, pid := range workers {
		until("its line", func() bool {
			list, _ := g.Relatives()
			return slices.ContainsFunc(list, func(r sampler.Relative) bool {
				return r.PID == pid && !r.EndedAt.IsZero() && strings.Contains(r.Why, "exited") && r.Source == nil
			})
		})
		until("the collector", func() bool {
			runtime.GC()
			return locked(func() bool { return sources[pid].Value() == nil })()
		})
	}
	if list, _ := g.Relatives(); len(list) != 1+len(workers) {
		t.Errorf("%d processes were met: %+v", len(list), list)
	}
	// A worker calls exec to become another program. ddtop must still follow it, although the worker's first Source has
	// been dropped.
	again := f.fork("again")
	until("a worker's Source", locked(func() bool { return sources[again].Value() != nil }))
	mu.Lock()
	first := sources[again]
	mu.Unlock()
	f.Send(t, "again exec ruby")
	f.Expect(t, "again")
	until("the Source of what exec has made of it", locked(func() bool {
		return sources[again] != first && sources[again].Value() != nil
	}))
	mu.Lock()
	defer mu.Unlock()
	if sources[f.PID].Value() == nil {
		t.Error("the master's Source is gone")
	}
}
