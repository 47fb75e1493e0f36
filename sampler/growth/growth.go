// Package growth finds the classes whose objects become more, by comparing counts of the heap taken one after the
// other.
//
// Only old objects count, because young ones come and go. An old object that is garbage stays until a major collection.
// So a class grows for certain if what is left after each of several major collections becomes more. Until there were
// that many, a class that becomes more all the time is named as unconfirmed.
package growth

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxPoints bounds the counts that are kept. Beyond it every second one is dropped.
	maxPoints = 256
	// minSteps is how many steps between counts it takes to name a class, minMajors how many major collections it takes
	// to confirm it. By chance, hardly one in ten thousand restless classes rises as often (TestGrowthOfMany).
	minSteps, minMajors = 5, 7
	// riseShare is the share of the steps that must rise. A step rises if it has a quarter of the average rate or more
	// (steadyShare): a cache that was filled at the beginning does not grow.
	riseShare, steadyShare = 0.85, 0.25
	// minRise is the least growth, in objects, and minRate the least rate, in objects per second.
	minRise, minRate = 20, 0.5
	// leakNS is how long a class must grow, in ns, to be a leak: most caches are full by then. A leak does not slow
	// down: in the last third it grows at leakPace of the pace of the first third or faster.
	leakNS, leakPace = int64(5 * 60e9), 0.7
	// fullShare is the part of a full cache, one in so many, by which it may still become larger.
	fullShare = 100
)

// Class is a class that grows.
type Class struct {
	Name string
	// From and To are its old objects at the beginning and at the end, without garbage if major collections tell it.
	From, To uint64
	// PerSecond is by how many objects it grows, BytesPerSecond by how many bytes, at their present size.
	PerSecond, BytesPerSecond float64
	// Confirmed means that major collections left more objects each time.
	Confirmed bool
	// Leak means that it has grown for five minutes and does not slow down. Until then a cache that fills looks the
	// same.
	Leak bool
	// StoppedNS is when it was full, CLOCK_MONOTONIC in ns. It is zero while the class grows.
	StoppedNS int64
	// atNS is the time of the last count in which it grew.
	atNS int64
}

// Watch compares counts. Its zero value has none.
type Watch struct {
	points []point
	// seen is the number of counts, with the ones that cannot be compared.
	seen            int
	firstNS, lastNS int64
	last            *sampler.HeapCount
	// growing are the classes that grow now, stopped the ones that were confirmed and ceased to grow, by name.
	growing []Class
	stopped map[string]Class
	// restNS are the times of the last counts in which classes were as full as when they stopped. Each was in stopped.
	restNS map[string]int64
}

// point is a count that can be compared: a collection came between it and the one before, else no object became old.
type point struct {
	ns                  int64
	collections, majors uint64
	old                 map[string]uint64
}

// Add takes the next count. One during which objects moved is left out.
func (w *Watch) Add(c *sampler.HeapCount) {
	if w.seen++; w.seen == 1 {
		w.firstNS = c.BeganNS
	}
	w.lastNS = c.BeganNS
	if c.Compacted {
		return
	}
	w.last = c
	if n := len(w.points); n > 0 && w.points[n-1].collections == c.Collections {
		return
	}
	p := point{ns: c.BeganNS, collections: c.Collections, majors: c.Majors, old: make(map[string]uint64, len(c.Classes))}
	for i := range c.Classes {
		p.old[c.Classes[i].Name] = c.Classes[i].Old
	}
	if len(w.points) == maxPoints {
		for i := range maxPoints / 2 {
			w.points[i] = w.points[2*i]
		}
		w.points = w.points[:maxPoints/2]
	}
	w.points = append(w.points, p)
	w.follow(w.growing, p)
}

// follow finds the classes that grow now, and notes which of the ones before have stopped.
func (w *Watch) follow(before []Class, now point) {
	w.growing = w.named()
	if w.stopped == nil {
		w.stopped, w.restNS = make(map[string]Class), make(map[string]int64)
	}
	for _, k := range w.growing {
		delete(w.stopped, k.Name)
	}
	for name, k := range w.stopped {
		if now.old[name] <= k.To+max(minRise, k.To/fullShare) {
			w.restNS[name] = now.ns
		}
	}
	for _, k := range before {
		grows := slices.ContainsFunc(w.growing, func(g Class) bool { return g.Name == k.Name })
		seconds := float64(now.ns-k.atNS) / 1e9
		if full := float64(k.To) + max(minRise, steadyShare*k.PerSecond*seconds); !grows && k.Confirmed && float64(now.old[k.Name]) <= full &&
			now.old[k.Name] > k.From && len(w.restNS) < sampler.MaxHeapClasses {
			k.Leak, k.StoppedNS = false, now.ns
			w.restNS[k.Name] = now.ns
			w.stopped[k.Name] = k
		}
	}
}

// Counts returns how many counts were taken, and how many of them can be compared.
func (w *Watch) Counts() (taken, compared int) { return w.seen, len(w.points) }

