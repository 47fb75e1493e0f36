package report

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/ddtop/ddtop/sampler"
)

// StatQuality says on how many samples the figures of the measured time are based.
type StatQuality struct {
	// ApartNS is the mean time between two samples while the process worked, in ns. It is zero if ddtop recorded each
	// change of the GVL as it happened, and so did not need samples. StacksApartNS is the mean time between two reads
	// of stacks, in ns. It is zero if stacks were never read.
	ApartNS       int64 `json:"apart_ns"`
	StacksApartNS int64 `json:"stacks_apart_ns"`
	// Lacks says, for each kind of figure that is null, why there were too few samples. The reason is null if there
	// were enough.
	Lacks StatLacks `json:"lacks"`
	// Of is the quality in the form of package sampler. The other fields were computed from it.
	Of sampler.Quality `json:"-"`
}

// StatLacks has a reason for each kind of figure that could not be computed, because there were too few samples
// (sampler.LeastQualities). The reason is null if there were enough samples.
type StatLacks struct {
	States   *string `json:"states"`
	Waits    *string `json:"waits"`
	Stacks   *string `json:"stacks"`
	Requests *string `json:"requests"`
}

// Why returns the reason why figures of a kind are null. It is empty if there were enough samples.
func (l *StatLacks) Why(f sampler.Figure) string {
	if p := *l.figure(f); p != nil {
		return *p
	}
	return ""
}

func (l *StatLacks) figure(f sampler.Figure) **string {
	return [sampler.NumFigures]**string{&l.States, &l.Waits, &l.Stacks, &l.Requests}[f]
}

// QualityOf converts the quality of a set of samples to its form in JSON.
func QualityOf(q *sampler.Quality) StatQuality {
	return StatQuality{ApartNS: q.ApartNS(), StacksApartNS: q.StacksApartNS(), Lacks: LacksOf(q), Of: *q}
}

// LacksOf returns the reasons why q has too few samples for some kinds of figures.
func LacksOf(q *sampler.Quality) (l StatLacks) {
	for f := range sampler.NumFigures {
		*l.figure(f) = TextOrNil(q.Lacks(f))
	}
	return l
}

// enough is embedded in structs of figures. If low is true, there were too few samples, and the figures are null in
// JSON.
type enough struct{ low bool }

// Enough reports whether the figures are based on enough samples.
func (e enough) Enough() bool { return !e.low }

// LeaveOut marks the figures for which there were too few samples. Marked figures are null in JSON.
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

// MarshalJSON writes null if the figures are based on too few samples.
func (s StatStates) MarshalJSON() ([]byte, error) {
	type plain StatStates
	return orNull(s.low, plain(s))
}

// MarshalJSON writes null if the figures are based on too few samples.
func (n StatNoCPU) MarshalJSON() ([]byte, error) {
	type plain StatNoCPU
	return orNull(n.low, plain(n))
}

// MarshalJSON writes null if the figures are based on too few samples.
func (w StatWaits) MarshalJSON() ([]byte, error) {
	type plain StatWaits
	return orNull(w.low, plain(w))
}

// MarshalJSON writes null if the figures are based on too few samples.
func (b StatBlame) MarshalJSON() ([]byte, error) {
	type plain StatBlame
	return orNull(b.low, plain(b))
}

// MarshalJSON writes null for times that come from samples, if the samples were too few.
func (g StatGVL) MarshalJSON() ([]byte, error) {
	type plain StatGVL
	if !g.low {
		return json.Marshal(plain(g))
	}
	return withNulls(plain(g), nulls{"held_share", "waiting_mean", "unheld_ns"}, nil)
}

// MarshalJSON writes null for figures that were not read. It also writes null for times that come from samples, if
// there were too few samples. Counts come from Ruby and do not depend on samples. So they are written whenever they
// were read.
func (g StatGC) MarshalJSON() ([]byte, error) {
	type plain StatGC
	sampled := nulls{"ns", "share", "phase_ns"}
	switch {
	case !g.Valid:
		return withNulls(plain(g), append(nulls{"count", "minor", "major", "ruby_ns", "allocated", "allocated_per_second", "moved"}, sampled...), nil)
	case g.low:
		return withNulls(plain(g), sampled, nil)
	}
	return json.Marshal(plain(g))
}

