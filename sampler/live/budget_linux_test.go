package live_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// alternates is a program that computes in turns of 3 to 9 ms. Every second turn, beginning with the first, computes at
// the bottom of a deep stack, which is expensive to read. At its end the program prints when each turn began and ended,
// in ns of CLOCK_MONOTONIC.
const alternates = `
def now; Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond); end
def down(n, &b); n == 0 ? b.call : down(n - 1, &b); end
def spin(log)
  log << now
  to = log[-1] + 3_000_000 + rand(6_000_000)
  nil while now < to
  log << now
end
def dear(log); spin(log); end
def cheap(log); spin(log); end
over = false
log = []
Thread.new { $stdin.gets; over = true }
puts "ready"; $stdout.flush
until over
  down(1500) { dear(log) }
  cheap(log)
end
puts log.join(" "); $stdout.flush; $stdin.gets`

// TestBudgetAgainstTheProgramsLog: a program alternates between a phase with a deep stack, which is expensive to read,
// and a phase with a flat stack. The limit on ddtop's cost lowers its rates. Still, the share of samples in each phase
// must equal the phase's share of the time in the program's log.
//
// The test makes two comparisons. The first uses the phase that the log has at the time of each tick. Its bound is
// narrow, because only the clock could make it wrong. The second uses the phase that ddtop has read. Its bound is wide.
// If a stack is a thousand frames deeper than expected, ddtop needs a second call to read it. On a busy machine the
// program can reach the other phase before this call.
func TestBudgetAgainstTheProgramsLog(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t) // 20 s
	p := rubytest.One(t).Start(t, alternates, rubytest.Options{})
	p.Expect(t, "ready")
	s := open(t, p.PID, live.Options{LockRate: 5000, Overhead: 0.1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	type look struct {
		ns   int64
		dear bool
	}
	var looks []look
	// how long the rates were lowered, in ns. A number of samples would prove less, because most samples may be from
	// before the change
	var lowered int64
	err := s.Run(ctx, func(x *sampler.Sample) {
		l := look{ns: x.TimeNS}
		for i := range x.Threads {
			if th := &x.Threads[i]; th.ID == x.Ractors[0].OwnerEnd {
				inner := s.Dictionary().Frames(th.Stack, nil)
				l.dear = slices.ContainsFunc(inner[:min(len(inner), 5)], func(f sampler.FrameID) bool { return s.Dictionary().Frame(f).Name == "dear" })
			}
		}
		if n := len(looks); n > 0 && x.Self.Lowered {
			lowered += l.ns - looks[n-1].ns
		}
		looks = append(looks, l)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Send(t, "")
	at := numbers(t, p.Line(t))
	if len(looks) < 20 {
		rubytest.TooSeldomNow(t, "%d samples", len(looks))
	}
	if all := looks[len(looks)-1].ns - looks[0].ns; lowered < all/2 {
		t.Errorf("the rates were lowered in %d of %d ns: the budget is to force that", lowered, all)
	}
	// Each sample represents the time around it, which is called its cell. The sample's error is the part of the cell
	// in which the program was in the other phase. The errors of an episode (turnsOf turns) are added up. The sums of
	// different episodes are independent of each other. So from these sums the test can compute how far the total may
	// deviate by chance.
	var sum, squares, hits, clock, deep, turn, variance float64
	turns, of := 0, -1
	for i := 2; i < len(looks)-1; i++ {
		from, to := (looks[i-1].ns+looks[i].ns)/2, (looks[i].ns+looks[i+1].ns)/2
		w := float64(to - from)
		sum, squares = sum+w, squares+w*w
		if looks[i].dear {
			hits += w
		}
		k, inside := slices.BinarySearch(at, looks[i].ns)
		if k/(4*turnsOf) != of {
			of, turns, variance, turn = k/(4*turnsOf), turns+1, variance+turn*turn, 0
		}
		truth := deepIn(at, from, to)
		deep, turn = deep+truth, turn-truth
		if k%4 == 1 || inside && k%4 == 0 {
			clock, turn = clock+w, turn+w
		}
	}
	variance += turn * turn
	got, ticks, want := hits/sum, clock/sum, deep/sum
	closely := odds.Deviations * math.Sqrt(variance) / sum
	widely := odds.Within(min(odds.Effective(sum, squares), float64(2*turnsOf*turns)))
	text := "deep in %.4f of the time, at the instants of the ticks in %.4f, by the program's log in %.4f; %d samples in %.1f s, lowered for %.1f s; bounds %.4f, %.4f"
	args := []any{got, ticks, want, len(looks), sum / 1e9, float64(lowered) / 1e9, widely, closely}
	t.Logf(text, args...)
	if turns < 30 {
		rubytest.TooSeldomNow(t, "%d turns of the program are too few to measure how far their mean can be off", turns)
	}
	if math.Abs(ticks-want) > closely || math.Abs(got-want) > widely {
		t.Errorf(text, args...)
	}
}

// turnsOf is how many times the program goes through its phases in one episode. The test's time is divided into
// episodes, and an episode must be longer than the interval between two ticks.
const turnsOf = 8

// deepIn returns how long the program computed with the deep stack between two times, according to its log.
func deepIn(at []int64, from, to int64) (ns float64) {
	k, _ := slices.BinarySearch(at, from)
	for i := max(k-4, 0) / 4 * 4; i+1 < len(at) && at[i] < to; i += 4 {
		ns += float64(max(min(at[i+1], to)-max(at[i], from), 0))
	}
	return ns
}

// numbers parses the integers in a line.
func numbers(t *testing.T, line string) []int64 {
	t.Helper()
	var all []int64
	for _, word := range strings.Fields(line) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}
