// Package growth finds the classes whose number of objects grows, by comparing successive counts of the heap.
//
// Only old objects are compared, because young objects come and go. Some old objects are garbage, which stays until a
// major collection. So growth is certain only after several major collections, if each one leaves more objects of the
// class than the one before. Until then, a class that grows all the time is reported as unconfirmed.
package growth

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxPoints limits how many counts of the heap are kept. If there are more, every second count is dropped.
	maxPoints = 256
	// minSteps is how many steps are needed before a class is reported. A step is from one count to the next. minMajors
	// is how many major collections are needed before its growth is confirmed. If classes go up and down at random,
	// hardly one in ten thousand rises in so many steps by chance (TestGrowthOfMany).
	minSteps, minMajors = 5, 7
	// riseShare is the share of the steps in which a growing class must rise. A step is a rise only if its rate is at
	// least steadyShare of the average rate. So a cache that filled up at the beginning is not reported.
	riseShare, steadyShare = 0.85, 0.25
	// minRise (in objects) and minRate (in objects per second) are the smallest growth for which a class is reported.
	minRise, minRate = 20, 0.5
	// leakNS is how long a class must grow to be reported as a leak, in ns. Most caches are full after this time. Also,
	// the growth must not slow down: in the last third of the time, its rate must be at least leakPace times the rate
	// in the first third.
	leakNS, leakPace = int64(5 * 60e9), 0.7
	// fullShare decides when a class is treated as a full cache, which has stopped growing. Such a class may still grow
	// by its size divided by fullShare.
	fullShare = 100
)

// Class is a Ruby class whose number of objects grows.
type Class struct {
	Name string
	// From and To are the numbers of old objects at the first and the last count. If Confirmed is true, these numbers
	// contain no garbage.
	From, To uint64
	// PerSecond is the growth in objects per second. BytesPerSecond is the same growth in bytes, computed from the
	// present mean size of the objects.
	PerSecond, BytesPerSecond float64
	// Confirmed means that several major collections have run, and each left more objects than the one before.
	Confirmed bool
	// Leak means that the class has grown for five minutes and does not slow down. A cache that is still filling looks
	// the same, but usually for a shorter time.
	Leak bool
	// StoppedNS is when the class stopped growing, CLOCK_MONOTONIC in ns. It is zero while the class grows.
	StoppedNS int64
	// atNS is the time of the last count in which the class grew.
	atNS int64
}

// Watch compares successive counts of the heap. Its zero value has no counts.
type Watch struct {
	points []point
	// seen is the number of all counts. It includes counts that cannot be compared, because no collection ran or
	// objects moved.
	seen            int
	firstNS, lastNS int64
	last            *sampler.HeapCount
	// growing are the classes that grow now. stopped has, by name, the classes that have stopped growing, if their
	// growth was confirmed.
	growing []Class
	stopped map[string]Class
	// restNS is for classes that have stopped growing. It is the time of the last count at which the class had not yet
	// begun to grow again. Only later counts are used to find out whether the class grows again.
	restNS map[string]int64
}

// point is a count of the heap that can be compared with the previous point, because at least one collection ran
// between them. Objects become old only in a collection. So without a collection, the number of old objects cannot show
// growth.
type point struct {
	ns                  int64
	collections, majors uint64
	old                 map[string]uint64
}

// Add adds the next count of the heap. It ignores a count during which objects moved (Compacted).
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

// follow finds the classes that grow now. The parameter before has the classes that grew at the previous count. follow
// notes which of these have stopped growing.
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

// SpanNS returns the time from the first count to the last, in ns.
func (w *Watch) SpanNS() int64 { return w.lastNS - w.firstNS }

// Enough reports whether enough counts were compared to tell if a class grows.
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

// Stopped returns the classes that have stopped growing, such as full caches. The one that stopped last comes first.
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

// afterMajors returns, for each major collection, the index of the first count after it. It leaves out all other
// counts, because they can contain much garbage.
func (w *Watch) afterMajors() (list []int) {
	list = []int{}
	for i := 1; i < len(w.points); i++ {
		if w.points[i].majors != w.points[i-1].majors {
			list = append(list, i)
		}
	}
	return list
}

// series is the number of a class's old objects over time, without objects that disappear later. For this, a value that
// is larger than a later value is lowered to the later value.
type series struct {
	ns     []int64
	values []uint64
	// drop is the largest decrease from one value to the next, before any value is lowered.
	drop uint64
}

// series returns the number of a class's old objects over time. The parameter at has the indices of the points to use.
// If at is nil, series uses all points. If at has many points, series uses only the smallest value of several
// neighbours, which has the least garbage.
func (w *Watch) series(name string, at []int) (s series) {
	n, index := len(w.points), func(i int) int { return i }
	together, first := 1, 0
	if at != nil {
		n, index = len(at), func(i int) int { return at[i] }
	}
	// skip the points from before the class stopped growing
	for first < n && w.points[index(first)].ns < w.restNS[name] {
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

// rate returns the growth in objects per second, from the first point to the last.
func (s *series) rate() float64 {
	last := len(s.values) - 1
	if last < 1 || s.ns[last] <= s.ns[0] {
		return 0
	}
	return float64(s.values[last]-s.values[0]) * 1e9 / float64(s.ns[last]-s.ns[0])
}

// leaks reports whether the number of objects has grown for at least leakNS and does not slow down.
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

// rises reports whether the series grows all the time. Its growth in total must be at least as large as its largest
// drop.
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
