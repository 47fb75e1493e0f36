package iterator

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// TestRead: for a sleeping thread, the iterator returns the same stack pointer, program counter and number of times on
// a CPU as /proc. It also returns the registers of the system call. It returns no threads of other processes.
func TestRead(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	p := rubytest.One(t).Start(t, `
$stdout.sync = true
Thread.new { sleep }
Thread.new { loop { } }
puts "ready"
$stdin.gets`, rubytest.Options{})
	p.Expect(t, "ready")
	tasks, err := kernel.OpenTasks(p.PID, sampler.NewDictionary())
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	x, err := Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	same := make(map[int32]bool)
	threads := make(map[int32]Thread)
	for until := time.Now().Add(rubytest.Timeout); len(same) < 2; {
		if time.Now().After(until) {
			t.Fatalf("%d threads that sleep", len(same))
		}
		tids, err := tasks.List()
		if err != nil {
			t.Fatal(err)
		}
		before := make(map[int32]kernel.Standing)
		for _, tid := range tids {
			if s, ok, err := tasks.Standing(tid); ok && err == nil {
				before[tid] = s
			}
		}
		if err := x.Read(threads); err != nil {
			t.Fatal(err)
		}
		for tid, got := range threads {
			if after, _, err := tasks.Standing(tid); err != nil {
				t.Errorf("thread %d is not of the process: %v", tid, err)
			} else if want, ok := before[tid]; ok && after == want {
				call, _, _ := strings.Cut(want.Line, " ")
				if got.Registers.SP() != want.SP || got.Registers.PC() != want.PC || got.Turns != want.Turns ||
					strconv.FormatInt(got.Call, 10) != call || got.Uninterruptible {
					t.Errorf("thread %d: %+v, and the kernel says %+v", tid, got, want)
				}
				same[tid] = true
			}
		}
		for tid := range before {
			if after, _, err := tasks.Standing(tid); err == nil && after == before[tid] && threads[tid] == (Thread{}) {
				t.Errorf("thread %d sleeps and was not visited", tid)
			}
		}
	}
}
