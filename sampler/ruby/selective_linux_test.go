package ruby

import (
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// movingThreads is a program with 60 threads that wait. For each line that the program reads on standard input, one
// thread goes on to another place and waits there.
const movingThreads = `
def first; sleep; end
def second; sleep; end
threads = Array.new(60) { Thread.new { first; second } }
Thread.pass until threads.all? { |t| t.status == "sleep" }
$stdout.sync = true
puts "ready"
while $stdin.gets
  t = threads.shift
  t.wakeup
  Thread.pass until t.status == "sleep" && t.backtrace.any? { |l| l.include?("second") }
  puts "moved"
end`

// TestTurns: if many threads wait, ticks read their stacks in turn. The test stops ddtop's clock, so that no stack
// becomes too old. Then a round of ticks reads each thread exactly once. If a thread moves to another place between two
// ticks, ddtop shows its new stack within a round.
func TestTurns(t *testing.T) {
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, movingThreads, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		clock := int64(1e12)
		rd.now = func() int64 { return clock }
		var s sampler.Sample
		// read runs a tick that reads stacks, and returns the threads whose stacks it read.
		read := func() map[*thread]bool {
			t.Helper()
			deadline := time.Now().Add(time.Minute)
			for rd.Read(sampler.StackTick, &s) != nil {
				if time.Now().After(deadline) {
					t.Fatal("no consistent list of threads for a minute")
				}
			}
			looked := make(map[*thread]bool)
			for _, th := range rd.list.order {
				if th.readIn == rd.list.ticks {
					looked[th] = true
				}
			}
			return looked
		}
		if n := len(read()); n != len(rd.list.order) {
			t.Fatalf("the first stack tick looked at %d of %d threads", n, len(rd.list.order))
		}
		for range quietAfter {
			read()
		}
		// The main thread has printed "ready", but may still be active before it waits for input.
		active := func() bool { return slices.ContainsFunc(rd.list.order, rd.active) }
		for deadline := time.Now().Add(time.Minute); active(); read() {
			if time.Now().After(deadline) {
				t.Fatal("a thread stays active that should wait")
			}
		}
		// For some time after a thread ran, ddtop treats it as active. So the test advances its clock until all threads
		// are idle.
		clock += warmNS + 1
		read()
		seen := make(map[*thread]int)
		for range turns {
			for th := range read() {
				seen[th]++
			}
		}
		for _, th := range rd.list.order {
			if seen[th] != 1 {
				t.Errorf("%v was looked at %d times in %d stack ticks", th, seen[th], turns)
			}
		}
		in := func(name string) (n int) {
			for i := range s.Threads {
				for _, f := range rd.dict.Frames(s.Threads[i].Stack, nil) {
					if rd.dict.Frame(f).Name == name {
						n++
					}
				}
			}
			return n
		}
		for moved := 1; moved <= 3; moved++ {
			p.Send(t, "")
			p.Expect(t, "moved")
			for range turns {
				read()
			}
			if first, second := in("first"), in("second"); first != 60-moved || second != moved {
				t.Errorf("after %d moves and %d stack ticks %d threads are in the first place and %d in the second", moved, turns, first, second)
			}
		}
		clock += maxStackAgeNS + 1
		if n := len(read()); n != len(rd.list.order) {
			t.Errorf("after %d ms a stack tick looked at %d of %d threads", maxStackAgeNS/1_000_000+1, n, len(rd.list.order))
		}
		rd.choice.whole = true
		if n := len(read()); n != len(rd.list.order) {
			t.Errorf("a stack tick that is to read all looked at %d of %d threads", n, len(rd.list.order))
		}
	})
}
