package accuracy

import (
	"context"
	"embed"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/eventlog"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

//go:embed programs/*.rb
var programs embed.FS

// load is a program to measure, and the error that ddtop may make when it samples the program at 1 kHz. The error is in
// percentage points of a thread's share of the window.
type load struct {
	name string
	aim  float64
}

var loads = []load{{"cpu", 0.1}, {"cpu_io", 0.1}, {"short_io", 1}, {"gc", 0.5}, {"mutex_queue", 0.5}}

// worker is a thread of a load.
type worker struct {
	Name string
	TID  int32
}

// running is a running program that executes a load (a kind of work to measure).
type running struct {
	*rubytest.Process
	workers []worker
}

func script(t testing.TB, names ...string) string {
	t.Helper()
	var text []byte
	for _, name := range names {
		b, err := programs.ReadFile("programs/" + name + ".rb")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	return string(text)
}

// start starts a program that executes a load. If logged is true, the program also logs the events of its threads
// (Ruby's own).
func start(t *testing.T, r rubytest.Ruby, name string, logged bool) running {
	t.Helper()
	o := rubytest.Options{Name: name + ".rb"}
	if logged {
		o.Args = []string{"log"}
		o.Env = eventlog.Env("events")
	}
	p := running{Process: r.Start(t, script(t, name, "run"), o)}
	if logged {
		eventlog.Install(t, p.HostDir)
		p.Send(t, "installed")
	}
	var said struct{ Threads []worker }
	p.JSON(t, &said)
	p.workers = said.Threads
	return p
}

// watch samples a process and sums up the samples. It stops at the first sample that is at least d after the first one.
// If each is not nil, watch calls it with every sample and the threads' states.
func watch(t *testing.T, pid int, rate float64, d time.Duration, each func(*sampler.Sample, []gvl.ThreadState)) report.Stat {
	t.Helper()
	return watchWith(t, pid, live.Options{StackRate: min(rate, live.DefaultStackRate), LockRate: rate}, d, each)
}

// watchWith is like watch, but takes the options of live.Open instead of a rate.
func watchWith(t *testing.T, pid int, o live.Options, d time.Duration, each func(*sampler.Sample, []gvl.ThreadState)) report.Stat {
	t.Helper()
	s, err := live.Open(t.Context(), pid, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	measure := measure.New(s.Process(), s.Dictionary(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var first int64
	err = s.Run(ctx, func(sample *sampler.Sample) {
		if ctx.Err() != nil {
			return
		}
		states := measure.Feed(sample)
		if each != nil {
			each(sample, states)
		}
		if first == 0 {
			first = sample.TimeNS
		}
		if sample.TimeNS-first >= int64(d) {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return measure.Stat(0)
}
