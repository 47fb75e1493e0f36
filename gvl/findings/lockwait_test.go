package findings

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// lockedSince returns a thread that waits for a lock that another thread holds. turns is how often it had got a CPU
// when its counters were read, at readNS.
func lockedSince(id, holder sampler.ThreadID, turns, readNS int64) sampler.Thread {
	th := gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockMutex)
	th.Blocked.Object, th.Blocked.Holder = 0xa0+uint64(holder), holder
	th.Kernel.Turns, th.Kernel.CPUAtNS = turns, readNS
	return th
}

// TestTurnsOfPauses: a waiting thread that gets a CPU again and again may have had the lock. But if ddtop stops the
// threads for every sample, each thread gets a CPU after each stop. In this case the thread still waits for the lock,
// and ddtop must report one wait.
func TestTurnsOfPauses(t *testing.T) {
	for _, c := range []struct {
		pauses bool
		want   []string
	}{{true, []string{"deadlock"}}, {false, nil}} {
		s := newScene(t)
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS, p.Pauses = gvltest.Base-60*gvltest.Sec, c.pauses
		s.c = gvl.NewClassifier(p, s.dict)
		s.watch(p, nil)
		s.play(2*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			return 0, []sampler.Thread{lockedSince(1, 2, int64(i), s.now), lockedSince(2, 1, int64(i), s.now)}
		})
		s.want("each tick a turn", c.want)
		if about := s.f.win.state(1).AtMost(); about == c.pauses {
			t.Errorf("pauses %v: its length is an upper bound: %v", c.pauses, about)
		}
	}
}

// TestLockWaitsAtLoweredRates: samples show two threads that wait for each other's lock. Each may have had the lock
// between two samples. If a budget has lowered the rates, only readings of how often the threads got a CPU can exclude
// this. Until the second reading, it is not certain that they wait for each other. The second reading proves that
// neither thread has moved.
func TestLockWaitsAtLoweredRates(t *testing.T) {
	for _, c := range []struct {
		what    string
		lowered bool
		every   int64 // time between two readings
		moves   int64 // how often each thread gets a CPU between two readings
		want    []string
		about   bool
	}{
		{"standing still, read often", true, 200 * gvltest.MS, 0, []string{"deadlock"}, false},
		{"standing still, read seldom", true, 700 * gvltest.MS, 0, []string{"deadlock"}, false},
		{"not read again", true, 60 * gvltest.Sec, 0, nil, true},
		{"moving, read often", true, 200 * gvltest.MS, 1, nil, true},
		{"not lowered, standing still", false, 200 * gvltest.MS, 0, []string{"deadlock"}, false},
	} {
		s := newScene(t)
		s.self.Lowered = c.lowered
		began := s.now
		s.play(1800*gvltest.MS, func(int) (sampler.ThreadID, []sampler.Thread) {
			reading := (s.now - began) / c.every
			at := began + max(reading*c.every, sceneTick)
			return 0, []sampler.Thread{lockedSince(1, 2, 1+reading*c.moves, at), lockedSince(2, 1, 1+reading*c.moves, at)}
		})
		s.want(c.what, c.want)
		ts := s.f.win.state(1)
		if about := ts.AtMost() && strings.HasPrefix(ts.Lasted().Prose(), "≤"); about != c.about {
			t.Errorf("%s: after %d ms, of which %d are sure, its length is said with %q", c.what, ts.DurationNS()/gvltest.MS, ts.SureNS()/gvltest.MS, ts.Lasted().Prose())
		}
	}
}

// TestBusyLockIsToldByWhatIsKnown: for ten seconds, samples show the same threads in the queue for a busy lock. But
// between two samples they had the lock again and again. The finding must not say that they waited for ten seconds. It
// says how long a thread has certainly waited.
func TestBusyLockIsToldByWhatIsKnown(t *testing.T) {
	for _, c := range []struct {
		what  string
		every int64 // the interval at which a thread gets a CPU, zero if it never does
		want  *regexp.Regexp
	}{
		{"busy", 200 * gvltest.MS, regexp.MustCompile(`^4 threads wait for Mutex 0xa9(, the longest for ≥(\d+) ms)?; held by`)},
		{"standing still", 0, regexp.MustCompile(`^4 threads wait for Mutex 0xa9, the longest for 9.\d+ s; held by`)},
	} {
		s := newScene(t)
		began := s.now
		s.play(10*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			threads := []sampler.Thread{gvltest.Asleep(9, sampler.StoppedForever, sampler.BlockQueue), gvltest.Asleep(8, sampler.StoppedForever, sampler.BlockQueue)}
			by := sampler.ThreadID(9)
			if c.every > 0 && (s.now-began)/(20*gvltest.MS)%2 == 0 {
				by = 8
			}
			for id := range sampler.ThreadID(4) {
				turns := int64(1)
				if c.every > 0 {
					turns += (s.now - began + int64(id)*30*gvltest.MS) / c.every
				}
				th := lockedSince(id+1, by, turns, s.now)
				th.Blocked.Object = 0xa9
				threads = append(threads, th)
			}
			return 0, threads
		})
		text := s.one("lock_convoy").Text
		m := c.want.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s: %s", c.what, text)
			continue
		}
		if len(m) > 2 && m[2] != "" {
			if n, err := strconv.ParseInt(m[2], 10, 64); err != nil || n*gvltest.MS > c.every {
				t.Errorf("%s: a turn every %d ms, and %s", c.what, c.every/gvltest.MS, text)
			}
		}
	}
}