// SpanNS is the time from the first count to the last, in ns.
func (w *Watch) SpanNS() int64 { return w.lastNS - w.firstNS }

// Enough reports whether there are counts enough to name a class that grows.
func (w *Watch) Enough() bool { return len(w.points) > minSteps }

// Majors returns the number of major collections since the first count.
func (w *Watch) Majors() uint64 {
	if len(w.points) == 0 {
		return 0
	}
	return w.points[len(w.points)-1].majors - w.points[0].majors
}

// Classes returns the classes that grow, the one with most bytes per second first.
func (w *Watch) Classes() []Class { return w.growing }

// Stopped returns the classes that grew and have stopped, the one that stopped last first: caches that are full.
func (w *Watch) Stopped() []Class {
	return slices.SortedFunc(maps.Values(w.stopped), func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.StoppedNS, a.StoppedNS), cmp.Compare(a.Name, b.Name))
	})
}

// named finds the classes that grow.
func (w *Watch) named() []Class {
	if !w.Enough() {
		return nil
	}
	after := w.afterMajors()
	var list []Class
	for i := range w.last.Classes {
		k := &w.last.Classes[i]
		if k.Name == sampler.AllocOthers || k.Objects == 0 {
			continue
		}
		left := w.series(k.Name, after)
		grown, sure := w.series(k.Name, nil), len(after) >= minMajors
		if sure {
			grown = left
		}
		if len(grown.values) <= minSteps || !grown.rises() || len(left.values) > 1 && !left.rises() {
			continue
		}
		rate := grown.rate()
		list = append(list, Class{Name: k.Name, From: grown.values[0], To: grown.values[len(grown.values)-1], PerSecond: rate,
			BytesPerSecond: rate * float64(k.Bytes()) / float64(k.Objects), Confirmed: sure, Leak: sure && grown.leaks(),
			atNS: w.points[len(w.points)-1].ns})
	}
	sorting.By(list, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.BytesPerSecond, a.BytesPerSecond), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// afterMajors returns the indices of the first points after each major collection. What came before the first one is
// left out: it may have been full of garbage.
func (w *Watch) afterMajors() (list []int) {
	list = []int{}
	for i := 1; i < len(w.points); i++ {
		if w.points[i].majors != w.points[i-1].majors {
			list = append(list, i)
		}
	}
	return list
}

// series is the old objects of a class over time: each the least of its own and of all later counts, so that what goes
// away again does not count.
type series struct {
	ns     []int64
	values []uint64
	// drop is the largest decrease from one count to the next, before what goes away again was left out.
	drop uint64
}

// series returns the series of a class, at the points with some indices. Nil takes all points. Of many points it takes
// the least of some neighbours: garbage since a collection weighs less then.
func (w *Watch) series(name string, at []int) (s series) {
	n, index := len(w.points), func(i int) int { return i }
	together, first := 1, 0
	if at != nil {
		n, index = len(at), func(i int) int { return at[i] }
	}
	for first < n && w.points[index(first)].ns < w.restNS[name] { // what grows again is judged by what came since
		first++
	}
	if at != nil {
		together = max(1, (n-first)/minMajors)
	}
	for i := first; i+together <= n; i += together {
		p := &w.points[index(i)]
		least := p.old[name]
		for k := i + 1; k < i+together; k++ {
			least = min(least, w.points[index(k)].old[name])
		}
		if last := len(s.values) - 1; last >= 0 && s.values[last] > least {
			s.drop = max(s.drop, s.values[last]-least)
		}
		s.ns, s.values = append(s.ns, p.ns), append(s.values, least)
	}
	for i := len(s.values) - 2; i >= 0; i-- {
		s.values[i] = min(s.values[i], s.values[i+1])
	}
	return s
}

// rate is the growth in objects per second, from the first point to the last.
func (s *series) rate() float64 {
	last := len(s.values) - 1
	if last < 1 || s.ns[last] <= s.ns[0] {
		return 0
	}
	return float64(s.values[last]-s.values[0]) * 1e9 / float64(s.ns[last]-s.ns[0])
}

// leaks reports whether it has grown for long and does not slow down.
func (s *series) leaks() bool {
	last := len(s.values) - 1
	if last < 3 || s.ns[last]-s.ns[0] < leakNS {
		return false
	}
	third := last / 3
	first := series{ns: s.ns[:third+1], values: s.values[:third+1]}
	end := series{ns: s.ns[last-third:], values: s.values[last-third:]}
	return end.rate() >= leakPace*first.rate()
}

// rises reports whether it grows all the time, and by more than it falls at once.
func (s *series) rises() bool {
	last, rate := len(s.values)-1, s.rate()
	if rate < minRate || s.values[last]-s.values[0] < max(minRise, s.drop) {
		return false
	}
	rising := 0
	for i := range last {
		seconds := float64(s.ns[i+1]-s.ns[i]) / 1e9
		if float64(s.values[i+1]-s.values[i]) >= max(1, steadyShare*rate*seconds) {
			rising++
		}
	}
	return float64(rising) >= riseShare*float64(last)
}
