package account

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestLengthsOnAFullMachine: without a free CPU, ddtop reads stacks only 20 to 30 times per second, and some readings
// lack requests. Each quantile of a route's lengths must still be right, within the possible error that is shown with
// the quantile.
func TestLengthsOnAFullMachine(t *testing.T) {
	const ms = int64(gvltest.MS)
	routes := []struct {
		name         string
		fromMS, toMS int64
	}{{"GET orders#index", 100, 240}, {"GET orders#show", 40, 90}, {"GET reports#show", 250, 900}}
	for _, part := range []float64{0, .2, .4} {
		y, rng := newRequestStory(), rand.New(rand.NewPCG(29, uint64(part*10)))
		type thread struct {
			work            sampler.Work
			beginNS, endNS  int64
			lookedNS, route int64
			found           bool
			unread          bool
		}
		threads := make([]thread, 8)
		truth := make([][]int64, len(routes))
		number := sampler.WorkNumber(0)
		y.also = func(s *sampler.Sample) {
			s.Threads = s.Threads[:0]
			for i := range threads {
				x := &threads[i]
				for x.endNS <= s.TimeNS { // the next request, after a rest
					x.route = rng.Int64N(int64(len(routes)))
					of := routes[x.route]
					length := (of.fromMS + rng.Int64N(of.toMS-of.fromMS)) * ms
					x.beginNS = max(x.endNS, gvltest.Base) + rng.Int64N(120*ms)
					x.endNS, x.found = x.beginNS+length, false
					number++
					x.work = sampler.Work{Number: number, Kind: sampler.WorkRequest, Endpoint: of.name}
					truth[x.route] = append(truth[x.route], length)
				}
				th := gvltest.Answered(gvltest.Released(sampler.ThreadID(i+1)), s.TimeNS, "read", 3, y.peer)
				th.Quality |= sampler.StackFresh
				// Failures come in series: if a sample could not read a thread, the next sample often cannot either.
				if x.unread = rng.Float64() < part*.4 || x.unread && rng.Float64() < part*2; x.unread {
					th.Quality |= sampler.WorkUnknown
				} else {
					if s.TimeNS >= x.beginNS {
						if !x.found {
							x.found, x.work.SinceNS, x.work.BeforeNS = true, s.TimeNS, x.lookedNS
						}
						th.Serving.Work = y.dict.InternWork(x.work)
					}
					x.lookedNS = s.TimeNS
				}
				s.Threads = append(s.Threads, th)
			}
		}
		for range 12000 {
			y.atNS += 20*ms + rng.Int64N(20*ms)
			y.ticks(1)
		}
		for i, of := range routes {
			slices.Sort(truth[i])
			list := y.endpoints()
			at := slices.IndexFunc(list, func(e Endpoint) bool { return e.Name == of.name })
			if at < 0 {
				t.Fatalf("%s is missing", of.name)
			}
			e := &list[at]
			n, _ := e.Durations.Count()
			bound := e.Slack()
			if bound == 0 {
				bound = e.SlackNS
			}
			for _, q := range []float64{.1, .5, .95, .99} {
				got, want := e.Durations.Quantile(q), truth[i][int(q*float64(len(truth[i])))]
				if got < want-bound-want/32 || got > want+bound+want/32 {
					t.Errorf("%.0f %% unread, %s: p%.0f of %d is %d ms ± %d, of %d in truth %d", 100*part, of.name, 100*q, n,
						got/ms, bound/ms, len(truth[i]), want/ms)
				}
			}
			if n < 500 {
				t.Errorf("%.0f %% unread, %s: %d lengths of %d", 100*part, of.name, n, len(truth[i]))
			}
		}
	}
}
