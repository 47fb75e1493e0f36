package live_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// changing collects the changes of the GVL from samples. It fails the test if a change cannot follow the change before.
type changing struct {
	t *testing.T
	// toNS is the time up to which the last sample has all changes. It is zero if the last sample had no changes.
	toNS    int64
	states  map[int32]sampler.GVLState // by native thread
	since   map[int32]int64
	threads map[sampler.ThreadID]int // number of changes of each thread that samples list
	// turns is how often each native thread got the GVL. waits is how many of these holds began after a wait.
	turns map[int32]int
	waits int
	// known counts the samples with changes. fresh counts the samples that begin with each thread's state, because
	// their changes do not continue the changes of the previous sample. unlisted counts changes of threads that no
	// sample lists.
	samples, known, fresh, changes, unlisted int
	fromNS                                   int64
	lastNS, gapNS                            int64
}

func newChanging(t *testing.T) *changing {
	return &changing{
		t: t, states: make(map[int32]sampler.GVLState), since: make(map[int32]int64),
		threads: make(map[sampler.ThreadID]int), turns: make(map[int32]int),
	}
}

func (c *changing) take(s *sampler.Sample) {
	c.samples++
	if c.lastNS != 0 {
		c.gapNS = max(c.gapNS, s.TimeNS-c.lastNS)
	}
	c.lastNS = s.TimeNS
	x := &s.Changes
	if !x.Known() {
		c.toNS = 0
		if len(x.List) > 0 {
			c.t.Errorf("%d changes that are not known", len(x.List))
		}
		return
	}
	c.known++
	if x.ToNS != s.TimeNS || x.FromNS >= x.ToNS || c.toNS != 0 && x.FromNS != c.toNS || c.toNS == 0 && !x.Fresh {
		c.t.Errorf("changes of %d to %d, fresh %v, of a sample of %d, after some until %d", x.FromNS, x.ToNS, x.Fresh, s.TimeNS, c.toNS)
	}
	c.toNS = x.ToNS
	if x.Fresh {
		c.fresh++
		c.fromNS = x.FromNS
		clear(c.states)
	}
	last := x.FromNS
	for i := range x.List {
		y := &x.List[i]
		begins := x.Fresh && y.AtNS == x.FromNS
		if y.AtNS < last || y.AtNS > x.ToNS || y.AtNS == x.FromNS && !begins || y.NoCPUNS < 0 {
			c.t.Errorf("%+v after %d, of %d to %d", *y, last, x.FromNS, x.ToNS)
		}
		last = y.AtNS
		c.changes++
		c.change(y, begins)
		if y.Thread == 0 {
			c.unlisted++
		} else {
			c.threads[y.Thread]++
		}
	}
}

// change checks and adds one change of the GVL. If begins is true, y is not a change, but the state that a thread has
// at the beginning.
func (c *changing) change(y *sampler.Change, begins bool) {
	old, known := c.states[y.TID]
	if known && !begins && old == sampler.GVLHeld && y.State == old && y.Stack != 0 {
		return // y is no change, but only has a stack of the thread that holds the GVL
	}
	if known && !begins && y.State == old && y.Doing.Kind != sampler.DoingUnknown {
		return // the state is the same; y only says what the thread does in it
	}
	switch {
	case begins && known:
		c.t.Errorf("%+v: the thread was there", *y)
	case known && old == y.State && !y.Doubtful:
		c.t.Errorf("%+v changes nothing", *y)
	case known && !y.Doubtful && old == sampler.GVLHeld && y.State == sampler.GVLChosen,
		known && !y.Doubtful && old == sampler.GVLChosen && y.State == sampler.GVLQueued:
		c.t.Errorf("from %v into %+v", old, *y)
	}
	if known {
		if most := y.AtNS - c.since[y.TID]; old != sampler.GVLChosen && y.NoCPUNS > most {
			c.t.Errorf("%+v without a CPU for longer than %d ns", *y, most)
		}
	}
	if y.State == sampler.GVLHeld {
		c.turns[y.TID]++
		if old == sampler.GVLQueued || old == sampler.GVLChosen {
			c.waits++
		}
	}
	c.states[y.TID], c.since[y.TID] = y.State, y.AtNS
	if y.State == sampler.GVLGone {
		delete(c.states, y.TID)
	}
}

