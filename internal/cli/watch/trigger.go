package watch

import (
	"math"

	"github.com/ddtop/ddtop/gvl/measure"
)

// trigger decides when an incident begins and ends. Every second, it gets the conditions that hold. An incident ends
// when no condition has held for a while, so repeated conditions are one incident. The recording of an incident ends
// at a limit at the latest. So a condition that holds for hours gives one recording of its beginning. The next
// incident can begin after the condition has ended. Times are CLOCK_MONOTONIC in ns.
type trigger struct {
	before, after, longest int64

	active bool
	cause  measure.Cause // the first one
	// fromNS is the begin of the incident's recording, and beganNS is when the incident was seen. lastNS is the first
	// second without a condition since one held, or now. The incident ended before lastNS.
	fromNS, beganNS, lastNS int64
	held                    bool // a second ago
	// spent is true if the incident has outlasted the limit. Its recording has ended, and trigger waits for its end.
	spent bool
}

// turn is how an incident has changed in a second.
type turn uint8

const (
	turnNone  turn = iota
	turnBegin      // one begins
	turnEnd        // it has ended
	turnSpent      // it continues, and its recording ends at the limit
)

// step adds the conditions of one second.
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
