package account

import (
	"encoding/json"
	"math"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// QualityMeter adds up what figures rest on since the stream began. It is a Consumer.
type QualityMeter struct {
	gvl.Ignore
	sampler.Quality
}

// Tick adds a sample.
func (m *QualityMeter) Tick(k *gvl.Tick) {
	q := k.Quality()
	m.Add(&q)
}

// StatQuality is what the figures of a window rest on.
type StatQuality struct {
	// ApartNS is the mean time between two samples while the process worked, StacksApartNS that between two readings of stacks. ApartNS is zero
	// if changes are known without samples, StacksApartNS if there was no reading.
	ApartNS       int64 `json:"apart_ns"`
	StacksApartNS int64 `json:"stacks_apart_ns"`
	// Lacks says by kind of figure, in a sentence, why its figures are null. It is null if they have their least quality.
	Lacks StatLacks `json:"lacks"`
	// Of is all that it is made of.
	Of sampler.Quality `json:"-"`
}

// StatLacks says what kinds of figures lack (sampler.LeastQualities).
type StatLacks struct {
	States   *string `json:"states"`
	Waits    *string `json:"waits"`
	Stacks   *string `json:"stacks"`
	Requests *string `json:"requests"`
}

// Why says why a kind of figure is not told. It is empty if the figure has its least quality.
func (l *StatLacks) Why(f sampler.Figure) string {
	if p := *l.figure(f); p != nil {
		return *p
	}
	return ""
}

func (l *StatLacks) figure(f sampler.Figure) **string {
	return [sampler.NumFigures]**string{&l.States, &l.Waits, &l.Stacks, &l.Requests}[f]
}

// statQuality says what the figures of a time rest on.
func statQuality(q *sampler.Quality) StatQuality {
	return StatQuality{ApartNS: q.ApartNS(), StacksApartNS: q.StacksApartNS(), Lacks: LacksOf(q), Of: *q}
}

// LacksOf says what figures lack that rest on q.
func LacksOf(q *sampler.Quality) (l StatLacks) {
	for f := range sampler.NumFigures {
		*l.figure(f) = TextOrNil(q.Lacks(f))
	}
	return l
}

// LeaveOut marks the figures of a Stat that have less than their least quality: they are null in JSON.
func (s *Stat) LeaveOut() {
	l := &s.Quality.Lacks
	states, waits := l.States != nil, l.Waits != nil
	for i := range s.GVL {
		g := &s.GVL[i]
		g.low, g.Waits.low, g.Waits.AfterNS.low = states, waits, waits
	}
	for i := range s.Threads {
		t := &s.Threads[i]
		t.NS.low, t.NoCPU.low, t.Waits.low, t.Waits.AfterNS.low = states, states, waits, waits
	}
	s.GC.low = states
	s.Blame.low = waits || l.Stacks != nil
	s.Requests.low = l.Requests != nil
}

// Enough reports whether the times have their least quality: they are not told otherwise.
func (s *StatStates) Enough() bool { return !s.low }

// Enough reports whether the times have their least quality: they are not told otherwise.
func (n *StatNoCPU) Enough() bool { return !n.low }

// Enough reports whether the waits have their least quality: they are not told otherwise.
func (w *StatWaits) Enough() bool { return !w.low }

// MarshalJSON writes null if the times have less than their least quality.
func (s StatStates) MarshalJSON() ([]byte, error) {
	type plain StatStates
	return orNull(s.low, plain(s))
}

// MarshalJSON writes null if the times have less than their least quality.
func (n StatNoCPU) MarshalJSON() ([]byte, error) {
	type plain StatNoCPU
	return orNull(n.low, plain(n))
}

// MarshalJSON writes null if the waits have less than their least quality.
func (w StatWaits) MarshalJSON() ([]byte, error) {
	type plain StatWaits
	return orNull(w.low, plain(w))
}

// MarshalJSON writes null if the waits or the stacks have less than their least quality.
func (b StatBlame) MarshalJSON() ([]byte, error) {
	type plain StatBlame
	return orNull(b.low, plain(b))
}

// MarshalJSON writes null for the share and the mean if they have less than their least quality.
func (g StatGVL) MarshalJSON() ([]byte, error) {
	type plain StatGVL
	if !g.low {
		return json.Marshal(plain(g))
	}
	return json.Marshal(struct {
		plain
		HeldShare   *float64 `json:"held_share"`
		WaitingMean *float64 `json:"waiting_mean"`
	}{plain: plain(g)})
}

// MarshalJSON writes null for the sampled times if they have less than their least quality, and for all that was not read. Counts are Ruby's own.
func (g StatGC) MarshalJSON() ([]byte, error) {
	type plain StatGC
	if !g.Valid {
		return json.Marshal(struct {
			plain
			Count              *uint64       `json:"count"`
			Minor              *uint64       `json:"minor"`
			Major              *uint64       `json:"major"`
			RubyNS             *uint64       `json:"ruby_ns"`
			Allocated          *uint64       `json:"allocated"`
			AllocatedPerSecond *float64      `json:"allocated_per_second"`
			Moved              *uint64       `json:"moved"`
			NS                 *int64        `json:"ns"`
			Share              *float64      `json:"share"`
			PhaseNS            *StatGCPhases `json:"phase_ns"`
		}{plain: plain(g)})
	}
	if !g.low {
		return json.Marshal(plain(g))
	}
	return json.Marshal(struct {
		plain
		NS      *int64        `json:"ns"`
		Share   *float64      `json:"share"`
		PhaseNS *StatGCPhases `json:"phase_ns"`
	}{plain: plain(g)})
}

// MarshalJSON writes null for what was not read twice in the window.
func (p StatProcess) MarshalJSON() ([]byte, error) {
	type plain StatProcess
	read := func(v int64, spanNS int64) *int64 {
		if spanNS <= 0 {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		plain
		UserNS      *int64 `json:"user_ns"`
		SystemNS    *int64 `json:"system_ns"`
		CPUNS       *int64 `json:"cpu_ns"`
		ThrottledNS *int64 `json:"throttled_ns"`
		MajorFaults *int64 `json:"major_faults"`
		Switches    *int64 `json:"context_switches"`
	}{plain(p), read(p.UserNS, p.SpanNS), read(p.SystemNS, p.SpanNS), read(p.CPUNS, p.SpanNS), read(p.ThrottledNS, p.SpanNS),
		read(p.MajorFaults, p.SpanNS), read(p.Switches, p.SwitchesSpanNS)})
}

// MarshalJSON writes null for the times of tasks that the kernel did not tell of, or that were not read twice in the window.
func (p StatPressure) MarshalJSON() ([]byte, error) {
	type plain StatPressure
	if p.Source != sampler.PressureNone.String() && !p.unread {
		return json.Marshal(plain(p))
	}
	return json.Marshal(struct {
		plain
		CPUSomeNS    *int64 `json:"cpu_some_ns"`
		MemorySomeNS *int64 `json:"memory_some_ns"`
		MemoryFullNS *int64 `json:"memory_full_ns"`
		IOSomeNS     *int64 `json:"io_some_ns"`
		IOFullNS     *int64 `json:"io_full_ns"`
	}{plain: plain(p)})
}

// MarshalJSON writes null for the endpoints if their figures have less than their least quality. Requests in progress were seen.
func (r StatRequests) MarshalJSON() ([]byte, error) {
	type plain StatRequests
	if !r.low {
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		plain
		Endpoints []StatEndpoint `json:"endpoints"`
	}{plain: plain(r)})
}