// TestExactSamples: between the changes in one sample and the changes in the next, there must be no gap in time. Each
// change must be possible after the change before it.
func TestExactSamples(t *testing.T) {
	for name, load := range map[string]string{
		"computing":     `4.times { Thread.new { n = 0; loop { n += 1 } } }`,
		"mutex, queue":  `m = Mutex.new; q = Queue.new; 4.times { |i| Thread.new { loop { m.synchronize { 100.times { } }; i.odd? ? q.push(1) : q.pop; sleep 0.0005 } } }`,
		"short I/O":     `r, w = IO.pipe; 4.times { Thread.new { loop { w.syswrite("x"); r.sysread(1); sleep 0.0002 } } }`,
		"short threads": `2.times { Thread.new { loop { Thread.new { 1 }.join; sleep 0.0005 } } }`,
		"idle":          `3.times { Thread.new { sleep } }`,
	} {
		t.Run(name, func(t *testing.T) {
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				_, s := openExact(t, r, "$stdout.sync = true\n"+load+"\nputs 'ready'\n$stdin.gets", rubytest.Options{})
				c := newChanging(t)
				if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
					t.Fatal(err)
				}
				if st := s.ExactStatus(); !st.On || st.SinceNS == 0 {
					t.Errorf("%+v", st)
				}
				ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
				defer cancel()
				var until time.Time
				// the number of threads that must run; on a busy machine, perhaps only so few can run in the time of
				// the test
				const least = 3
				if err := s.Run(ctx, func(x *sampler.Sample) {
					c.take(x)
					if c.known == 1 {
						until = time.Now().Add(time.Second)
					}
					if c.known > 0 && time.Now().After(until) && len(c.threads) >= least {
						cancel()
					}
				}); err != nil {
					t.Fatal(err)
				}
				end := c.toNS
				report, err := s.EndExact()
				if err != nil || report.Ended != "" || report.Wrong || report.Lost != 0 {
					t.Errorf("%+v, %v", report, err)
				}
				if st := s.ExactStatus(); st.On || st.Hits != report.Hits || st.Changes == 0 {
					t.Errorf("%+v, %+v", st, report)
				}
				if end == 0 || c.fresh != 1 {
					t.Fatalf("%d samples, %d known, %d fresh, until %d", c.samples, c.known, c.fresh, end)
				}
				if len(c.threads) < least || name != "short threads" && c.unlisted > 0 {
					t.Errorf("%d threads, %d of %d changes of threads that are not listed", len(c.threads), c.unlisted, c.changes)
				}
				rubytest.Report(t, "%d samples, %d changes, %d threads, %d of unlisted ones; longest gap %v; %+v", c.samples, c.changes, len(c.threads), c.unlisted, time.Duration(c.gapNS), report)
			})
		})
	}
}

// probesOpen lists the BPF descriptors that this process has open: programs, their maps and their attachments. It
// leaves out the iterator that reads the native stacks of threads that wait for a long time.
func probesOpen(t *testing.T) (open []string) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile(`(?m)^prog_id:\s*\d+$`)
	var iterator string
	for _, e := range list {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name()) // the descriptor of the folder itself is closed by now
		if !strings.HasPrefix(to, "anon_inode:bpf") && to != "anon_inode:[perf_event]" {
			continue
		}
		info, _ := os.ReadFile("/proc/self/fdinfo/" + e.Name()) // fdinfo names the kind of the descriptor
		if strings.Contains(string(info), "\ttask\n") && strings.Contains(string(info), "\titer\n") {
			iterator = program.FindString(string(info))
		}
		open = append(open, to+" "+string(info))
	}
	return slices.DeleteFunc(open, func(info string) bool {
		return iterator != "" && program.FindString(info) == iterator
	})
}

// TestExactOnAndOff switches exact mode on and off while samples are taken. While it is on, the samples must have
// changes. Afterwards the process's code must be unchanged, and no descriptor left open. The test prints the longest
// gap between samples, but does not check it.
func TestExactOnAndOff(t *testing.T) {
	times := 20 // on each Ruby, half a second each
	if rubytest.Short(t) {
		times = 3
	}
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, `$stdout.sync = true
4.times { Thread.new { n = 0; loop { n += 1 } } }
4.times { Thread.new { loop { sleep 0.001 } } }
puts "ready"
$stdin.gets`, rubytest.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		c := newChanging(t)
		known, ended := make(chan int, 1), make(chan error, 1)
		go func() {
			ended <- s.Run(ctx, func(x *sampler.Sample) {
				c.take(x)
				select {
				case <-known:
				default:
				}
				known <- c.fresh
			})
		}()
		var longest time.Duration
		for i := range times {
			began := time.Now()
			if err := s.Exact(ctx, live.ExactOptions{MaxCost: 1}); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(began))
			if len(probesOpen(t)) == 0 {
				t.Fatal("no descriptor of a probe is open while it is on")
			}
			for n := 0; n <= i; {
				select {
				case n = <-known:
				case <-ctx.Done():
					t.Fatal(ctx.Err())
				}
			}
			if report, err := s.EndExact(); err != nil || report.Ended != "" || report.ToNS <= report.FromNS {
				t.Errorf("%+v, %v", report, err)
			}
			if rubytest.ChangedCode(t, p.PID) != 0 {
				t.Fatalf("after %d times the process's code is not what it was", i+1)
			}
			if open := probesOpen(t); len(open) > 0 {
				t.Errorf("after %d times there are open: %v", i+1, open)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if c.fresh != times {
			t.Errorf("%d times on, %d times fresh", times, c.fresh)
		}
		rubytest.Report(t, "%d samples, %d with changes; at most %v apart; switching on took %v at most", c.samples, c.known, time.Duration(c.gapNS), longest)
	})
}
