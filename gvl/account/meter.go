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

// Feed takes what the next sample says, made at atNS, CLOCK_MONOTONIC in ns. What the first one brings may have been read at any
// time before.
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

// Since returns by how much the counter grew between an earlier reading (that of the zero value is the first one) and the last
// one, in its own unit, and how long that was, in ns. A span of 0: too short to tell.
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
