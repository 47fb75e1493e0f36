package findingstest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// endings has, for each program of testdata/ending, the words that the finding must contain. All of these programs hang
// when they should end.
var endings = map[string][]string{
	"fork":      {"Program does not end", "its main thread ended", "waits for 1 other thread; poster: parked"},
	"hook":      {"Program does not end", "at_exit hook or a finalizer", "Thread#join (script.rb:", "late: sleeping"},
	"finalizer": {"Program does not end", "at_exit hook or a finalizer", "Kernel#sleep (script.rb:"},
	"handler":   {"Handler does not return", "has interrupted the main thread", "work: sleeping"},
	"unwinds":   {"Program does not end", "exit or a signal ends the main thread's code", "worker: sleeping"},
	"sidekiq":   {"shutting down for", "1 thread at work; processor: sleeping", "HardJob#perform"},
	"puma":      {"Program does not end", "at work; puma srv tp 001: io", "OrdersController#render"},
}

// TestEnding: if a program does not end although it should, the finding names what keeps it from ending.
func TestEnding(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	programs := names(t, "ending")
	for name, words := range endings {
		if !slices.Contains(programs, name) {
			t.Errorf("there is no testdata/ending/%s.rb", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := load(t, r, "ending/"+name)
				pid := p.PID
				if child, ok := strings.CutPrefix(p.Line(t), "pid "); ok {
					pid, _ = strconv.Atoi(child)
				}
				s := watch(t, pid, nil, raiseTime, says("ending", words), func(_ *live.Source, n int) {
					if n == seenSamples {
						p.Send(t, "end")
					}
				})
				checkRaised(t, s, "ending", raised{words: words})
			})
		})
	}
}

// TestEndingSeenLate: a program hangs in a hook at its end. ddtop finds this even if it attaches after the program has
// begun to hang.
func TestEndingSeenLate(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	p := start(t, rubytest.One(t), "ending/hook")
	p.Send(t, "end")
	s := watch(t, p.PID, nil, raiseTime, is("ending"), nil)
	checkRaised(t, s, "ending", raised{words: endings["hook"]})
}
