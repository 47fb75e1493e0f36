package accuracy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// loggedPhase is one phase of a thread ("run" with the GVL, or another kind), as programs/phases.rb logs it.
type loggedPhase struct {
	kind         string
	tid          int32
	fromNS, toNS int64
}

// ownLog is a running process of programs/phases.rb. It has the phases that the program logs, and what ddtop measures
// at the same time.
type ownLog struct {
	*rubytest.Process
	source *live.Source
	mu     sync.Mutex // guards kept
	kept   kept
	phases []loggedPhase
	err    error
}

// know waits until the samples reach the time ns. It returns false if the samples end before that time.
func (o *ownLog) know(ctx context.Context, ns int64, more <-chan struct{}) bool {
	for {
		o.mu.Lock()
		to := o.kept.now.toNS
		o.mu.Unlock()
		if to > ns {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

// TestFleetPhases: ddtop follows several processes at once, while one thread of ddtop fetches the kernel's records for
// all of them. Each process logs the begin and end of its phases. In a "run" phase its thread holds the GVL, and in
// other phases it does not. ddtop must see the same. Meanwhile, some processes fork, start threads and join them. One
// exits and one calls exec while the others go on.
func TestFleetPhases(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	r := rubytest.One(t)
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	all := make([]*ownLog, 6)
	more := make([]chan struct{}, len(all))
	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	for i := range all {
		o := &ownLog{Process: r.Start(t, script(t, "phases"), rubytest.Options{})}
		all[i], more[i] = o, make(chan struct{}, 1)
		var said struct{ TID int32 }
		o.JSON(t, &said)
		var err error
		if o.source, err = live.Open(t.Context(), o.PID, live.Options{}); err != nil {
			t.Fatal(err)
		}
		defer o.source.Close()
		if err := o.source.Switches(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.kept.follow(o.source)
		runs.Go(func() {
			o.err = o.source.Run(ctx, func(x *sampler.Sample) {
				o.mu.Lock()
				o.kept.take(x)
				o.mu.Unlock()
				select {
				case more[i] <- struct{}{}:
				default:
				}
			})
		})
	}
	for i, o := range all {
		if !o.know(ctx, 0, more[i]) {
			t.Fatal("no sample knows what the threads of a process did")
		}
	}
	const rounds = 3
	var left [rounds]string
	left[1], left[2] = "exit", "exec" // the process with this index leaves before this round
	for round := range rounds {
		for i, o := range all {
			switch {
			case left[round] != "" && i == round:
				o.Send(t, left[round])
			case i == 0 || i > round || left[i] == "":
				o.Send(t, fmt.Sprint(10*round+i))
			}
		}
		for i, o := range all {
			if !(i == 0 || i > round || left[min(i, rounds-1)] == "" || i >= rounds) {
				continue
			}
			var log [][]any
			o.JSON(t, &log)
			for _, p := range log {
				tid, from, to := p[1].(float64), p[2].(float64), p[3].(float64)
				o.phases = append(o.phases, loggedPhase{p[0].(string), int32(tid), int64(from), int64(to)})
			}
			if last := o.phases[len(o.phases)-1].toNS; !o.know(ctx, last, more[i]) {
				t.Fatalf("process %d: the samples do not know of its last phase", o.PID)
			}
		}
	}
	cancel()
	runs.Wait()
	for i, o := range all {
		report, err := o.source.EndSwitches()
		if err != nil && left[min(i, rounds-1)] == "" || report.Lost != 0 {
			t.Errorf("process %d: %v, %+v", o.PID, err, report)
		}
		if o.err != nil && !errors.Is(o.err, sampler.ErrEnded) {
			t.Errorf("process %d: %v", o.PID, o.err)
		}
		o.check(t, fmt.Sprintf("process %d of %d", i, len(all)))
	}
}

// check compares the logged phases with what the samples show.
func (o *ownLog) check(t *testing.T, name string) {
	o.kept.measure.Stream().Finish()
	var wrong, whole, most int64
	n, far := 0, 0
	for _, p := range o.phases {
		known := o.kept.longest
		if p.fromNS < known.fromNS || p.toNS > known.toNS || p.kind == "run" && p.toNS-p.fromNS > rubyTurnNS {
			continue
		}
		sums := o.kept.times(p.fromNS, p.toNS)[p.tid]
		off := max(sums[holding]-o.kept.without(p.tid, p.fromNS, p.toNS), 0)
		if p.kind == "run" {
			off = p.toNS - p.fromNS - sums[holding]
		}
		if n++; off > 1_000_000 {
			far++
		}
		wrong, whole, most = wrong+off, whole+p.toNS-p.fromNS, max(most, off)
	}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	rubytest.Report(t, "%s: %d phases of %d, %d are off by more than 1 ms, %.3f of %.3f ms are wrong, at most %.3f of one",
		name, n, len(o.phases), far, ms(wrong), ms(whole), ms(most))
	// A thread reads the clock and then gets the GVL. Between these steps, the thread can lose its CPU, or a virtual
	// CPU can stop for a moment. In both cases nothing shows exactly when the phase began. This happens in few phases.
	// If ddtop mixed up the records of two processes, most phases would be wrong.
	if n < len(o.phases)/2 || far > n/4 {
		t.Errorf("%s: %d of %d phases are off by more than a millisecond, of %d logged", name, far, n, len(o.phases))
	}
}

// without returns how long a thread had no CPU between two times. It also counts the time without a CPU just before the
// thread's next change of the GVL after the second time. The reason is that a thread that loses its CPU just after it
// got the GVL reads the clock late.
func (k *kept) without(tid int32, from, to int64) (sum int64) {
	still := threadAt{tid, math.MaxInt64}
	for at, ns := range k.noCPU {
		switch {
		case at.tid != tid || at.atNS <= from:
		case at.atNS <= to:
			sum += ns
		case at.atNS < still.atNS:
			still = at
		}
	}
	return sum + k.noCPU[still]
}

// rubyTurnNS is a little less than Ruby's time slice, 100 ms (TIME_QUANTUM_MSEC in thread.c). After a time slice, Ruby
// makes the holder give the GVL to a waiting thread. So the test ignores longer "run" phases, which may be interrupted.
const rubyTurnNS = 90_000_000
