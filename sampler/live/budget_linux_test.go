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

// alternates computes in turn at the bottom of a deep stack, which is dear to read, and of a flat one, for 3 to 9 ms each, and
// says in the end when it did: pairs of CLOCK_MONOTONIC in ns, the deep ones first.
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

// TestBudgetAgainstTheProgramsLog: at rates that a budget has lowered, a program that is dearer to read in one of its phases than in
// the other is seen in each for as long as its own log says.
func TestBudgetAgainstTheProgramsLog(t *testing.T) {
	p := rubytest.One(t).Start(t, alternates, rubytest.Options{})
	p.Expect(t, "ready")
	s := open(t, p.PID, live.Options{LockRate: 5000, Overhead: 0.02})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	type look struct {
		ns   int64
		dear bool
	}
	var looks []look
	var lowered int64 // ns: by number the first samples, before the rates were decided, can be most of all
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
	var at []int64
	for _, word := range strings.Fields(p.Line(t)) {
		ns, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, ns)
	}
	if len(looks) < 20 {
		t.Fatalf("%d samples", len(looks))
	}
	if all := looks[len(looks)-1].ns - looks[0].ns; lowered < all/2 {
		t.Errorf("the rates were lowered in %d of %d ns: the budget is to force that", lowered, all)
	}
	from, to := looks[1].ns, looks[len(looks)-1].ns
	var sum, squares, hits, truth float64
	for i := 2; i < len(looks)-1; i++ {
		w := float64(looks[i+1].ns-looks[i-1].ns) / 2
		sum, squares = sum+w, squares+w*w
		if looks[i].dear {
			hits += w
		}
	}
	turns := 0
	for i := 0; i+1 < len(at); i += 4 {
		if d := min(at[i+1], to) - max(at[i], from); d > 0 {
			truth += float64(d)
			turns += 2
		}
	}
	got, want := hits/sum, truth/float64(to-from)
	bound := odds.Within(min(odds.Effective(sum, squares), float64(turns)))
	text := "deep in %.3f of the time, by the program's log in %.3f; %d samples in %.1f s, lowered for %.1f s; bound %.3f"
	args := []any{got, want, len(looks), float64(to-from) / 1e9, float64(lowered) / 1e9, bound}
	t.Logf(text, args...)
	if math.Abs(got-want) > bound {
		t.Errorf(text, args...)
	}
}
