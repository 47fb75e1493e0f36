package gvl

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// gvlWorld is a GVL as Ruby hands it on: first in, first out. Each thread holds it for the length of its turn and wants it again at once.
type gvlWorld struct {
	now      int64
	turn     []int64 // by thread, from the first
	queue    []sampler.ThreadID
	owner    sampler.ThreadID
	untilNS  int64
	since    []int64   // since when each thread waits
	waits    [][]int64 // of each thread, those that are over
	cpu, got []int64   // its CPU time and its turns on a CPU
	seenCPU  []sampler.Kernel
}

func newGVLWorld(turns ...int64) *gvlWorld {
	w := &gvlWorld{now: base, turn: turns, owner: 1, untilNS: base + turns[0]}
	n := len(turns)
	w.since, w.waits, w.cpu, w.got, w.seenCPU = make([]int64, n), make([][]int64, n), make([]int64, n), make([]int64, n), make([]sampler.Kernel, n)
	for i := range n {
		w.since[i], w.got[i], w.seenCPU[i].FD = base, 1, -1
		if i > 0 {
			w.queue = append(w.queue, sampler.ThreadID(i+1))
		}
	}
	return w
}

// until lets time pass.
func (w *gvlWorld) until(at int64) {
	for w.untilNS <= at {
		last := int(w.owner) - 1
		w.cpu[last] += w.turn[last]
		w.now, w.since[last] = w.untilNS, w.untilNS
		w.queue = append(w.queue, w.owner)
		w.owner, w.queue = w.queue[0], w.queue[1:]
		i := int(w.owner) - 1
		w.waits[i] = append(w.waits[i], w.now-w.since[i])
		w.got[i]++
		w.untilNS = w.now + w.turn[i]
	}
	w.now = at
}

// sample reads it; counters: those of all threads are read, too.
func (w *gvlWorld) sample(counters bool) *sampler.Sample {
	s := &sampler.Sample{
		TimeNS: w.now, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: w.owner, OwnerEnd: w.owner, Queue: slices.Clone(w.queue)}},
		GC: sampler.GC{Valid: true},
	}
	if counters {
		s.Depth = sampler.StackTick
	}
	for i := range w.turn {
		t := queued(sampler.ThreadID(i + 1))
		if t.ID == w.owner {
			t = holder(t.ID)
		}
		if k := &w.seenCPU[i]; counters {
			k.CPUAtNS, k.CPUNS, k.Turns = w.now+20_000, w.cpu[i], w.got[i]
		}
		t.Kernel = w.seenCPU[i]
		s.Threads = append(s.Threads, t)
	}
	return s
}

// measure samples it at a rate for a time, with the counters in every so many samples (0: never), and returns what is said of a thread and
// the lengths of its waits, the last one among them, which goes on.
func (w *gvlWorld) measure(rate, forNS int64, counters int, id sampler.ThreadID) (StatThread, []int64) {
	p := procOf(sampler.EraSched)
	p.LockRate, p.StackRate = float64(rate), float64(rate)
	m := NewMeasure(p, sampler.NewDictionary(), nil)
	each, tick := int64(1e9)/rate, 0
	for w.now < base+forNS {
		// Ticks have no period (TestClockHasNoPeriod).
		w.until(w.now + each/2 + int64(tick*7919%1000)*each/1000)
		m.Feed(w.sample(counters > 0 && tick%counters == 0))
		tick++
	}
	waits := slices.Clone(w.waits[id-1])
	if w.owner != id {
		waits = append(waits, w.now-w.since[id-1])
	}
	slices.Sort(waits)
	st := m.Stat(0)
	i := slices.IndexFunc(st.Threads, func(t StatThread) bool { return t.ID == id })
	return st.Threads[i], waits
}

// judgeWaits compares lengths as they are told with the true ones, in order. A Histogram is right to 3 %, a number without a sign to 6 %
// and that.
func judgeWaits(t *testing.T, w *StatWaits, truth []int64) {
	t.Helper()
	longest := truth[len(truth)-1]
	told := []Bounded{w.P50(), w.P90(), w.P99(), w.Max()}
	for i := 1; i < len(told); i++ {
		if told[i].NS < told[i-1].NS {
			t.Errorf("the lengths do not grow: %v", told)
		}
	}
	switch f := w.Max(); {
	case f.Bound == AtMost && f.NS < longest*97/100, f.Bound == AtLeast && f.NS > longest*103/100,
		f.Bound == Exactly && (f.NS < longest*97/100 || f.NS > longest*110/100):
		t.Errorf("max %s, in truth %d", f.Prose(), longest)
	}
}

