package ruby

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// raceTime limits how long a program is sampled.
const raceTime = 5 * time.Minute

// raceTree is a program that calls methods in a tree. Every method has only one caller, and every call has its own
// line. For example, only t_01 calls the method t_012, on the third line after the first line of t_01. A program that
// only calls and returns is the worst case for reading a running stack.
const raceTree = `
def grow(name, depth)
  if depth == 0
    Object.class_eval("def #{name}\n 1\nend", "tree.rb", 1)
  else
    3.times { |i| grow("#{name}#{i}", depth - 1) }
    Object.class_eval("def #{name}\n #{name}0\n #{name}1\n #{name}2\nend", "tree.rb", 1)
  end
end
grow("t_", 5)
2.times { Thread.new { loop { t_ } } }
Thread.new { loop { sleep 0.001; GC.compact } } if ARGV[0] == "compact" && GC.respond_to?(:compact)
Thread.new { loop { Thread.new { t_ }.join } } if ARGV[0] == "births"
# The same tree again and again: the code of its methods goes away, and that of others comes to stand in its place.
Thread.new { loop { grow("t_", 5); GC.start } } if ARGV[0] == "redefine"
puts "ready"; $stdout.flush; $stdin.gets`

// racedShare says how many samples must show that the program runs: at least one in racedShare. A sample shows this if
// a stack differed from the thread's last stack, or changed while it was read.
const racedShare = 40

// raceSamples is how many samples a test takes of each program. DDTOP_VERIFY raises the number.
func raceSamples(t *testing.T) int {
	if s := os.Getenv("DDTOP_VERIFY"); s != "" {
		if n, err := strconv.Atoi(s); err == nil && n > 1 {
			return n
		}
		return 200000
	}
	return 40000
}

// impossible says why a stack is impossible in the program. The result is empty if the stack is possible. The innermost
// skip frames are not checked.
func impossible(frames []sampler.Frame, skip int) string {
	for i := skip; i+1 < len(frames); i++ {
		callee, caller := frames[i], frames[i+1]
		if !strings.HasPrefix(callee.Name, "t_") || caller.Name == "" {
			continue // a name that cannot be read is no error here, because the function race counts such names
		}
		if callee.Name == "t_" {
			if strings.HasPrefix(caller.Name, "t_") {
				return fmt.Sprintf("the root of the tree under %s", caller.Label)
			}
			continue
		}
		if want := callee.Name[:len(callee.Name)-1]; caller.Name != want {
			return fmt.Sprintf("%s called by %s", callee.Name, caller.Name)
		}
		if want := int32(callee.Name[len(callee.Name)-1]-'0') + 2; caller.Line != want {
			return fmt.Sprintf("%s called on line %d, not %d", callee.Name, caller.Line, want)
		}
	}
	if n := len(frames); n > 0 && strings.HasPrefix(frames[n-1].Name, "t_") {
		return "nothing below the tree"
	}
	return ""
}

// TestNoImpossibleStacks: ddtop reads the stacks of running threads without stopping them. It never shows a stack that
// the program cannot have.
func TestNoImpossibleStacks(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			if v.Name == "mn" {
				continue // with M:N threads, a running thread has a native thread as well
			}
			for _, mode := range []string{"plain", "compact", "births", "redefine"} {
				if mode == "births" && v.Name != "plain" {
					continue
				}
				t.Run(v.Name+" "+mode, func(t *testing.T) {
					p := r.Start(t, raceTree, v.Apply(rubytest.Options{Args: []string{mode}}))
					p.Expect(t, "ready")
					apart(t, p.PID)
					least := time.Duration(0)
					if mode == "redefine" {
						least = 2 * time.Second // a few rounds of the program
					}
					race(t, openReader(t, p.PID), raceSamples(t), least)
				})
			}
		}
	})
}

