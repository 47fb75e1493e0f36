package watch

import (
	"math"

	"github.com/ddtop/ddtop/gvl/measure"
)

// trigger makes incidents from seconds in which a condition holds. An incident lasts until no condition has held for
// a while, so that repeated conditions are one incident. It does not exceed its limit. A condition that holds for
// hours gives one recording of its beginning, and the next one begins after it has ended. Times are CLOCK_MONOTONIC
// in ns.
type trigger struct {
	before, after, longest int64

	active bool
	cause  measure.Cause // the first one
	// fromNS is the begin of its recording, beganNS when it was seen. lastNS is the first time without a condition
	// after one held, or now. The incident ended before lastNS.
	fromNS, beganNS, lastNS int64
	held                    bool // a second ago
	// spent: it lasts longer than the limit, and is waited for to end.
	spent bool
}

// turn is the change of an incident in a second.
type turn uint8

const (
	turnNone  turn = iota
	turnBegin      // one begins
	turnEnd        // it has ended
	turnSpent      // it continues, and its recording ends at the limit
)

// step applies the causes at a time.
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
