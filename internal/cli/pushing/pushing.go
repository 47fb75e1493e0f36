// Package pushing implements `ddtop push`. It follows processes, and for each process it sends a profile of each
// period, such as a minute.
package pushing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/status"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/live/group"
)

const (
	// askEvery is how often ddtop reads the tags that a process publishes about itself.
	askEvery = time.Minute
	// heapPeriods is the number of profiles (periods) from one count of live objects to the next.
	heapPeriods = 5
	// maxFinished limits how many measured periods wait until they are encoded as profiles.
	maxFinished = group.MaxProcesses
)

// Pushing is one run of `ddtop push`.
type Pushing struct {
	pusher *push.Pusher
	log    *slog.Logger
	period time.Duration
	tags   push.Tags
	// version is the version of ddtop.
	version string

	services *serviceFigures // nil if figures are not wanted
	// Exact returns the state of exact mode. It is nil if the user did not ask for exact mode.
	Exact func() *status.Exact
	// Watch handles the findings about the processes. It is nil if ddtop does not watch for findings.
	Watch *Watch
	// Heaps counts live objects. It is nil if the user does not want these counts.
	Heaps *heaps.Readers
	// Redact is true if ddtop replaces names by pseudonyms. If so, it also drops the tags that a process publishes,
	// except keptTags.
	Redact bool

	finished chan finishedPeriod
	encoded  chan struct{} // closed when all profiles have been passed on
	joined   int           // the number of processes so far
}

type finishedPeriod struct {
	of *pushed
	m  profile.Measured
	// ended is how many requests and jobs ended in the period. The key is the route or class.
	ended map[string]int64
}

type pushed struct {
	src     *live.Source
	version string
	redact  bool
	// hasEnvironment is true if ddtop has read the process's environment. Only the goroutine that calls describe uses
	// it.
	hasEnvironment bool
	tags           atomic.Pointer[push.Tags]
	// attached is the wall-clock time at which ddtop attached. It is nil until onClock is first called.
	attached atomic.Pointer[time.Time]
	// heap is the latest count of live objects, or nil if a profile with this count was already sent.
	heap atomic.Pointer[export.Heap]
	// counted is the latest count of live objects, whether it was sent or not. It is nil before the first count.
	counted atomic.Pointer[export.Heap]
	seq     int // number of the next profile; only the encoding goroutine uses it
}

// New returns a Pushing that sends its profiles through a Pusher.
func New(pusher *push.Pusher, log *slog.Logger, period time.Duration, tags push.Tags, version string) *Pushing {
	return &Pushing{
		pusher: pusher, log: log, period: period, tags: tags, version: version,
		finished: make(chan finishedPeriod, maxFinished), encoded: make(chan struct{}),
	}
}

// Run follows the processes of a group and sends their profiles until ctx ends. It also returns if all processes have
// ended and no new one can come.
func (p *Pushing) Run(ctx context.Context, g sampler.Group) error {
	go p.encode()
	telling, stopTelling := context.WithCancel(ctx)
	defer stopTelling()
	go run.KeepTelling(telling, g, func(r sampler.Relative) {
		p.log.Warn("a process can't be followed", "pid", r.PID, "program", r.Title, "why", r.Why)
	})
	go p.Watch.step(telling)
	followed, err := sampler.FollowEach(ctx, g, func(src sampler.Source) func() {
		one := &pushed{src: src.(*live.Source), version: p.version, redact: p.Redact}
		first := p.firstPeriod()
		return func() { p.follow(ctx, one, first) }
	})
	if errors.Is(err, sampler.ErrEnded) {
		err = nil
		p.log.Info("all processes have ended")
	}
	end, cancel := run.Ending(ctx)
	defer cancel()
	all := make(chan struct{})
	go func() {
		<-followed
		close(p.finished)
		<-p.encoded
		close(all)
	}()
	select {
	case <-all:
	case <-end.Done():
		p.log.Warn("the last profiles of some processes are lost: reading them has not come back")
	}
	stopTelling()
	p.Watch.finish()
	var closing sync.WaitGroup // close both at the same time, so that a destination that hangs does not delay the other
	closing.Go(func() { p.Watch.close(end, p.log) })
	closing.Go(func() { p.pusher.Close(end) })
	closing.Wait()
	return err
}

