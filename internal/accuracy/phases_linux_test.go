package accuracy

import (
	"context"
	"errors"
	"math"
	"os"
	"sort"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/workload"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// totals has the time in each state, summed up over all threads and all samples so far.
type totals struct {
	atNS int64
	ns   [gvl.NumStates]int64
	// unsureNS is the part of the time that may belong to another state. It is the time between two samples that are
	// far apart and show a thread in different states.
	unsureNS int64
	// delayNS is how long threads were ready to run and had no CPU. Such a thread enters its next state late. But in
	// the program's log, the time already belongs to this next state.
	delayNS int64
	// squares is a sum of squared times, in ns². It is for threads that changed their state at an unknown instant
	// between two samples that are near each other. For each such change, it adds the square of the time between the
	// two samples.
	squares float64
	threads int64
}

// farNS is the time between two samples, in ns, from which on they are far apart. This happens if ddtop gets no CPU in
// between. The constant slack covers the errors that shorter times cause.
const farNS = 5e6

// course has the totals up to each sample, in the order of time.
type course []totals

// between returns the totals of the time between two instants. Each instant is rounded up to the next sample.
func (c course) between(from, to int64) (out totals) {
	at := func(t int64) totals {
		i := sort.Search(len(c), func(i int) bool { return c[i].atNS >= t })
		return c[min(i, len(c)-1)]
	}
	a, b := at(from), at(to)
	for i := range out.ns {
		out.ns[i] = b.ns[i] - a.ns[i]
	}
	out.unsureNS = b.unsureNS - a.unsureNS + b.delayNS - a.delayNS
	out.squares = b.squares - a.squares
	for _, off := range []int64{(a.atNS - from) * a.threads, (b.atNS - to) * b.threads} {
		if off > farNS*a.threads {
			out.unsureNS += off
		}
	}
	return out
}

// follow samples a process until it ends.
func follow(ctx context.Context, pid int) (course, error) {
	s, err := live.Open(ctx, pid, live.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	classifier := gvl.NewClassifier(s.Process(), s.Dictionary())
	var c course
	var last totals
	was := make(map[sampler.ThreadID]gvl.State)
	delayed := make(map[sampler.ThreadID]int64)
	err = s.Run(ctx, func(sample *sampler.Sample) {
		d := sample.TimeNS - last.atNS
		for _, st := range classifier.Classify(sample) {
			if last.atNS != 0 {
				last.ns[st.State] += d
				if before, ok := was[st.Thread]; !ok || before != st.State {
					if d > farNS {
						last.unsureNS += d
					} else {
						last.squares += float64(d) * float64(d)
					}
				}
			}
			was[st.Thread] = st.State
		}
		for i := range sample.Threads {
			// RunDelayNS counts from the thread's start. So at the first reading of a thread, all of RunDelayNS is new.
			if th := &sample.Threads[i]; th.Kernel.CPUAtNS != 0 {
				last.delayNS += max(th.Kernel.RunDelayNS-delayed[th.ID], 0)
				delayed[th.ID] = th.Kernel.RunDelayNS
			}
		}
		last.atNS, last.threads = sample.TimeNS, int64(len(sample.Threads))
		c = append(c, last)
	})
	if errors.Is(err, sampler.ErrEnded) {
		err = nil
	}
	return c, err
}

// TestPhasesOfTheWorkload compares what ddtop sees in each phase of the bundled program with the program's own log. The
// log has the begin and end of each phase. It also has the times that the program's threads measured with the clock,
// such as the time spent waiting for the Mutex.
func TestPhasesOfTheWorkload(t *testing.T) {
	rubytest.Long(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		if r.Root != "" && os.Geteuid() != 0 {
			rubytest.Skip(t, "starting by chroot needs root")
		}
		w, err := workload.Start(t.Context(), r.Bin, workload.Options{Root: r.Root, Rounds: 1, PhaseLength: 800 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := w.Stop(); err != nil {
				t.Error(err)
			}
		}()
		c, err := follow(t.Context(), w.PID)
		// The number of samples depends on the machine, so two are enough. With fewer samples, the checks below allow
		// larger errors.
		if err != nil || len(c) < 2 {
			t.Fatalf("%d samples: %v", len(c), err)
		}
		inside := make(map[string]totals)
		drained := make(map[string]workload.Event)
		length := make(map[string]int64)
		from := w.Ready.MonotonicNS
		for _, e := range w.Log.Events() {
			if e.Event == workload.EventDrained {
				// The test counts a phase from the end of the previous phase to its own end. The reason is that threads
				// enter a phase one by one, before its official beginning. When the program logs that the phase is
				// drained, all threads have left it.
				inside[e.Phase], drained[e.Phase], length[e.Phase] = c.between(from, e.MonotonicNS), e, e.MonotonicNS-from
				from = e.MonotonicNS
			}
		}
		checkPhases(t, inside, drained, length)
	})
}

// slack is how much a sum over all threads may be off, in ns. A thread can wake up late, and it does other things
// between two readings of the clock.
const slack = 80e6

// chance is by how much a sum may be wrong by chance, in ns. Each change of a state happened at an unknown instant
// between two samples. So its time is wrong by at most the time between these samples, in either direction. The bound
// is Hoeffding's inequality.
func (t *totals) chance() float64 { return math.Sqrt(2 * math.Log(2/odds.FalseAlarm) * t.squares) }

func checkPhases(t *testing.T, inside map[string]totals, drained map[string]workload.Event, length map[string]int64) {
	t.Helper()
	// between checks that the sum of the time in some states, over all threads, is between least and most. These bounds
	// come from the program's own log.
	between := func(what, phase string, states []gvl.State, least, most int64) {
		t.Helper()
		in, got := inside[phase], int64(0)
		for _, s := range states {
			got += in.ns[s]
		}
		t.Logf("%-40s %6d ms, not sure of %4d, by chance %3.0f, by the log %6d to %6d", what, got/1e6, in.unsureNS/1e6, in.chance()/1e6, least/1e6, most/1e6)
		off := slack + float64(in.unsureNS) + in.chance()
		if float64(got) < float64(least)-off || float64(got) > float64(most)+off {
			t.Errorf("%s: %d ms, not sure of %d, by the program's own log %d to %d", what, got/1e6, in.unsureNS/1e6, least/1e6, most/1e6)
		}
	}
	// By the program's log, a thread waits for the Mutex until it runs again. ddtop distinguishes two states here: the
	// thread waits for the Mutex, and then for the GVL.
	between("waiting for the Mutex, and for the GVL", "mutex", []gvl.State{gvl.Lock, gvl.Waiting}, drained["mutex"].LockNS, 1<<62)
	between("waiting for the Mutex", "mutex", []gvl.State{gvl.Lock}, 0, drained["mutex"].LockNS)
	between("queries, and waiting after them", "database", []gvl.State{gvl.IO, gvl.Waiting, gvl.Running}, drained["database"].QueryNS, 1<<62)
	between("holding the GVL in the C function", "stall", []gvl.State{gvl.Stalled, gvl.Running}, drained["stall"].KeptNS, 1<<62)
	between("asleep with the GVL", "stall", []gvl.State{gvl.Stalled}, drained["stall"].KeptNS/2, drained["stall"].KeptNS)

	// Three phases cause a fault on purpose, such as waiting for a Mutex. Each fault must show in its phase, and much
	// less in all other phases.
	for what, x := range map[string]struct {
		phase string
		state gvl.State
	}{"waiting for the Mutex": {"mutex", gvl.Lock}, "stalled": {"stall", gvl.Stalled}, "garbage collection": {"gc", gvl.GC}} {
		share := func(phase string) float64 { return float64(inside[phase].ns[x.state]) / float64(length[phase]) }
		unsure := func(phase string) float64 { return float64(inside[phase].unsureNS) / float64(length[phase]) }
		for _, other := range workload.Phases() {
			if other != x.phase && share(other)-unsure(other) > (share(x.phase)+unsure(x.phase))/2 {
				t.Errorf("%s: %.3f threads in phase %s, %.3f in phase %s", what, share(other), other, share(x.phase), x.phase)
			}
		}
	}
}
