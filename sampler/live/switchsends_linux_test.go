package live_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// sendPrelude is the beginning of each program in sending. When a program ends, the children that it has forked end,
// too.
const sendPrelude = `$stdout.sync = true
require "socket"
$VERBOSE = nil
def work(n); n.times { |i| i * i }; end
def child; parent = $$; fork { Thread.new { sleep 0.1 while Process.ppid == parent; exit! }; yield }; end
`

// sending are programs in which a thread loses its CPU during a call that sends or writes, or works without the GVL.
var sending = map[string]string{
	// Client and server share one CPU. Some µs after the client's thread has given up the GVL, the server takes the CPU
	// from this thread.
	"small requests": `a, b = UNIXSocket.pair
child { loop { b.sysread(1000); work 200; b.syswrite("y" * 200) } }
Thread.new { loop { a.syswrite("x" * 100); a.sysread(1000); work 4000 } }`,
	// Writer and reader share one CPU. The writing thread loses the CPU to the reader, but it never waits.
	"pipe": `r, w = IO.pipe
child { loop { r.sysread(1000); work 200 } }
Thread.new { loop { w.syswrite("x" * 100); work 5000 } }`,
	// The thread works without the GVL, while other threads hold the GVL for a moment. Then the thread gets the GVL
	// without waiting.
	"handed on": `require "zlib"
zeros = "\0" * 400_000
Thread.new { loop { Zlib::Deflate.deflate(zeros, 1); work 500 } }
2.times { |i| Thread.new { loop { work 1000; sleep 0.0005 + i * 0.0003 } } }`,
	// This is the same as "handed on", but no clock tick comes between most of the thread's system calls.
	"handed on between two calls": `require "zlib"
zeros = "\0" * 400_000
Thread.new { loop { Zlib::Deflate.deflate(zeros, 1); sleep 0.0001; work 500 } }
2.times { |i| Thread.new { loop { work 3000; sleep 0.0005 + i * 0.0003 } } }`,
	// The thread loses its CPU to others, many times within one write.
	"large writes": `f = IO.for_fd(syscall(319, "large", 0), "r+") # memfd_create
2.times { child { loop { work 1000 } } }
big = "x" * 60_000_000
Thread.new { loop { f.sysseek(0); f.syswrite(big); sleep 0.002 } }`,
	// Writer and reader share one CPU. The records do not have the number of bytes that sendfile sends.
	"sendfile": `a, b = UNIXSocket.pair
f = IO.for_fd(syscall(319, "file", 0), "r+") # memfd_create
f.syswrite("x" * 20_000)
child { loop { b.readpartial(100_000); work 200 } }
Thread.new { loop { f.sysseek(0); IO.copy_stream(f, a, 20_000); work 3000 } }`,
	// Other processes want the CPU. Up to Ruby 3.2, a thread that gives the GVL away and sleeps lets them run first.
	"sleep beside others": `2.times { child { loop { work 1000 } } }
Thread.new { loop { work 30_000; sleep 0.002 } }`,
	// From Ruby 3.3 on, a thread with the GVL puts a sleeping thread into the queue, and gives it the GVL much later.
	"queued by a condition": `m, c, free = Mutex.new, ConditionVariable.new, [1, 2]
4.times { Thread.new { loop {
  x = m.synchronize { c.wait(m) while free.empty?; free.pop }
  work 20_000; sleep 0.001
  m.synchronize { free << x; c.signal }
  work 30_000 } } }`,
}

// ontoOneCPU moves a process and its children to one CPU.
func ontoOneCPU(t *testing.T, pid int) {
	t.Helper()
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &may); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !may.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	for _, pid := range append(rubytest.Children(t, pid), pid) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatal(tasks, err)
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.SchedSetaffinity(tid, &one); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatal(err)
			}
		}
	}
}

// timesIn adds up, for each native thread, how long it held the GVL, waited for it, and had released it.
type timesIn struct {
	fromNS, toNS int64
	list         []sampler.Change
}

func (k *timesIn) take(x *sampler.Sample) {
	if !x.Changes.Known() {
		return
	}
	if x.Changes.Fresh {
		k.fromNS, k.list = x.Changes.FromNS, nil
	}
	k.toNS = x.Changes.ToNS
	k.list = append(k.list, x.Changes.List...)
}

