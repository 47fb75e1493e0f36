package watch

import (
	"math"

	"github.com/ddtop/ddtop/gvl/measure"
)

// trigger decides when an incident begins and ends, by the conditions that hold in each second. It ends when no
// condition has held for the time in the field after. So a condition that comes and goes is one incident. A recording
// lasts at most for the time in longest. So a condition that holds for hours has one recording, of its beginning. The
// field before is how long before the condition the recording begins. Times are CLOCK_MONOTONIC in ns.
type trigger struct {
	before, after, longest int64

	active bool
	cause  measure.Cause // the first condition that held
	// fromNS is where the incident's recording begins, and beganNS is when the incident was noticed. lastNS is the last
	// second in which a condition held. When no condition holds, it is one second more: the first second that shows the
	// end.
	fromNS, beganNS, lastNS int64
	held                    bool // a condition held one second ago
	// spent is true if the incident has lasted longer than its recording may. Until the incident ends, no other one
	// begins.
	spent bool
}

// turn says what this second has changed for the incident.
type turn uint8

const (
	turnNone  turn = iota
	turnBegin      // an incident begins
	turnEnd        // the incident has ended
	turnSpent      // the incident continues, but its recording ends at the limit
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
