package pace

import "github.com/ddtop/ddtop/sampler"

// fullness decides whether all CPUs of the machine are busy. If they are, other programs lack the CPU time that ddtop
// uses.
type fullness struct {
	is bool
	// idleNS is the idle time of all of the machine's CPUs at the last reading, in ns. It is zero before the first
	// reading. dueNS is when the next reading is due.
	idleNS, atNS, dueNS int64
	// pressed is the number of processes in whose cgroups CPUs are scarce.
	pressed int
	// looks counts the consecutive readings that contradict the field is.
	looks int
}

// These constants decide when fullness changes its verdict.
const (
	// lookNS is the interval of the readings, in ns.
	lookNS = 1_000_000_000
	// scarceIdle and freeIdle are mean numbers of idle CPUs. CPUs count as scarce below scarceIdle, and as free above
	// freeIdle. In between, the earlier verdict stays.
	scarceIdle, freeIdle = 0.25, 0.5
	// pressed is a share of time. If tasks of the process's cgroup wait for a CPU for a larger share, CPUs are scarce
	// even if the machine has idle CPUs. The reason is that a cgroup can have its own CPU limit, or its own set of
	// CPUs.
	pressed = 0.5
	// fullLooks is the number of consecutive readings that must contradict the verdict before it changes.
	fullLooks = 2
)

// Press records whether CPUs are scarce in the cgroup of one process.
type Press struct {
	is bool
	// someNS is the last Pressure.CPUSomeNS of the cgroup, read at atNS.
	someNS, atNS int64
}

// take adds a reading of the pressure in the process's cgroup, unless the last one is too recent.
func (q *Press) take(now int64, p sampler.Pressure) {
	if q.atNS != 0 && now-q.atNS < lookNS*9/10 {
		return
	}
	some := int64(0)
	if p.Source == sampler.PressureCgroup {
		some = p.CPUSomeNS
	}
	*q = Press{is: q.someNS != 0 && float64(some-q.someNS)/float64(now-q.atNS) > pressed, someNS: some, atNS: now}
}

// look adds a reading of the idle time of all CPUs, and decides anew whether they are scarce.
func (f *fullness) look(now, idleNS int64) {
	before := *f
	f.idleNS, f.atNS = idleNS, now
	if before.atNS == 0 || now <= before.atNS {
		return
	}
	idle := float64(idleNS-before.idleNS) / float64(now-before.atNS)
	scarce := f.pressed > 0
	switch {
	case idle < scarceIdle:
		scarce = true
	case idle < freeIdle && f.is:
		scarce = true
	}
	if scarce == f.is {
		f.looks = 0
		return
	}
	if f.looks++; f.looks >= fullLooks {
		f.is, f.looks = scarce, 0
	}
}

// Look adds the pressure of a process, p, and compares it with the process's previous reading in of. If a check is due,
// Look also reads whether the machine has a CPU to spare.
func (b *Budget) Look(now int64, idle func() (int64, error), p sampler.Pressure, of *Press) {
	if b.Share == 0 {
		return
	}
	b.mu.Lock()
	was := of.is
	of.take(now, p)
	b.full.count(was, of.is)
	due := now >= b.full.dueNS
	if due {
		b.full.dueNS = now + lookNS*9/10
	}
	b.mu.Unlock()
	if !due {
		return
	}
	ns, err := idle() // reads a file, so call it without the lock
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full.look(now, ns)
}

// Leave forgets the pressure of a process.
func (b *Budget) Leave(of *Press) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full.count(of.is, false)
	*of = Press{}
}

// count updates the number of processes whose cgroups lack CPUs. was and is report whether one process was counted
// before, and whether it is counted now.
func (f *fullness) count(was, is bool) {
	if was {
		f.pressed--
	}
	if is {
		f.pressed++
	}
}
