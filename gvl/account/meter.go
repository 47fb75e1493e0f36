package account

// reading is a counter's value at the time of its sample, CLOCK_MONOTONIC in ns. atNS is zero if there was no reading.
type reading struct{ value, atNS int64 }

// Meter measures the growth of a counter that is read less often than samples are made, for example ddtop's own CPU
// time. It includes only the growth between two readings.
type Meter struct {
	seen        bool
	value       int64
	first, last reading
}

// Feed adds the counter's value from a sample made at atNS, CLOCK_MONOTONIC in ns.
func (m *Meter) Feed(value, atNS int64) {
	if m.seen && value != m.value {
		m.last = reading{value, atNS}
		if m.first.atNS == 0 {
			m.first = m.last
		}
	}
	m.seen, m.value = true, value
}

// Known reports whether the counter exists. In a core file, for example, it does not exist.
func (m *Meter) Known() bool { return m.value != 0 }

// Since returns the growth of the counter between an earlier reading and the last one, and the time between these
// readings in ns. The parameter from is a copy of the Meter made at the earlier reading. If it is the zero Meter, Since
// counts from the first reading. spanNS is zero if there were fewer than two readings.
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
