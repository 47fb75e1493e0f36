package store

import (
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// maxExactSpans bounds the stretches of time that are known exactly; the oldest go first.
const maxExactSpans = 1 << 10

// ExactSpans are the stretches of time of which every change of the GVL is known, in order.
type ExactSpans [][2]int64

// add takes what a sample says.
func (x *ExactSpans) add(c *sampler.Changes) {
	if !c.Known() {
		return
	}
	if n := len(*x); n > 0 && !c.Fresh && (*x)[n-1][1] == c.FromNS {
		(*x)[n-1][1] = c.ToNS
		return
	}
	if *x = append(*x, [2]int64{c.FromNS, c.ToNS}); len(*x) > maxExactSpans {
		*x = append((*x)[:0], (*x)[1:]...)
	}
}

// Any reports whether a part of a stretch of time is known exactly.
func (x ExactSpans) Any(fromNS, toNS int64) bool { return x.share(fromNS, toNS) > 0 }

// share is the part of a stretch of time that is known exactly.
func (x ExactSpans) share(fromNS, toNS int64) float64 {
	var sum int64
	for _, s := range x {
		sum += max(min(s[1], toNS)-max(s[0], fromNS), 0)
	}
	return style.Share(sum, toNS-fromNS)
}

// NearlyAll reports whether what is known exactly of a stretch of time is as good as all of it.
func (x ExactSpans) NearlyAll(fromNS, toNS int64) bool { return x.share(fromNS, toNS) >= 0.99 }

// Words say how much of a stretch of time is known exactly; "" for nothing of it.
func (x ExactSpans) Words(fromNS, toNS int64) string {
	switch {
	case x.NearlyAll(fromNS, toNS):
		return "exact"
	case x.Any(fromNS, toNS):
		return "exact in part"
	}
	return ""
}