// firstPeriod returns the length of the first period of a process. It differs from process to process. So processes
// that ddtop finds at the same time do not all send their profiles at the same time.
func (p *Pushing) firstPeriod() time.Duration {
	// the golden ratio, because the fractional parts of its multiples are evenly spread
	const golden = 0.618033988749895
	part := math.Mod(float64(p.joined)*golden, 1)
	p.joined++
	return p.period - time.Duration(part*float64(p.period)/2)
}

// follow measures one process until it or ctx ends.
func (p *Pushing) follow(ctx context.Context, one *pushed, first time.Duration) {
	info := one.src.Process()
	log := p.log.With("pid", info.PID, "program", info.Title)
	log.Info("following", "ruby", info.RubyVersion)
	one.describe(p.tags)
	running, stop := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { one.keepAsking(running, p.tags) })
	if p.Heaps != nil {
		asking.Go(func() { p.keepCounting(running, one, log) })
	}
	cut := run.NewPeriods(one.src, run.Needs{Spans: true}, p.period, first, func(m profile.Measured, ended map[string]int64) {
		m.Heap = one.heap.Swap(nil)
		select {
		case p.finished <- finishedPeriod{one, m, ended}:
		default:
			log.Error("a profile is lost: the machine is too full to encode it")
		}
	})
	if p.services != nil {
		figures := p.services.join(one.service())
		defer figures.leave()
		cut.Also = func() gvl.Consumer {
			figures.begin(one.service())
			return figures
		}
	}
	watched := p.Watch.join(one, log)
	cut.Beside = watched.feed
	said := false
	err := one.src.Run(running, func(s *sampler.Sample) {
		if why := one.src.Running.Failed(); why != "" && !said {
			said = true
			log.Warn("no C functions of running threads", "why", why)
		}
		if err := cut.Feed(s); err != nil {
			stop(err)
		}
	})
	err = cmp.Or(err, failure(running))
	end, ended := one.src.End()
	watched.leave(ctx.Err() != nil, ended)
	cut.Finish()
	stop(nil)
	asking.Wait()
	switch {
	case ended:
		log.Info("it has ended", "how", end.Reason)
	case errors.Is(err, sampler.ErrGaveWay):
		log.Info("it makes room for a process of another user")
	case err != nil && !errors.Is(err, sampler.ErrEnded):
		log.Warn("it can't be read any more", "err", err)
	}
}

