package pushing

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/push/status"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

const (
	// maxServices limits how many services are counted separately. All further services are counted together, under the
	// name otherServices.
	maxServices   = 64
	otherServices = "(other)"
	// rotateNS is the interval at which old waits are dropped, in ns, so that the 99th percentile covers only recent
	// waits. A wait stays for one to two intervals.
	rotateNS = int64(time.Minute)
)

// TellAt starts to serve push's status page on a listener. stop ends this.
func (p *Pushing) TellAt(l net.Listener, loopback bool) (stop func()) {
	p.services = newServiceFigures()
	s := status.Serve(l, loopback, func() *status.Figures {
		f := &status.Figures{Version: p.version, CPUNS: -1, Destinations: p.pusher.Stats()}
		f.Services, f.Processes = p.services.read()
		if p.Exact != nil {
			f.Exact = p.Exact()
		}
		p.Watch.tell(f)
		if ns, err := kernel.SelfCPU(); err == nil {
			f.CPUNS = ns
		}
		return f
	})
	return func() {
		done, cancel := context.WithCancel(context.Background())
		cancel() // Close must not wait for clients, because ddtop must end in time
		_ = s.Close(done)
	}
}

// serviceFigures sums up the figures of the processes of each service. The status page (--status) shows them. Any
// goroutine may call its methods.
type serviceFigures struct {
	mu   sync.Mutex
	all  map[string]*service
	live int
}

// service has the figures of one service. The mutex of serviceFigures guards it.
type service struct {
	status.Service
	// The field now has the waits since turnNS. The field before has the waits of the interval that ended at turnNS.
	// Each wait counts with the length that is certain (gvl.Wait.SureNS), which is a lower bound.
	now, before gvl.Histogram
	// qualityNow and qualityBefore are the quality of the samples from which the waits in now and before come.
	qualityNow, qualityBefore sampler.Quality
	turnNS                    int64
	// queues has, for each process, how many connections and requests wait until the process accepts them.
	queues map[*processFigures]*sampler.Queues
	// left is the time at which the last process of the service ended. It is the zero time if the service has a
	// process.
	left time.Time
}

// joined counts a new process of the service. The method ended subtracts a process that has ended.
func (s *service) joined() {
	s.Processes++
	s.left = time.Time{}
}

func (s *service) ended() {
	if s.Processes--; s.Processes == 0 {
		s.left = time.Now()
	}
}

// forgetAfter is how long the status page still shows a service after its last process has ended. It is longer than the
// time between two reads of the status page by Prometheus, which can be minutes.
const forgetAfter = 15 * time.Minute

// forget drops the services whose last process ended more than forgetAfter ago. room is true if the caller wants to add
// a service. If there are already maxServices services, forget then also drops the one that has had no process for the
// longest time.
func (f *serviceFigures) forget(room bool) {
	var oldest *service
	for name, s := range f.all {
		switch {
		case s.Processes > 0 || s.left.IsZero():
		case time.Since(s.left) > forgetAfter:
			delete(f.all, name)
		case oldest == nil || s.left.Before(oldest.left):
			oldest = s
		}
	}
	if room && len(f.all) >= maxServices && oldest != nil {
		delete(f.all, oldest.Name)
	}
}

func newServiceFigures() *serviceFigures {
	return &serviceFigures{all: make(map[string]*service)}
}

func (f *serviceFigures) of(name string) *service {
	if s, ok := f.all[name]; ok {
		return s
	}
	f.forget(true)
	if len(f.all) >= maxServices {
		name = otherServices
		if s, ok := f.all[name]; ok {
			return s
		}
	}
	s := &service{Service: status.Service{Name: name}, queues: make(map[*processFigures]*sampler.Queues)}
	f.all[name] = s
	return s
}

// join adds a process to a service. processFigures.leave removes it.
func (f *serviceFigures) join(name string) *processFigures {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live++
	p := &processFigures{all: f, of: f.of(name)}
	p.of.joined()
	return p
}

