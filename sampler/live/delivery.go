package live

import (
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/handover"
)

// delivery adds changes of the GVL to samples and emits the samples. This happens in the goroutine that called Run, and
// not in the clock's goroutine.
type delivery struct {
	mode     *exactMode
	switched *switchMode
	emit     func(*sampler.Sample)
	// first starts work that may be slow. It is called just before the first sample is emitted, and set to nil.
	first func()
	// The field from is the run of exact mode. switches is the run that follows thread switches. Each is nil if it is
	// not used.
	from     *exactRun
	switches *switchRun
}

// fetch reads the new records of probes and of thread switches.
func (d *delivery) fetch() {
	if d.from = d.mode.now.Load(); d.from != nil {
		d.from.look()
	}
	if d.switches = d.switched.now.Load(); d.switches != nil {
		d.switches.look()
	}
}

// ready reports whether all changes of the GVL up to the time ns are known, or will never be known.
func (d *delivery) ready(ns int64) bool { return d.behind(ns) <= 0 }

// behind returns how long it takes, in ns, until all changes of the GVL up to the time ns can be known. It is zero or
// less if no wait is needed.
func (d *delivery) behind(ns int64) int64 {
	var behind int64
	if d.from != nil {
		behind = d.from.behind(ns)
	}
	if d.switches != nil {
		behind = max(behind, d.switches.behind(ns))
	}
	return behind
}

// wait waits until all changes of the GVL up to a time are known, which takes some milliseconds. It is for the time
// after the clock has ended.
func (d *delivery) wait(ns int64) {
	if x := d.mode.now.Load(); x != nil {
		x.withoutClock()
	}
	if x := d.switched.now.Load(); x != nil {
		x.withoutClock()
	}
	for d.fetch(); !d.ready(ns); d.fetch() {
		time.Sleep(time.Duration(d.behind(ns)))
	}
}

// deliver adds the changes of the GVL to a sample and passes the sample to emit.
func (d *delivery) deliver(s *handover.Sample) {
	if d.first != nil {
		d.first()
		d.first = nil
	}
	if d.from != nil {
		d.from.fill(&s.Sample, s.List)
	}
	if d.switches != nil {
		d.switches.fill(&s.Sample, s.List, !s.Changes.Known()) // changes from the probes are more exact
	}
	d.emit(&s.Sample)
}

// listing is the last list of threads, which maps each thread's address in memory to its ID (listThreads).
type listing struct {
	list *exact.List
	// number is the version of the reader's thread list. incomplete is true if a thread had no native thread yet.
	number     uint64
	incomplete bool
}

// listThreads updates the list that maps addresses of threads to their IDs, because changes of the GVL name threads by
// address. If wanted is false, listThreads drops the list. Only the clock calls listThreads.
func (s *sampling) listThreads(wanted bool) {
	l := &s.listing
	if !wanted {
		*l = listing{}
		return
	}
	known := l.number
	if l.incomplete {
		known = 0
	}
	began := false
	l.number = s.reader.Listed(known, func(n int, addr attach.Address, id sampler.ThreadID, tid int32) {
		if !began {
			began = true
			l.list, l.incomplete = exact.NewList(n), false
		}
		l.list.Add(uint64(addr), id, tid)
		l.incomplete = l.incomplete || tid == 0
	})
}
