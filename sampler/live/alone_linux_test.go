package live

import (
	"context"
	"fmt"
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

// aloneCode is C code that starts a thread that Ruby does not know. The thread spends its time in the functions small
// and large, and adds up the time in each. It does not count rounds instead, because their speed depends on the address
// of the code. It leaves out rounds in which it had no CPU. The rounds are short and have random lengths, so that they
// do not follow the period of a clock.
const aloneCode = `
#include <pthread.h>
#include <x86intrin.h>
static volatile unsigned long n;
volatile unsigned long in_small, in_large;
__attribute__((noinline)) void small(unsigned m) { for (unsigned i = 0; i < m; i++) n++; }
__attribute__((noinline)) void large(unsigned m) { for (unsigned i = 0; i < 4 * m; i++) n++; }
static void *work(void *x) {
  for (unsigned r = 1;; r = r * 1103515245 + 12345) {
    unsigned long a = __rdtsc();
    small(1000 + (r >> 22));
    unsigned long b = __rdtsc();
    large(1000 + (r >> 22));
    unsigned long c = __rdtsc();
    if (c - a < 200000) { in_small += b - a; in_large += c - b; }
  }
}
int start(void) { pthread_t id; return pthread_create(&id, 0, work, 0); }
`

// TestRunningThreadsThatRubyDoesNotKnow: with --native, ddtop reads whole C stacks of a thread that Ruby does not know.
// The thread itself measures its time in two functions. ddtop's stacks must divide between the two functions in the
// same proportion. Samples must not contain these stacks, because they belong to no Ruby thread.
func TestRunningThreadsThatRubyDoesNotKnow(t *testing.T) {
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.c"), []byte(aloneCode), 0o600); err != nil {
		t.Fatal(err)
	}
	// Without -Bsymbolic, calls go through the linker's table (PLT). The stacks would then have this table as a
	// function without a name.
	gcc := exec.Command(rubytest.Program(t, "gcc", "gcc libc6-dev"), "-O1", "-shared", "-fPIC", "-pthread",
		"-Wl,-Bsymbolic", "-o", "own.so", "own.c")
	gcc.Dir = dir
	if text, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, text)
	}
	p := rubytest.One(t).Start(t, `
		require "fiddle"
		$stdout.sync = true
		$stdin.gets
		own = Fiddle.dlopen(File.expand_path("own.so"))
		Fiddle::Function.new(own["start"], [], Fiddle::TYPE_INT).call
		puts "ready"
		loop do
		  $stdin.gets
		  puts %w[in_small in_large].map { |name| Fiddle::Pointer.new(own[name])[0, 8].unpack1("Q") }.join(" ")
		end`, rubytest.Options{})
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
	before := aloneTimes(t, p)
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
	after := aloneTimes(t, p)
	small, large := float64(after[0]-before[0]), float64(after[1]-before[1])
	share, want := float64(in["small"])/float64(runs.Taken), small/(small+large)
	if math.Abs(share-want) > odds.Within(float64(runs.Taken)) {
		t.Errorf("%.3f of the stacks are in small, and it has %.3f of the time: %v", share, want, in)
	}
}

// aloneTimes asks the program how long its thread has been in the functions small and large.
func aloneTimes(t *testing.T, p *rubytest.Process) (times [2]uint64) {
	t.Helper()
	p.Send(t, "times")
	line := p.Line(t)
	if _, err := fmt.Sscan(line, &times[0], &times[1]); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return times
}
