package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// contention adds to a dump the deadlocks and the locks for which threads wait.
func (d *Dump) contention(states []gvl.ThreadState, dict *sampler.Dictionary) {
	byID := make(map[sampler.ThreadID]*gvl.Detail, len(states))
	for i := range states {
		byID[states[i].Thread] = &states[i].Detail
	}
	for _, c := range account.Deadlocks(states) {
		dead := report.DumpDeadlock{Threads: c}
		for i, id := range c {
			detail := byID[id]
			kind := detail.Kind
			if kind == "" {
				kind = "lock"
			}
			w := report.DumpWait{Thread: id, Kind: kind, HeldBy: c[(i+1)%len(c)]}
			if detail.Joined == 0 {
				w.Object = Address(detail.Object)
			}
			dead.Waits = append(dead.Waits, w)
		}
		d.Deadlocks = append(d.Deadlocks, dead)
	}
	for _, l := range account.Locks(states) {
		out := report.DumpLock{
			Kind: report.TextOrNil(l.Kind), Object: Address(l.Object), Exclusive: l.Exclusive, Waiting: l.Waiters,
			LongestBound: l.LongestBound, Timed: l.Timed,
		}
		if l.LongestNS > 0 {
			out.LongestNS = copied(&l.LongestNS)
		}
		if l.Holder != 0 {
			out.Holder = copied(&l.Holder)
			out.HolderState = report.TextOrNil(l.HolderState.String())
			if fs := dumpFrames(dict, l.HolderStack); len(fs) > 0 {
				out.HolderFrame = &fs[0]
			}
		}
		d.Locks = append(d.Locks, out)
	}
}

// Address returns an object's address as text, in the same form as Detail.JSON. For zero it returns nil, which becomes
// null in JSON.
func Address(object uint64) *string {
	if object == 0 {
		return nil
	}
	return report.TextOrNil(fmt.Sprintf("0x%x", object))
}

// deadlock writes a cycle of threads that wait for each other, in the form of a JVM thread dump. First it writes, for
// each thread, the lock that the thread waits for and the holder of this lock. Then it writes the threads' stacks.
func (t *dumpText) deadlock(c report.DumpDeadlock) {
	t.printf("\nFound one deadlock: these %d threads wait for each other and can never go on.\n", len(c.Threads))
	t.printf("%s\n", strings.Repeat("=", 79))
	for _, w := range c.Waits {
		t.printf("%s:\n", t.name(w.Thread))
		if w.Object == nil && w.Kind == "Thread" {
			t.printf("  waiting for %s to end (Thread#join)\n", t.name(w.HeldBy))
			continue
		}
		object := ""
		if w.Object != nil {
			object = " " + *w.Object
		}
		t.printf("  waiting to lock %s%s,\n  which is held by %s\n", w.Kind, object, t.name(w.HeldBy))
	}
	t.printf("\nStacks of these threads:\n%s\n", strings.Repeat("=", 79))
	for _, id := range c.Threads {
		if i, ok := t.threads[id]; ok {
			t.printf("%s:\n", t.name(id))
			t.frames(t.d.Threads[i].Frames)
		}
	}
}

// maxNamedWaiters limits how many of the threads that wait for a lock are named in the lock's line.
const maxNamedWaiters = 6

// locks writes a line for each lock or other object for which threads wait.
func (t *dumpText) locks() {
	if len(t.d.Locks) == 0 {
		return
	}
	t.printf("\nwaited for:\n")
	for i := range t.d.Locks {
		l := &t.d.Locks[i]
		t.printf("  %s: %s", t.lockName(l), units.Plural(len(l.Waiting), "thread", "threads"))
		if l.LongestNS != nil {
			t.printf(", the longest for %s", gvl.Bounded{NS: *l.LongestNS, Bound: l.LongestBound}.Prose())
		}
		for n, id := range l.Waiting {
			if n == maxNamedWaiters {
				t.printf(", and %d more", len(l.Waiting)-n)
				break
			}
			sep := ", "
			if n == 0 {
				sep = ": "
			}
			t.printf("%s%s", sep, t.name(id))
		}
		t.printf("\n")
		if l.Holder == nil || !l.Exclusive {
			continue
		}
		t.printf("    held by %s", t.name(*l.Holder))
		if n, ok := t.threads[*l.Holder]; ok {
			t.printf(", %s", t.d.texts[n])
		}
		if l.HolderFrame != nil {
			t.printf(" in %s", frameText(l.HolderFrame))
		}
		t.printf("\n")
	}
}

func (t *dumpText) lockName(l *report.DumpLock) string {
	switch {
	case l.Kind == nil && l.Object == nil:
		return "?"
	case l.Kind != nil && *l.Kind == "Thread" && l.Holder != nil:
		return "the end of " + t.name(*l.Holder)
	case l.Object == nil:
		return *l.Kind
	case l.Kind == nil:
		return *l.Object
	}
	return *l.Kind + " " + *l.Object
}
