package watch

import (
	"math"

	"github.com/ddtop/ddtop/gvl/measure"
)

// trigger decides when an incident begins and ends. Its input is which conditions of --when are true in each second. An
// incident ends when no condition has been true for a time, which is in the field after. So a condition that comes and
// goes is one incident.
//
// A recording begins earlier than its incident, by the time in the field before. The field longest limits the length of
// a recording. So if a condition is true for hours, the recording has only the beginning. Times are CLOCK_MONOTONIC in
// ns.
type trigger struct {
	before, after, longest int64

	active bool
	cause  measure.Cause // the first of the conditions that were true
	// fromNS is where the incident's recording begins, and beganNS is when ddtop noticed the incident. lastNS is the
	// last second in which a condition was true, or the second after it, which is the first one without a true
	// condition.
	fromNS, beganNS, lastNS int64
	held                    bool // a condition was true one second ago
	// spent is true if the incident has lasted longer than a recording may. No other recording begins until the
	// incident ends.
	spent bool
}

// turn says what the second that has just ended changes for the incident.
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