// read returns the services' figures for the status page, sorted by name, and the number of processes.
func (f *serviceFigures) read() (out []status.Service, processes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(false)
	for _, s := range slices.SortedFunc(maps.Values(f.all), func(a, b *service) int { return cmp.Compare(a.Name, b.Name) }) {
		var waits gvl.Histogram
		waits.Merge(&s.before)
		waits.Merge(&s.now)
		one := s.Service
		if n, _ := waits.Count(); n > 0 {
			one.P99NS = waits.Quantile(0.99)
		}
		quality := s.qualityBefore
		quality.Add(&s.qualityNow)
		one.TooFew = quality.SpanNS > 0 && quality.Lacks(sampler.FigureWaits) != ""
		one.Backlog, one.BacklogKnown = s.backlog()
		out = append(out, one)
	}
	return out, f.live
}

// backlog returns how many connections and requests wait for a thread of the service. Worker processes that share a
// listening socket also share its queue, so backlog counts such a queue only once.
func (s *service) backlog() (n int64, known bool) {
	seen := make(map[uint64]bool)
	for _, q := range s.queues {
		all, ok := q.Backlog()
		if !ok {
			continue
		}
		n, known = n+all, true
		for _, l := range q.Accept.Listeners {
			if seen[l.Inode] {
				n -= l.Queued
			}
			seen[l.Inode] = true
		}
	}
	return n, known
}

// processFigures adds the waits, holds and other figures of one process to its service. It is a gvl.Consumer.
type processFigures struct {
	gvl.Ignore
	all    *serviceFigures
	of     *service
	lastNS int64 // time of the last sample in this period; zero if none
	// quality is the quality of all samples since ddtop found the process.
	quality account.QualityMeter
}

// begin begins the next period of the process's profiles. name is the process's service, which may have changed.
func (p *processFigures) begin(name string) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.lastNS = 0
	if s := p.all.of(name); s != p.of {
		delete(p.of.queues, p)
		p.of.ended()
		s.joined()
		p.of = s
	}
}

func (p *processFigures) leave() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	delete(p.of.queues, p)
	p.of.ended()
	p.all.live--
}

// Interval adds an interval of a thread's time to the figures.
func (p *processFigures) Interval(i *gvl.Interval) {
	ns := i.ToNS - i.FromNS
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	switch {
	case i.State == gvl.Waiting:
		p.of.WaitingNS += ns
	case i.State.Held():
		p.of.HeldNS += ns
	}
}

// Lock adds the time in which threads that no sample has listed held or wanted a GVL. Such threads have no intervals,
// so Interval does not count them.
func (p *processFigures) Lock(i *gvl.LockInterval) {
	if i.Unlisted == (gvl.Unlisted{}) {
		return
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.of.WaitingNS += i.Unlisted.Waiters * i.NS()
	if i.Unlisted.Holds {
		p.of.HeldNS += i.NS()
	}
}

// Collecting adds an interval of the garbage collector's time.
func (p *processFigures) Collecting(i *gvl.GCInterval) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.of.GCNS += i.NS()
}

// Waited adds an ended wait.
func (p *processFigures) Waited(w *gvl.Wait) {
	if w.InProgress {
		return // a later call reports this wait again, when it has ended or in the next period
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	s := p.of
	s.rotate(w.ToNS)
	s.Waits[status.Bucket(w.MostNS)]++
	s.WaitsNS += w.MostNS
	s.now.Add(w.SureNS())
}

// Tick adds a sample.
func (p *processFigures) Tick(k *gvl.Tick) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.lastNS != 0 && k.TimeNS > p.lastNS {
		p.of.ObservedNS += k.TimeNS - p.lastNS
	}
	p.lastNS = k.TimeNS
	if q := k.Sample.Queues; q != nil {
		p.of.queues[p] = q
	}
	p.of.rotate(k.TimeNS)
	before := p.quality.Quality
	p.quality.Tick(k)
	added := p.quality.Since(&before)
	p.of.qualityNow.Add(&added)
}

// rotate begins a new interval of waits every rotateNS. It keeps the waits of the previous interval and drops older
// ones.
func (s *service) rotate(nowNS int64) {
	switch {
	case s.turnNS == 0:
		s.turnNS = nowNS
	case nowNS-s.turnNS >= 2*rotateNS:
		s.before.Reset()
		s.now.Reset()
		s.qualityBefore, s.qualityNow = sampler.Quality{}, sampler.Quality{}
		s.turnNS = nowNS
	case nowNS-s.turnNS >= rotateNS:
		s.now, s.before = s.before, s.now
		s.now.Reset()
		s.qualityBefore, s.qualityNow = s.qualityNow, sampler.Quality{}
		s.turnNS = nowNS
	}
}
