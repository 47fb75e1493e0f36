package gvl

import (
	"fmt"

	"github.com/ddtop/ddtop/internal/units"
)

// PlainParts decides when texts show a length as a plain number, without "≤" or "≥". They do so if the two bounds of
// the length differ by at most 1/PlainParts (6 %) of the upper bound. This is about two buckets of a Histogram.
const PlainParts = 16

// Bound says how a shown number relates to the true length: it is equal, an upper bound, or a lower bound.
type Bound uint8

// The kinds of Bound.
const (
	// Exactly means that the length is exact.
	Exactly Bound = iota
	// AtMost means that the number is an upper bound: what looks like one wait may be several waits.
	AtMost
	// AtLeast means that the number is a lower bound: the wait is in progress, or samples did not see one of its ends.
	AtLeast
)

// String returns the word in JSON: "exactly", "at_most" or "at_least".
func (b Bound) String() string {
	switch b {
	case AtMost:
		return "at_most"
	case AtLeast:
		return "at_least"
	}
	return "exactly"
}

// MarshalText writes the word for JSON.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText parses the word in JSON.
func (b *Bound) UnmarshalText(text []byte) error {
	for _, x := range [...]Bound{Exactly, AtMost, AtLeast} {
		if x.String() == string(text) {
			*b = x
			return nil
		}
	}
	return fmt.Errorf("%q is no bound: exactly, at_most or at_least", text)
}

// Sign returns the sign before the number: "", "≤" or "≥".
func (b Bound) Sign() string {
	switch b {
	case AtMost:
		return "≤"
	case AtLeast:
		return "≥"
	}
	return ""
}

// Bounded is a length as texts show it: an exact number, or a bound.
type Bounded struct {
	NS    int64
	Bound Bound
}

// Duration returns the length for a column of a table.
func (f Bounded) Duration() string { return f.Bound.Sign() + units.Duration(f.NS) }

// Prose returns the length for a sentence: "≤376 ms".
func (f Bounded) Prose() string { return f.Bound.Sign() + units.ProseDuration(f.NS) }

// BoundedOf returns a length between two bounds in the form for texts. The parameter open is true if the true length
// may exceed mostNS: the wait may still grow, or samples did not see all of it.
func BoundedOf(leastNS, mostNS int64, open bool) Bounded {
	vague := mostNS-leastNS > mostNS/PlainParts
	switch {
	case open && (!vague || leastNS >= mostNS/2) && mostNS > 0:
		return Bounded{leastNS, AtLeast}
	case vague:
		return Bounded{mostNS, AtMost}
	}
	return Bounded{mostNS, Exactly}
}

// Lengths counts waits by the two bounds of their lengths. The zero value is empty.
type Lengths struct {
	// least counts each wait by its lower bound, most by its upper bound, and likely by the estimate between samples.
	least, likely, most Histogram
	// sure counts each wait by its proven length: for this time the thread certainly waited without a break
	// (Wait.SureNS). Alarms use it.
	sure Histogram
	// open is the number of waits that can be longer than the part that was seen.
	open int64
}

// Add counts a wait. A wait in progress counts with its length so far.
func (l *Lengths) Add(w *Wait) {
	l.AddBounds(min(w.LeastNS, w.MostNS), w.NS(), w.MostNS)
	l.sure.Add(w.SureNS())
	if w.Open() {
		l.open++
	}
}

// AddBounds counts a length between the bounds leastNS and mostNS. likelyNS is the estimate of the length. All are in
// ns.
func (l *Lengths) AddBounds(leastNS, likelyNS, mostNS int64) {
	l.least.Add(leastNS)
	l.likely.Add(likelyNS)
	l.most.Add(mostNS)
}

// Least returns quantiles of the waits' lower bounds, one for each share. For the share 0.99, it is the length that 99
// % of the waits did not exceed. A result is zero if no length is proven.
func (l *Lengths) Least(shares ...float64) []Bounded {
	out := make([]Bounded, len(shares))
	for i, q := range shares {
		if out[i] = (Bounded{l.least.Quantile(q), AtLeast}); out[i].NS <= 1<<histMinBits {
			out[i].NS = 0
		}
	}
	return out
}

// Merge adds the waits of o.
func (l *Lengths) Merge(o *Lengths) {
	l.least.Merge(&o.least)
	l.likely.Merge(&o.likely)
	l.most.Merge(&o.most)
	l.sure.Merge(&o.sure)
	l.open += o.open
}

// Reset removes all waits and keeps the memory.
func (l *Lengths) Reset() {
	l.least.Reset()
	l.likely.Reset()
	l.most.Reset()
	l.sure.Reset()
	l.open = 0
}

// Clone returns a copy.
func (l *Lengths) Clone() Lengths {
	return Lengths{least: l.least.clone(), likely: l.likely.clone(), most: l.most.clone(), sure: l.sure.clone(), open: l.open}
}

// Count returns how many waits were counted.
func (l *Lengths) Count() int64 { return l.most.n }

// Likely returns the waits by their estimated lengths. It is for comparisons and pictures, which need one number for
// each wait.
func (l *Lengths) Likely() *Histogram { return &l.likely }

// Sure returns the waits by the lengths that are proven. Alarms are based on them.
func (l *Lengths) Sure() *Histogram { return &l.sure }

// Told returns, for each share, the length that this share of the waits did not exceed. shares must be ascending, and
// the results are ascending as well.
func (l *Lengths) Told(shares ...float64) []Bounded {
	out := make([]Bounded, 0, len(shares))
	for _, q := range shares {
		least, _ := l.least.quantile(q)
		most := l.most.Quantile(q)
		// If some waits may become longer, quantiles may become longer too. A "≥" with a number far below the upper
		// bound says too little, so texts then show the upper bound with "≤". The exception is a quantile that is
		// itself among the waits that may become longer.
		open := l.open > 0 && (most-least <= most/PlainParts || q*float64(l.most.n) > float64(l.most.n-l.open))
		f := BoundedOf(least, most, open)
		if n := len(out); n > 0 && f.NS < out[n-1].NS {
			// Results must ascend, so a bound that is below the previous result is replaced. If the previous result is
			// an upper bound, the upper bound of this quantile is shown. Otherwise the previous length is shown again.
			if before := out[n-1]; before.Bound == AtMost {
				f = Bounded{max(l.most.Quantile(q), before.NS), AtMost}
			} else {
				f.NS = before.NS
			}
		}
		out = append(out, f)
	}
	return out
}

// Quantile returns the length that a share q (0 to 1) of the waits did not exceed.
func (l *Lengths) Quantile(q float64) Bounded { return l.Told(q)[0] }

// Limits returns bounds of the length that a share q (0 to 1) of the waits did not exceed, in ns. sureNS is the length
// that is proven. Alarms use sureNS.
func (l *Lengths) Limits(q float64) (sureNS, leastNS, mostNS int64) {
	sureNS, _ = l.sure.quantile(q)
	leastNS, _ = l.least.quantile(q)
	return sureNS, leastNS, l.most.Quantile(q)
}

// Counts adds to out how many waits have a length between two edges, by the estimated lengths. edges and out are as in
// Histogram.Counts.
func (l *Lengths) Counts(edges, out []int64) { l.likely.Counts(edges, out) }
