package ui

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// contending is a Ruby program for the test. Its threads hold one Mutex for 30, 50 and 70 ms in turn. For each hold it
// logs three times. t0 is just after the thread got the Mutex. t1 and t2 are just before and just after the thread gave
// the Mutex up.
const contending = `
STDOUT.sync = true
lock, log = Mutex.new, Queue.new
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
$stdin.gets
3.times.map do |i|
  Thread.new do
    Thread.current.name = "t#{i}"
    60.times do
      t0 = t1 = nil
      lock.synchronize { t0 = now.(); sleep 0.03 + 0.02 * i; t1 = now.() }
      log << [i, t0, t1, now.()]
      sleep 0.005
    end
  end
end.each(&:join)
puts log.size
log.size.times { puts log.pop.join(" ") }
$stdin.gets
`

// loggedHold is one hold of the Mutex, as the program logged it.
type loggedHold struct {
	thread     string
	t0, t1, t2 int64
}

// TestLockUseIsWhatTheProgramSays compares ddtop's figures about a lock with the log of the program that uses the lock.
// ddtop must count no more holds than the program had. It must find each hold during which it read stacks. The holders
// and the lengths of holds must agree with the log, within the accuracy of the samples.
func TestLockUseIsWhatTheProgramSays(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, contending, rubytest.Options{})
		src, err := live.Open(t.Context(), p.PID, live.Options{StackRate: 100, LockRate: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		var holds account.LockHolds
		states, class := stream.New(src.Process()), gvl.NewClassifier(src.Process(), src.Dictionary())
		states.Attach(&holds)
		var times []int64
		ctx, stop := context.WithCancel(t.Context())
		ended, begun := make(chan error, 1), make(chan struct{})
		go func() {
			ended <- src.Run(ctx, func(x *sampler.Sample) {
				if x.Depth == sampler.StackTick { // the holder of a lock is read together with the stacks
					if len(times) == 0 {
						close(begun)
					}
					times = append(times, x.TimeNS)
				}
				states.Feed(x, class.Classify(x))
			})
		}()
		<-begun
		p.Send(t, "go")
		n, err := strconv.Atoi(p.Line(t))
		if err != nil {
			t.Fatal(err)
		}
		var log []loggedHold
		for range n {
			f := strings.Fields(p.Line(t))
			ns := func(s string) int64 { v, _ := strconv.ParseInt(s, 10, 64); return v }
			log = append(log, loggedHold{"t" + f[0], ns(f[1]), ns(f[2]), ns(f[3])})
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(log, func(a, b loggedHold) int { return int(a.t0 - b.t0) })

		locks := holds.Recent(0, 1<<62)
		if len(locks) != 1 {
			t.Fatalf("%d locks were seen, the program has one: %+v", len(locks), locks)
		}
		u := holds.Of(locks[0].Object, 0, 1<<62)
		changes, least := 0, 0
		for i := range log {
			if i == 0 || log[i].thread == log[i-1].thread {
				continue
			}
			changes++
			// A thread that has given the Mutex up sleeps for 5 ms. So 10 ms after the start of this hold, the other
			// threads surely wait for the Mutex.
			from := log[i].t0 + 10e6
			if k, _ := slices.BinarySearch(times, from); k < len(times) && times[k] < log[i].t1-1e6 {
				least++
			}
		}
		if int(u.Taken) > changes+1 {
			t.Errorf("taken %d times, and it changed hands %d times", u.Taken, changes)
		}
		if want := odds.AtLeast(least, .95); int(u.Taken)+1 < want {
			t.Errorf("taken %d times, and stacks were read in %d holds", u.Taken, least)
		}
		told, wrong := 0, 0
		for _, h := range holds.All(locks[0].Object) {
			if h.FromNS == 0 || h.Perhaps {
				continue
			}
			told++
			name, mid := gvl.ThreadName(h.Thread, src.Dictionary()), h.FromNS+(h.ToNS-h.FromNS)/2
			i := slices.IndexFunc(log, func(l loggedHold) bool { return l.thread == name && l.t0-h.GapNS <= mid && mid <= l.t2+h.GapNS })
			if i < 0 {
				t.Logf("%s did not hold it from %d to %d", name, h.FromNS, h.ToNS)
				wrong++
				continue
			}
			// The program logs t0 a moment after the thread got the Mutex, so ddtop may see an earlier start. But the
			// start cannot be before the end of the previous hold.
			most := log[i].t2 - log[i].t0 + 5e6
			if i > 0 {
				most = log[i].t2 - log[i-1].t1
			}
			if ns := h.ToNS - h.FromNS; ns < log[i].t1-log[i].t0-h.GapNS || ns > most+h.GapNS {
				t.Logf("%s held it for %d ns, seen as %d, of which %d are not sure", name, log[i].t1-log[i].t0, ns, h.GapNS)
				wrong++
			}
		}
		// The time of a sample is the start of its read. In up to about 1 % of the samples, ddtop loses its CPU during
		// the read. The data of these samples are from a later moment than their time.
		if wrong > odds.AtMost(told, .02) {
			t.Errorf("%d of %d holds are not as the program says", wrong, told)
		}
		t.Logf("%d holds, %d changes, %d seen, %d with their length", n, changes, u.Taken, told)
	})
}