// between returns two results for each thread, about the time between two instants. The result times is how long it
// held the GVL, waited for it, and had released it. The result holds is how often it got the GVL.
func (k *timesIn) between(from, to int64) (times map[int32][3]float64, holds map[int32]float64) {
	times, holds = make(map[int32][3]float64), make(map[int32]float64)
	last := make(map[int32]sampler.Change)
	add := func(c sampler.Change, until int64) {
		place := 2
		switch c.State {
		case sampler.GVLGone:
			return
		case sampler.GVLHeld:
			place = 0
		case sampler.GVLQueued, sampler.GVLChosen:
			place = 1
		}
		if ns := min(until, to) - max(c.AtNS, from); ns > 0 {
			sums := times[c.TID]
			sums[place] += float64(ns)
			times[c.TID] = sums
		}
	}
	for _, c := range k.list {
		was, known := last[c.TID]
		if known {
			add(was, c.AtNS)
		}
		if c.State == sampler.GVLHeld && was.State != c.State && c.AtNS > from && c.AtNS < to {
			holds[c.TID]++
		}
		last[c.TID] = c
	}
	for _, c := range last {
		add(c, to)
	}
	return times, holds
}

// TestSwitchesOfSenders tests the rule by which ddtop finds the state of a thread that loses its CPU in a call that
// sends. Thread switches and exact mode measure the shares of each thread in the same seconds. The shares may differ by
// 0.3 percentage points on average, and by 1 percentage point for the worst thread. The rule assumes a typical time of
// 4 µs at each end of a hold, so each hold may be wrong by holdNS.
//
// A test of the rule alone would be cheaper, but would have nothing to compare with. Only a kernel shows when threads
// lose their CPU, and only exact mode shows when they gave up the GVL.
func TestSwitchesOfSenders(t *testing.T) {
	// sum of backNS and writeNS in the rules: the way back from a call, and the way into the next call
	const holdNS = 8_000
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Long(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		for name, program := range sending {
			if strings.HasPrefix(name, "queued by") && !r.AtLeast(3, 3) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				p, exactly := openExact(t, r, sendPrelude+program+"\nputs 'ready'\n$stdin.gets", rubytest.Options{})
				length, learning := 600*time.Millisecond, time.Duration(0)
				switch {
				// ddtop learns a thread's share from some clock ticks
				case strings.HasPrefix(name, "handed on"), strings.HasPrefix(name, "queued by"), name == "large writes":
					length, learning = 3*time.Second, 2*time.Second
				case name == "small requests", name == "pipe", name == "sendfile":
					length = 250 * time.Millisecond // these programs make many records, so a single record matters less
					ontoOneCPU(t, p.PID)
				}
				switched, err := live.Open(t.Context(), p.PID, live.Options{Overhead: 0.03})
				if err != nil {
					t.Fatal(err)
				}
				defer switched.Close()
				if err := exactly.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
					t.Fatal(err)
				}
				if err := switched.Switches(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), length)
				defer cancel()
				var told [2]timesIn
				var both sync.WaitGroup
				for i, s := range []*live.Source{exactly, switched} {
					both.Go(func() {
						if err := s.Run(ctx, told[i].take); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				from, to := max(told[0].fromNS, told[1].fromNS)+int64(learning), min(told[0].toNS, told[1].toNS)
				if told[0].fromNS == 0 || told[1].fromNS == 0 || to-from < int64(100*time.Millisecond) {
					rubytest.Skip(t, "on this machine, now, the two did not know the same time")
				}
				truth, holds := told[0].between(from, to)
				switches, _ := told[1].between(from, to)
				mean, worst, perHold := 0.0, 0.0, 0.0
				for tid, was := range truth {
					off, slack := 0.0, 100*holds[tid]*holdNS/float64(to-from)
					for place, ns := range switches[tid] {
						off = max(off, 100*math.Abs(ns-was[place])/float64(to-from))
					}
					if learning > 0 {
						// ddtop uses clock ticks, 64 or more, to estimate in which part of this time the thread had the
						// GVL, or waited for it. So allow six standard deviations of this estimate, which is one false
						// alarm in 10⁹ runs.
						part := was[0] / float64(to-from)
						if strings.HasPrefix(name, "queued by") {
							part = was[1] / float64(to-from)
						}
						slack += 100 * 6 * math.Sqrt(part*(1-part)/64)
					}
					if waited := 100 * math.Abs(switches[tid][1]-was[1]) / float64(to-from); waited > 1+slack {
						t.Errorf("%s: thread %d waited %.1f points more or less than that", name, tid, waited)
					}
					mean, perHold = mean+off/float64(len(truth)), perHold+slack/float64(len(truth))
					worst = max(worst, off-slack)
					rubytest.Report(t, "%s: thread %d is off by %.2f points, of which %.2f may be by its holds", name, tid, off, slack)
				}
				if len(truth) < 2 || mean > 0.3+perHold || worst > 1 {
					t.Errorf("%d threads; the mean is %.2f points off, and may be %.2f; the worst is %.2f beyond its holds", len(truth), mean, 0.3+perHold, worst)
				}
			})
		}
	})
}