// TestWaitsAreNotMerged: a thread that has the GVL for 20 µs beside threads that compute is found waiting in nearly every sample. Its
// waits are told apart nevertheless.
func TestWaitsAreNotMerged(t *testing.T) {
	for _, c := range []struct {
		name     string
		turns    []int64
		rate     int64
		counters int
		// steps between samples, and readings of the counters, by which the longest wait may seem longer.
		steps int64
	}{
		{"beside three at 1,000 Hz", []int64{100 * ms, 100 * ms, 100 * ms, 20_000}, 1000, 10, 4},
		{"beside three at 100 Hz", []int64{100 * ms, 100 * ms, 100 * ms, 20_000}, 100, 1, 4},
		{"beside three at 30 Hz", []int64{100 * ms, 100 * ms, 100 * ms, 20_000}, 30, 1, 4},
		{"beside three, by the queue alone", []int64{100 * ms, 100 * ms, 100 * ms, 20_000}, 1000, 0, 4},
		{"beside one at 1,000 Hz", []int64{183 * ms, 20_000}, 1000, 10, 24},
		{"beside one at 30 Hz", []int64{183 * ms, 20_000}, 30, 1, 4},
		{"beside seven", []int64{50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 20_000}, 30, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := sampler.ThreadID(len(c.turns))
			th, truth := newGVLWorld(c.turns...).measure(c.rate, 6*sec, c.counters, id)
			judgeWaits(t, &th.Waits, truth)
			longest := truth[len(truth)-1]
			if most := longest + c.steps*2e9/c.rate; th.Waits.MaxNS > most {
				t.Errorf("max %s, in truth %d: more than %d are two waits", th.Waits.Max().Prose(), longest, most)
			}
			if n := int64(len(truth)); th.Waits.Count < n*9/10-2 || th.Waits.Count > n {
				t.Errorf("%d waits, in truth %d", th.Waits.Count, n)
			}
		})
	}
}

// TestWaitsWithoutEvidence: where neither the queue nor the counters tell waits apart, their length is an upper bound.
func TestWaitsWithoutEvidence(t *testing.T) {
	th, truth := newGVLWorld(183*ms, 20_000).measure(30, 6*sec, 0, 2)
	judgeWaits(t, &th.Waits, truth)
	if f := th.Waits.Max(); f.Bound != AtMost {
		t.Errorf("max %s, in truth %d", f.Prose(), truth[len(truth)-1])
	}
}

// TestLongWaitIsOne: a wait of seconds in which the thread is known not to have run is one, and its length is a number.
func TestLongWaitIsOne(t *testing.T) {
	for _, rate := range []int64{30, 1000} {
		w := newGVLWorld(4*sec, 100*ms)
		th, truth := w.measure(rate, 6*sec, max(int(rate/100), 1), 2)
		judgeWaits(t, &th.Waits, truth)
		if f := th.Waits.Max(); f.Bound == AtMost || f.NS < 39*sec/10 || f.NS > 41*sec/10 {
			t.Errorf("at %d Hz: max %s, in truth %d", rate, f.Prose(), truth[len(truth)-1])
		}
	}
}

// TestHoldOverGaps: ddtop's own clock stands still again and again while a thread keeps the GVL for 18 s. Counters prove that no
// other thread had it.
func TestHoldOverGaps(t *testing.T) {
	for _, c := range []struct {
		name     string
		stepNS   int64
		counters bool
		want     string
	}{
		{"short", 40 * ms, true, "kept it 1"},
		{"long", 400 * ms, true, "kept it 1"},
		{"without counters", 40 * ms, false, "kept it ≥6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			hog, small := s.stack("c:Native.work"), s.stack("Server#handle")
			begin, end := s.now, s.now+18*sec
			for tick := 0; s.now < end; tick++ {
				s.now += ms
				if tick%700 == 699 {
					s.now += c.stepNS - ms
				}
				list := []sampler.Thread{s.at(holder(1), hog), s.at(queued(2), small), s.at(queued(3), small)}
				for i := range list {
					if k := &list[i].Kernel; c.counters {
						k.CPUAtNS, k.Turns, k.CPUNS = s.now, 5, 1000
						if i == 0 {
							k.CPUNS += s.now - begin
							k.Turns += int64(tick) // others take the CPU from it
						}
					}
				}
				x := sampleAt(s.now, 1, list...)
				x.GC.Valid = true
				s.stream.Feed(x, s.c.Classify(x))
			}
			for _, f := range s.f.Current() {
				if f.ID == "gvl_stuck" {
					if !strings.Contains(f.Text, c.want) || c.counters && !strings.Contains(f.Text, " s without") {
						t.Errorf("%s, want %q", f.Text, c.want)
					}
					return
				}
			}
			t.Errorf("no finding: %v", s.f.Current())
		})
	}
}

// TestHoldEndsInAGap: another thread had the GVL while samples were too far apart.
func TestHoldEndsInAGap(t *testing.T) {
	s := newScene(t)
	hog, small := s.stack("c:Native.work"), s.stack("Server#handle")
	turns := int64(5)
	for tick := range 18_000 {
		s.now += ms
		if tick%100 == 99 {
			s.now += 40 * ms
			turns++
		}
		list := []sampler.Thread{s.at(holder(1), hog), s.at(queued(2), small)}
		for i := range list {
			k := &list[i].Kernel
			k.CPUAtNS, k.Turns, k.CPUNS = s.now, turns+int64(1-i)*int64(tick), turns*1000+int64(1-i)*int64(tick)*ms
		}
		x := sampleAt(s.now, 1, list...)
		x.GC.Valid = true
		s.stream.Feed(x, s.c.Classify(x))
	}
	for _, f := range s.f.Current() {
		if f.ID == "gvl_stuck" {
			t.Errorf("holds of 0.1 s: %s", f.Text)
		}
	}
}
