package live

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// aloneCode starts a thread that Ruby does not know, and that spends a fifth of its time in small and the rest in
// large. Its turns are short and differ, so that they have no beat with a clock.
const aloneCode = `
#include <pthread.h>
static volatile unsigned long n;
__attribute__((noinline)) void small(unsigned m) { for (unsigned i = 0; i < m; i++) n++; }
__attribute__((noinline)) void large(unsigned m) { for (unsigned i = 0; i < 4 * m; i++) n++; }
static void *work(void *x) {
  for (unsigned r = 1;; r = r * 1103515245 + 12345) { small(1000 + (r >> 22)); large(1000 + (r >> 22)); }
}
int start(void) { pthread_t id; return pthread_create(&id, 0, work, 0); }
`

// TestRunningThreadsThatRubyDoesNotKnow: --native takes whole C stacks of threads that Ruby does not know. Their
// functions have the shares that the thread spends in them. No sample has these stacks, because they are of no Ruby
// thread.
func TestRunningThreadsThatRubyDoesNotKnow(t *testing.T) {
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.c"), []byte(aloneCode), 0o600); err != nil {
		t.Fatal(err)
	}
	gcc := exec.Command(rubytest.Program(t, "gcc", "gcc libc6-dev"), "-O1", "-shared", "-fPIC", "-pthread", "-o", "own.so", "own.c")
	gcc.Dir = dir
	if text, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, text)
	}
	p := rubytest.One(t).Start(t, `
		require "fiddle"
		$stdout.sync = true
		$stdin.gets
		Fiddle::Function.new(Fiddle.dlopen(File.expand_path("own.so"))["start"], [], Fiddle::TYPE_INT).call
		puts "ready"
		$stdin.gets`, rubytest.Options{})
	library, err := os.ReadFile(filepath.Join(dir, "own.so"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.HostDir, "own.so"), library, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Send(t, "go on")
	p.Expect(t, "ready")
	s, err := Open(t.Context(), p.PID, Options{Running: true, RunningRate: 999})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	threads, err := s.NativeThreads()
	if err != nil {
		t.Fatal(err)
	}
	busiest := slices.MaxFunc(threads, func(a, b NativeThread) int { return int(a.CPUNS - b.CPUNS) })
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	const enough = 500
	var runs sampler.AloneRuns
	var counts sampler.RunningCounts
	err = s.Run(ctx, func(x *sampler.Sample) {
		for i := range threads {
			if of := s.Running.Alone(threads[i].TID); of.Taken >= enough {
				busiest, runs = threads[i], of
				counts, _ = x.Native.Running()
				cancel()
			}
		}
		if len(x.Runs) > 0 && x.Runs[0].Thread == 0 {
			t.Error("a sample has a stack of no thread")
		}
		if _, failed := x.Native.Running(); failed != "" {
			t.Error(failed)
			cancel()
		}
	})
	if runs.Taken < enough {
		t.Fatalf("%d stacks: %v", runs.Taken, err)
	}
	if counts.Alone < enough || busiest.TID == int32(p.PID) {
		t.Errorf("%+v of thread %d", counts, busiest.TID)
	}
	in := make(map[string]int)
	for _, r := range runs.Stacks {
		names := make([]string, len(r.Frames))
		for i, f := range r.Frames {
			names[i] = f.Name
		}
		if r.Missing != "" || !slices.Contains([]string{"small", "large", "work"}, names[0]) {
			t.Errorf("%q, missing: %s", names, r.Missing)
		}
		in[names[0]] += r.Taken
	}
	if share := float64(in["small"]) / float64(runs.Taken); math.Abs(share-0.2) > odds.Within(float64(runs.Taken)) {
		t.Errorf("%.3f of the stacks are in small, and it has a fifth of the time: %v", share, in)
	}
}