// apart puts the target and the calling goroutine on different CPUs. On the same CPU, the target would not run while
// the test reads it, so nothing would be tested.
func apart(t *testing.T, pid int) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for i := 0; len(cpus) < all.Count() && i < 1024; i++ {
		if all.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	if len(cpus) < 2 {
		rubytest.Skip(t, "reading a running thread needs two CPUs")
	}
	set := func(tid, cpu int) {
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(tid, &one); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatalf("binding thread %d to CPU %d: %v", tid, cpu, err)
		}
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			set(tid, cpus[1])
		}
	}
	runtime.LockOSThread() // never unlocked, so the thread ends with the test's goroutine
	set(0, cpus[0])
}

// race takes at least n samples, for at least the given time. It continues until the program has changed its stacks in
// enough of the samples.
func race(t *testing.T, rd *Reader, n int, least time.Duration) {
	dict := rd.dict
	var s sampler.Sample
	known := map[sampler.StackID][2]string{}
	last := map[sampler.ThreadID]sampler.StackID{}
	samples, raced, stacks, moved, wrong, wrongTop, unnamed, failedTicks := 0, 0, 0, 0, 0, 0, 0, 0
	nameless := map[sampler.StackID]bool{}
	retried := rd.reads.Retried
	failing := false
	began := time.Now()
	for ; (samples < n || raced < n/racedShare || time.Since(began) < least) && time.Since(began) < raceTime; samples++ {
		// If the program has no CPU, it is at the same place in many ticks. All of them then fail for the same reason.
		// So the test counts failed ticks in a row as one failure.
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			if !failing {
				failedTicks++
			}
			failing = true
			continue
		}
		failing = false
		changed := rd.reads.Retried != retried
		retried = rd.reads.Retried
		for i := range s.Threads {
			th := &s.Threads[i]
			if th.Quality&(sampler.StackFailed) != 0 || th.Stack == 0 {
				continue
			}
			verdict, ok := known[th.Stack]
			if !ok {
				var frames []sampler.Frame
				for _, f := range dict.Frames(th.Stack, nil) {
					frames = append(frames, dict.Frame(f))
				}
				verdict = [2]string{impossible(frames, 0), impossible(frames, 1)}
				known[th.Stack] = verdict
				nameless[th.Stack] = slices.ContainsFunc(frames, func(f sampler.Frame) bool { return f.Name == "" })
			}
			if dict.Depth(th.Stack) > 3 {
				stacks++
				if th.Stack != last[th.ID] {
					moved++
					changed = true
					if nameless[th.Stack] {
						unnamed++
					}
				}
			}
			last[th.ID] = th.Stack
			switch {
			case verdict[1] != "":
				if wrong++; wrong < 10 {
					t.Errorf("impossible stack: %s", verdict[1])
				}
			case verdict[0] != "" && th.Quality&sampler.StackUncertainTop == 0:
				if wrongTop++; wrongTop < 10 {
					t.Errorf("impossible innermost frame, not marked as uncertain: %s (quality %b)", verdict[0], th.Quality)
				}
			case verdict[0] != "":
				wrongTop++
			}
		}
		if changed {
			raced++
		}
	}
	reads := rd.reads
	t.Logf("%d samples, %d raced, %d stacks of running code, %d moved, %d different: %d impossible, %d innermost frames wrong; torn %d, retried %d, partial %d, uncertain %d, failed %d, failed ticks %d, without a name %d",
		samples, raced, stacks, moved, len(known), wrong, wrongTop, reads.Torn, reads.Retried, reads.Partial, reads.Uncertain, reads.Failed, failedTicks, unnamed)
	if raced < n/racedShare {
		rubytest.TooSeldom(t, "only %d samples raced with the program in %v: it hardly ran while it was read", raced, raceTime)
	}
	// The test accepts that one name in a hundred, and one tick in ten, cannot be read. It fails if there are more
	// failures than chance can explain.
	if unnamed > odds.AtMost(moved, .01) {
		t.Errorf("%d of %d stacks that had moved have a frame whose name was not read", unnamed, moved)
	}
	if failedTicks > odds.AtMost(raced+failedTicks, .1) {
		t.Errorf("%d ticks failed, beside %d that raced with the program", failedTicks, raced)
	}
}
