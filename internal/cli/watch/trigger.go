package watch

import (
	"math"

	"github.com/ddtop/ddtop/gvl/measure"
)

// trigger makes incidents of seconds in which a condition holds. An incident lasts until nothing has held for a while,
// so that what comes and goes is one, and not longer than its limit: what goes on for hours is one recording of its
// beginning, and the next begins when it has been over. Times are CLOCK_MONOTONIC in ns.
type trigger struct {
	before, after, longest int64

	active bool
	cause  measure.Cause // the first one
	// fromNS is where its recording begins, beganNS when it was seen, lastNS when no condition held first after one
	// did, or now: when it was over lies before that.
	fromNS, beganNS, lastNS int64
	held                    bool // a second ago
	// spent: it lasts longer than the limit, and is waited for to end.
	spent bool
}

// turn is what an incident does in a second.
type turn uint8

const (
	turnNone  turn = iota
	turnBegin      // one begins
	turnEnd        // it is over
	turnSpent      // it goes on, and its recording ends at the limit
)

// step takes what holds at a time.
func (t *trigger) step(nowNS int64, causes []measure.Cause) turn {
	holds := len(causes) > 0
	if holds || t.held {
		t.lastNS = nowNS
	}
	t.held = holds
	quiet := nowNS >= t.lastNS+t.after
	switch {
	case t.active && quiet:
		t.active = false
		return turnEnd
	case t.active && nowNS-t.beganNS >= t.longest:
		t.active, t.spent = false, true
		return turnSpent
	case t.spent && quiet:
		t.spent = false
	case !t.active && !t.spent && holds:
		t.active, t.cause, t.beganNS = true, causes[0], nowNS
		from := int64(math.MaxInt64)
		for _, c := range causes {
			from = min(from, c.FromNS)
		}
		t.fromNS = from - t.before
		return turnBegin
	}
	return turnNone
}
