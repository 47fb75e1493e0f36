package switches

import "github.com/ddtop/ddtop/sampler"

// longNS is a time on a CPU, in ns. It helps to tell what a thread without the GVL does. If the thread has a CPU for at
// least longNS, ddtop reports that it runs native code. If the time is shorter, the thread is only entering a system
// call or returning from one.
const longNS = 50_000

// selects are the system calls that wait for a set of descriptors. A record shows only whether the set has descriptors,
// and not how many. If it has any, ddtop reports one (FDs is 1).
var selects = map[string]bool{"select": true, "pselect6": true}

// polls are the system calls that wait for the descriptors of an array.
var polls = map[string]bool{"poll": true, "ppoll": true}

// sleeps returns what a thread that waits in the kernel does there, according to the record r.
func (r *Record) sleeps() sampler.Doing {
	d := sampler.Doing{Kind: sampler.DoingSleeps, Syscall: r.Name, FD: -1, Status: r.Status, Region: r.Region, Mutex: r.Mutex, Left: r.Left}
	switch {
	case r.Syscall < 0:
		d.Syscall = sampler.SyscallNone
	case polls[r.Name]:
		d.FD, d.FDs = r.FD, int32(min(r.Args[1], 1<<31-1))
	case selects[r.Name] && r.Args[0] > 0:
		d.FDs = 1
	case r.Descriptor:
		d.FD, d.FDs = int32(r.Args[0]), 1
	}
	return d
}

// woke handles a thread that slept in code without the GVL, woke up at r.WokenNS, and then had to wait for a CPU. ddtop
// reports it as running from r.WokenNS on. If Ruby's own status still says that the thread sleeps, ddtop reports it as
// asleep until this status changes. The same rule applies to states from samples.
func (m *Machine) woke(t *thread, r *Record) {
	d := &t.doing
	if t.state == released && d.Kind == sampler.DoingSleeps && d.Region && r.WokenNS > t.atNS && r.InNS-r.WokenNS > longNS {
		m.tellDoing(t, r.WokenNS, sampler.Doing{Kind: sampler.DoingRuns, FD: -1, Status: d.Status, Region: true})
	}
}

// does reports what a thread does in its present state, such as computing or sleeping. The record r is from the end of
// an interval in which the thread had a CPU.
func (m *Machine) does(t *thread, r *Record) {
	runs := sampler.Doing{Kind: sampler.DoingRuns, FD: -1, Status: r.Status, Region: r.Region}
	asleep := r.Asleep && r.Kind == Out
	from := max(t.sinceNS, t.atNS) // what the thread did before this time is reported already
	if r.InNS > from {
		from = r.InNS
	}
	switch t.state {
	case running:
		if t.doing.Kind == sampler.DoingSleeps && r.InNS > t.atNS {
			m.tellDoing(t, from, runs)
		}
		if was := t.doing.Kind == sampler.DoingCollects; was != r.Collects {
			now := runs
			if r.Collects {
				now.Kind = sampler.DoingCollects
			}
			m.tellDoing(t, from+(r.NS-from)/2, now)
		}
		if asleep {
			m.tellDoing(t, r.NS, r.sleeps())
		}
	case released:
		runs.Mutex = r.Mutex
		long := r.NS-from > longNS
		if long || !asleep {
			if t.doing.Kind != sampler.DoingRuns {
				m.tellDoing(t, from, runs)
			}
			from = r.NS
		}
		if d := r.sleeps(); asleep && d != t.doing {
			m.tellDoing(t, from, d)
		}
	}
}

// tellDoing adds a change to the queue of changes: at a time (at), the thread begins to do something (d).
func (m *Machine) tellDoing(t *thread, at int64, d sampler.Doing) {
	t.doing = d
	x := change{does: true}
	x.NS, x.TID, x.doing = at-at%unitNS, t.tid, d
	m.pending = append(m.pending, x)
}
