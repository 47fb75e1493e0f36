package ruby

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// allocProgram is the program that the test samples. It calls three methods in turn, and spends about the same time in
// each, a few 100 µs per call. The method three makes 3 objects a round. The method one makes 1 object a round and
// computes. The method none only computes. The program prints how much CPU time a turn (a call of each method) takes,
// in µs.
const allocProgram = `
class Made; end
def three(n); i = 0; while i < n; Made.new; Made.new; Made.new; i += 1; end; end
def one(n); i = 0; x = 1; while i < n; Made.new; x = (x * 3 + i) & 0xffff; x = (x * 5 + i) & 0xffff; x = (x * 7 + i) & 0xffff; i += 1; end; end
def none(n); i = 0; x = 1; while i < n; x = (x * 3 + i) & 0xffff; x = (x * 5 + i) & 0xffff; x = (x * 7 + i) & 0xffff; i += 1; end; end
rounds = 3000
turn = lambda { three(rounds); one(rounds); none(rounds * 2) }
cpu = lambda { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :microsecond) }
began = cpu.call
100.times { turn.call }
took = (cpu.call - began) / 100
Thread.new { loop(&turn) }
puts took; $stdout.flush; $stdin.gets`

// allocTime is how long a program is sampled. An instant is a sample in which ddtop has seen new objects. allocWant is
// the greatest number of instants that the test uses. With -short, allocWantShort instants are enough. They still show
// whether ddtop's shares are shares of objects, and not of time. The test waits for allocLeast instants even if this
// takes longer than allocTime.
const (
	allocTime      = 20 * time.Second
	allocWant      = 4000
	allocWantShort = 1500
	allocLeast     = 100
)

// allocTurn is how many objects the program makes in one turn, a call of each method. The test groups turns into
// episodes of allocTurns turns. An episode is longer than the time between two instants.
const (
	allocTurn  = 4 * 3000
	allocTurns = 8
)

// TestAllocationPairs: ddtop charges new objects to the stack that it reads just after their allocation. The program
// makes 75, 25 and 0 % of its objects in three methods, which take equal times. ddtop must find the same shares. The
// allowed error is five points, or the error by chance for this number of instants if that is larger. The weight of an
// instant is its number of objects.
//
// Instants must be independent. So the time between two instants is random, up to two turns, and each place within a
// turn is equally likely. With equal times between the instants, the places came in a fixed order. The shares of
// objects and of time were then up to 7 points wrong together. If the program has only a part of a CPU, many instants
// fall into one turn. The error by chance is then measured from the differences between episodes.
func TestAllocationPairs(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, allocProgram, rubytest.Options{})
		turn, err := strconv.Atoi(p.Line(t))
		if err != nil || turn < 1 {
			t.Fatalf("a turn of %d µs, %v", turn, err)
		}
		apart(t, p.PID)
		reader := openReader(t, p.PID)
		var s sampler.Sample
		objects, ticks := map[string]int64{}, map[string]int64{}
		episodes := map[int64]map[string]int64{} // for each episode, the number of objects by method
		var seen, squares, instants, samples, first, last int64
		wanted := int64(allocWant)
		if rubytest.Short(t) {
			wanted = allocWantShort
		}
		ctx, cancel := context.WithTimeout(context.Background(), allocTime)
		defer cancel()
		between := 2 * time.Duration(turn) * time.Microsecond
		for began := time.Now(); instants < wanted && (ctx.Err() == nil || instants < allocLeast && time.Since(began) < r.Timeout()); {
			time.Sleep(rand.N(between))
			if reader.Read(sampler.LockTick, &s) != nil || !s.GC.Valid {
				continue
			}
			samples++
			if first == 0 {
				first = int64(s.GC.Allocated)
			}
			if int64(s.GC.Allocated) < last {
				t.Fatalf("the counter went back from %d to %d", last, s.GC.Allocated)
			}
			last = int64(s.GC.Allocated)
			name := methodOf(reader.dict, &s)
			ticks[name]++
			if n := int64(s.GC.Pair.Objects); n > 0 {
				objects[name] += n
				seen += n
				squares += n * n
				instants++
				of := last / (allocTurn * allocTurns)
				if episodes[of] == nil {
					episodes[of] = map[string]int64{}
				}
				episodes[of][name] += n
			}
		}
		if instants < allocLeast {
			rubytest.TooSeldomNow(t, "only %d of %d samples saw an allocation", instants, samples)
		}
		report := []string{}
		chance := odds.Within(odds.Effective(float64(seen), float64(squares)))
		for _, w := range []struct {
			name  string
			share float64
		}{{"three", .75}, {"one", .25}, {"none", 0}} {
			got := float64(objects[w.name]) / float64(seen)
			report = append(report, fmt.Sprintf("%s %.1f %% (time %.0f %%)", w.name, 100*got, 100*float64(ticks[w.name])/float64(samples)))
			squares := 0.0 // sum of the squared errors of all episodes
			for _, e := range episodes {
				all := int64(0)
				for _, n := range e {
					all += n
				}
				off := float64(e[w.name]) - w.share*float64(all)
				squares += off * off
			}
			if math.Abs(got-w.share) > max(.05, chance, odds.Deviations*math.Sqrt(squares)/float64(seen)) {
				t.Errorf("%s has %.1f %% of %d objects in %d instants, the program makes %.0f %%", w.name, 100*got, seen, instants, 100*w.share)
			}
		}
		if other := seen - objects["three"] - objects["one"] - objects["none"]; float64(other)/float64(seen) > chance {
			t.Errorf("%d of %d objects elsewhere: %v", other, seen, objects)
		}
		rubytest.Report(t, "allocations by stack, ruby %s: %s of %d objects seen in %d of %d samples; truth 75, 25, 0 %%", r.Version,
			strings.Join(report, ", "), seen, instants, samples)
	})
}

// methodOf returns which of the program's methods runs. This is the innermost one of them on the stack of the thread
// that holds the GVL.
func methodOf(d *sampler.Dictionary, s *sampler.Sample) string {
	for i := range s.Threads {
		if s.Threads[i].ID != s.GC.Pair.Thread {
			continue
		}
		for _, id := range d.Frames(s.Threads[i].Stack, nil) {
			switch f := d.Frame(id); f.Name {
			case "three", "one", "none":
				return f.Name
			}
		}
		return "elsewhere"
	}
	return "nobody"
}