// MarshalJSON writes null for figures that ddtop read less than twice in the measured time.
func (p StatProcess) MarshalJSON() ([]byte, error) {
	type plain StatProcess
	return withNulls(plain(p), nulls{"user_ns", "system_ns", "cpu_ns", "throttled_ns", "major_faults", "context_switches"}, func(key string) bool {
		return p.SpanNS > 0 && key != "context_switches" || p.SwitchesSpanNS > 0 && key == "context_switches"
	})
}

// MarshalJSON writes null for times that the kernel did not report, or that ddtop read less than twice in the measured
// time.
func (p StatPressure) MarshalJSON() ([]byte, error) {
	type plain StatPressure
	if p.Source != sampler.PressureNone.String() && !p.Unread {
		return json.Marshal(plain(p))
	}
	return withNulls(plain(p), nulls{"cpu_some_ns", "memory_some_ns", "memory_full_ns", "io_some_ns", "io_full_ns"}, nil)
}

// MarshalJSON writes null for the endpoints if there were too few samples to compute their figures. It always writes
// the requests in progress, because ddtop saw each of them.
func (r StatRequests) MarshalJSON() ([]byte, error) {
	type plain StatRequests
	if !r.low {
		return json.Marshal(plain(r))
	}
	return withNulls(plain(r), nulls{"endpoints"}, nil)
}

// OrNull is a number that may be unknown. An unknown number is NaN in Go, and null in JSON.
type OrNull float64

// MarshalJSON writes null for NaN.
func (n OrNull) MarshalJSON() ([]byte, error) { return orNull(math.IsNaN(float64(n)), float64(n)) }

// Told reports whether the number is known, so that it can be shown.
func (n OrNull) Told() bool { return !math.IsNaN(float64(n)) }

// LeaveOut marks the figures of a line for which there were too few samples. Marked figures are null in JSON.
func (l *StatLine) LeaveOut() {
	states, waits := l.Lacks.States != nil, l.Lacks.Waits != nil
	if states {
		l.HeldShare, l.WaitingMean = OrNull(math.NaN()), OrNull(math.NaN())
	}
	l.NS.low, l.Waits.low, l.GC.low = states, waits, states
}

// MarshalJSON writes null if the figures are based on too few samples.
func (w LineWaits) MarshalJSON() ([]byte, error) {
	type plain LineWaits
	return orNull(w.low, plain(w))
}

// MarshalJSON writes null for values that were not read. It also writes null for times that come from samples, if there
// were too few samples.
func (g LineGC) MarshalJSON() ([]byte, error) {
	type plain LineGC
	return withNulls(plain(g), nulls{"count", "minor", "major", "ns", "share"}, func(key string) bool {
		return !g.Unread && (!g.low || key != "ns" && key != "share")
	})
}

// nulls is a list of the JSON keys of figures that can be null.
type nulls []string

// withNulls writes the struct v as JSON. The fields whose JSON names are in keys come last. Such a field is null unless
// the function told returns true for its name. If told is nil, all of these fields are null.
func withNulls(v any, keys nulls, told func(key string) bool) ([]byte, error) {
	x := reflect.ValueOf(v)
	fields := make(map[string]any)
	out := []byte{'{'}
	put := func(key string, v any) error {
		text, err := json.Marshal(v)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, key), ':')
		out = append(out, text...)
		return err
	}
	for i := range x.NumField() {
		key := x.Type().Field(i).Tag.Get("json")
		switch {
		case key == "" || key == "-":
		case slices.Contains(keys, key):
			fields[key] = x.Field(i).Interface()
		default:
			if err := put(key, x.Field(i).Interface()); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range keys {
		v := fields[key]
		if told == nil || !told(key) {
			v = nil
		}
		if err := put(key, v); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

func orNull(null bool, v any) ([]byte, error) {
	if null {
		return []byte("null"), nil
	}
	return json.Marshal(v)
}