// OrNull is a number that is NaN, and null in JSON, if it is not told.
type OrNull float64

// MarshalJSON writes null for NaN.
func (n OrNull) MarshalJSON() ([]byte, error) { return orNull(math.IsNaN(float64(n)), float64(n)) }

// Told reports whether there is a number.
func (n OrNull) Told() bool { return !math.IsNaN(float64(n)) }

// leaveOut marks the figures of a line that have less than their least quality.
func (l *StatLine) leaveOut() {
	states, waits := l.Lacks.States != nil, l.Lacks.Waits != nil
	if states {
		l.HeldShare, l.WaitingMean = OrNull(math.NaN()), OrNull(math.NaN())
	}
	l.NS.low, l.Waits.low, l.GC.low = states, waits, states
}

// Enough reports whether the waits have their least quality: they are not told otherwise.
func (w *LineWaits) Enough() bool { return !w.low }

// MarshalJSON writes null if the waits have less than their least quality.
func (w LineWaits) MarshalJSON() ([]byte, error) {
	type plain LineWaits
	return orNull(w.low, plain(w))
}

// Enough reports whether the collector's time has its least quality: it is not told otherwise.
func (g *LineGC) Enough() bool { return !g.low }

// MarshalJSON writes null for what was not read, and for the sampled time if it has less than its least quality.
func (g LineGC) MarshalJSON() ([]byte, error) {
	type plain LineGC
	type gc struct {
		plain
		Count *uint64  `json:"count"`
		Minor *uint64  `json:"minor"`
		Major *uint64  `json:"major"`
		NS    *int64   `json:"ns"`
		Share *float64 `json:"share"`
	}
	out := gc{plain: plain(g)}
	if !g.unread {
		out.Count, out.Minor, out.Major = &g.Count, &g.Minor, &g.Major
	}
	if !g.low && !g.unread {
		out.NS, out.Share = &g.NS, &g.Share
	}
	return json.Marshal(out)
}

func orNull(null bool, v any) ([]byte, error) {
	if null {
		return []byte("null"), nil
	}
	return json.Marshal(v)
}
