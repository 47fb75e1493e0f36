package account

// reading is a counter's value at the time of the sample that brought it, CLOCK_MONOTONIC in ns; 0: none.
type reading struct{ value, atNS int64 }

// Meter measures how much a counter grew that is read less often than samples are made, such as ddtop's own CPU time
// or the process's context switches. It counts only the time between two readings of the counter.
type Meter struct {
	seen        bool
	value       int64
	first, last reading
}

// Feed adds the counter's value from a sample made at atNS, CLOCK_MONOTONIC in ns. The first sample's value may have
// been read at any time before.
func (m *Meter) Feed(value, atNS int64) {
	if m.seen && value != m.value {
		m.last = reading{value, atNS}
		if m.first.atNS == 0 {
			m.first = m.last
		}
	}
	m.seen, m.value = true, value
}

// Known reports whether there is such a counter: a core file has none.
func (m *Meter) Known() bool { return m.value != 0 }

// Since returns how much the counter grew between an earlier reading and the last one, in the counter's own unit, and
// the time between the two in ns. The zero Meter stands for the first reading. spanNS is zero if the time is too short
// to tell.
func (m *Meter) Since(from *Meter) (grown, spanNS int64) {
	r := from.last
	if r.atNS == 0 {
		r = m.first
	}
	if r.atNS == 0 || m.last.atNS <= r.atNS {
		return 0, 0
	}
	return m.last.value - r.value, m.last.atNS - r.atNS
}