// failure returns the error with which ddtop itself ended a context. It returns nil if the context ended because its
// parent context ended.
func failure(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// service returns the name of the service that the process publishes.
func (one *pushed) service() string { return one.tags.Load().Get("service") }

// keepAsking reads the process's tags again every askEvery, because a process publishes more about itself after it is
// configured.
func (one *pushed) keepAsking(ctx context.Context, given push.Tags) {
	run.Every(ctx, askEvery, func(time.Time) { one.describe(given) })
}

// keepCounting counts the live objects of a process every heapPeriods periods. The profile of the period in which a
// count ends contains the count.
func (p *Pushing) keepCounting(ctx context.Context, one *pushed, log *slog.Logger) {
	info, said := one.src.Process(), false
	count := func(time.Time) {
		c, _, err := p.Heaps.Of(info.PID).Count(ctx, false)
		switch {
		case err == nil:
			h := export.NewHeap(info, c, nil)
			one.heap.Store(h)
			one.counted.Store(h)
		case ctx.Err() == nil && !said:
			said = true
			log.Warn("no live objects", "why", err)
		}
	}
	count(time.Time{})
	run.Every(ctx, heapPeriods*p.period, count)
	if err := p.Heaps.Forget(info.PID); err != nil {
		log.Warn("a process was not closed cleanly", "err", err)
	}
}

// keptTags are the tags that a process publishes and that --redact does not remove, because destinations group profiles
// by them.
var keptTags = []string{"service", "env", "version", "runtime-id"}

// describe makes the tags of the process. It leaves out values that it cannot read.
func (one *pushed) describe(given push.Tags) {
	info := one.src.Process()
	f := push.Facts{Process: pushProcess(info), StartTicks: info.StartTicks, Host: info.Host, Platform: info.Machine + "-linux", Version: one.version, Given: given}
	names := 0
	f.Environment, _ = one.src.Environment(func(name string) bool {
		names++
		if one.redact {
			return slices.Contains([]string{"DD_SERVICE", "DD_ENV", "DD_VERSION", "OTEL_SERVICE_NAME"}, name)
		}
		return strings.HasPrefix(name, "DD_") || strings.HasPrefix(name, "OTEL_")
	})
	if names == 0 && one.hasEnvironment {
		// the variables were readable before and are not now, so the process is ending: keep its tags, or it would get
		// the wrong service
		return
	}
	one.hasEnvironment = names > 0
	if !one.redact {
		f.Cgroup, _ = one.src.Cgroups()
	}
	publish := func(key, value string) {
		if !one.redact || slices.Contains(keptTags, key) {
			f.Published = f.Published.With(key, value)
		}
	}
	if c, err := one.src.Published(); err == nil {
		publish("runtime-id", c.RuntimeID)
		for _, a := range c.Attributes {
			publish(cmp.Or(push.ResourceTags[a.Key], a.Key), a.Value)
		}
		for _, t := range c.Tags {
			if key, value, ok := strings.Cut(t, ":"); ok {
				publish(key, value)
			}
		}
	}
	tags := f.Tags()
	one.tags.Store(&tags)
}

// maxClockError limits how far the wall clock may drift from CLOCK_MONOTONIC before ddtop corrects the time of the
// attach. It does not correct a smaller drift, so that each period begins exactly when the previous one ended.
const maxClockError = time.Second

// onClock returns p with two times in the present wall clock: the process's start and the attach. ddtop follows
// processes for weeks. If the clock is set or the machine is suspended meanwhile, profiles would have wrong times
// without this correction.
func (one *pushed) onClock(p sampler.Process) sampler.Process {
	now, last := time.Now(), p.AttachedAt
	if at := one.attached.Load(); at != nil {
		last = *at
	}
	by := attachedBy(last, now, now.Sub(p.AttachedAt))
	one.attached.Store(&by)
	if !p.StartedAt.IsZero() {
		p.StartedAt = p.StartedAt.Add(by.Round(0).Sub(p.AttachedAt.Round(0)))
	}
	p.AttachedAt = by
	return p
}

// attachedBy returns the wall-clock time at which ddtop attached. This is the present wall-clock time, now, less
// elapsed, the time since the attach by CLOCK_MONOTONIC. The parameter at is the previous result. If it is wrong by
// less than maxClockError, attachedBy returns it again.
func attachedBy(at, now time.Time, elapsed time.Duration) time.Time {
	by := now.Add(-elapsed)
	if by.Round(0).Sub(at.Round(0)).Abs() < maxClockError {
		return at
	}
	return by
}

func pushProcess(p sampler.Process) push.Process {
	return push.Process{PID: p.PID, Title: flamegraph.Printable(p.Title), RubyVersion: p.RubyVersion, StartedAt: p.StartedAt,
		StartTicks: p.StartTicks}
}

// encode turns the measured periods into profiles, one after the other, and passes the profiles to the pusher.
func (p *Pushing) encode() {
	defer close(p.encoded)
	for f := range p.finished {
		f.m.Process = f.of.onClock(f.m.Process)
		period := push.Period{Process: pushProcess(f.m.Process), From: f.m.Process.WallTime(f.m.Weights.FromNS), To: f.m.Process.WallTime(f.m.Weights.ToNS), Seq: f.of.seq}
		f.of.seq++
		period.Tags = *f.of.tags.Load()
		for endpoint, n := range f.ended { // use the same names as the profile's labels
			if period.Ended == nil {
				period.Ended = make(map[string]int64)
			}
			period.Ended[flamegraph.Printable(endpoint)] += n
		}
		var b bytes.Buffer
		if err := profile.WriteProfile(&b, f.m); err != nil {
			p.log.Error("a profile is lost", "pid", period.Process.PID, "err", err)
			continue
		}
		period.Pprof = b.Bytes()
		p.pusher.Add(&period)
	}
}
