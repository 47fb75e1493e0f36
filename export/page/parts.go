package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxIncidentDumps limits how many thread dumps a page has. maxIncidentDumped limits how many threads all dumps
	// together have.
	maxIncidentDumps  = 128
	maxIncidentDumped = 16_000
	// incidentDumpNS is the time between two thread dumps at the start of the measurement, in ns. It doubles each time
	// that the page has too many dumps (thin).
	incidentDumpNS = int64(100e6)
	// maxIncidentLocks limits how many locks are counted separately. maxLockParties limits how many threads, and how
	// many stacks, are counted separately for each lock.
	maxIncidentLocks = 1024
	maxLockParties   = 64
	// maxIncidentCycles limits how many garbage collections the page lists. maxIncidentRequests does the same for the
	// longest requests, and shownLocks for the locks. The page lists the locks with the longest waits.
	maxIncidentCycles   = 1000
	maxIncidentRequests = 100
	shownLocks          = 50
)

// incidentDumps keeps thread dumps at even intervals, and a dump of the last sample.
type incidentDumps struct {
	dict    *sampler.Dictionary
	resting *findings.Resting
	list    []incidentDump
	threads int
	eachNS  int64
	nextNS  int64
	last    sampler.Sample
	states  []gvl.ThreadState
}

// incidentDump is a thread dump: what all threads did at one instant.
type incidentDump struct {
	atNS    int64
	threads []dumpedThread
	ractors []report.DumpRactor
	locks   []account.Contended
	cycles  [][]sampler.ThreadID // the deadlocks: each is a cycle of threads that wait for each other
}

type dumpedThread struct {
	id      sampler.ThreadID
	state   gvl.State // parked if the thread is at rest, even if it waits for I/O (findings.Resting)
	text    string    // what the thread did, but not for how long
	lasted  int64     // how long the state has lasted, in ns
	stack   sampler.StackID
	resumer []sampler.StackID
	notes   []string
	serving string
}

// take adds a dump of a sample, if eachNS has passed since the previous dump. The sample must have all stacks. take
// also keeps a copy of the latest sample, because finish adds a dump of the last sample.
func (d *incidentDumps) take(s *sampler.Sample, states []gvl.ThreadState) {
	d.last.CopyFrom(s)
	d.states = append(d.states[:0], states...)
	if d.eachNS == 0 {
		d.eachNS = incidentDumpNS
	}
	if s.TimeNS < d.nextNS {
		return
	}
	d.nextNS = s.TimeNS + d.eachNS
	d.add(s, states)
	for len(d.list) > 2 && (len(d.list) > maxIncidentDumps || d.threads > maxIncidentDumped) {
		d.thin()
	}
}

// finish adds a dump of the last sample, unless take has just added it. Call it at the end of the recording.
func (d *incidentDumps) finish() {
	if n := len(d.list); d.last.TimeNS != 0 && (n == 0 || d.list[n-1].atNS != d.last.TimeNS) {
		d.add(&d.last, d.states)
	}
}

// thin makes room for new dumps: it removes every second dump, and doubles the time between dumps.
func (d *incidentDumps) thin() {
	kept := d.list[:0]
	d.threads = 0
	for i := range d.list {
		if i%2 == 0 {
			kept = append(kept, d.list[i])
			d.threads += len(d.list[i].threads)
		}
	}
	clear(d.list[len(kept):])
	d.list = kept
	d.eachNS *= 2
	d.nextNS = kept[len(kept)-1].atNS + d.eachNS
}

func (d *incidentDumps) add(s *sampler.Sample, states []gvl.ThreadState) {
	out := incidentDump{atNS: s.TimeNS, locks: account.Locks(states), cycles: account.Deadlocks(states)}
	verdict := export.Verdicts(s, states)
	for i := range s.Ractors {
		out.ractors = append(out.ractors, export.NewDumpRactor(&s.Ractors[i], s, verdict))
	}
	for i := range s.Threads {
		t, v := &s.Threads[i], verdict(i)
		one := dumpedThread{id: t.ID, state: v.State, lasted: v.DurationNS(), text: timelessText(v, d.dict), stack: t.Stack, resumer: slices.Clone(t.Resumers)}
		one.notes = export.ThreadNotes(&report.DumpThread{
			Failed: t.Quality&sampler.StackFailed != 0, Stale: t.Quality&sampler.StackFresh == 0 && t.Stack != 0, Partial: t.Quality&sampler.StackPartial != 0,
			Truncated: t.Quality&sampler.StackTruncated != 0, Omitted: t.Omitted, Frames: make([]report.DumpFrame, min(int(t.Stack), 1)),
		})
		if q, ok := account.ServingOf(t.Serving, v.AtNS, d.dict); ok {
			words := export.Tellings(&q)
			if q.Number != 0 {
				words = append([]string{"serves " + export.ServingName(&q) + " for " + export.AgeText(&q)}, words...)
			}
			one.serving = strings.Join(words, " · ")
		}
		one.state = d.resting.State(v.State, &v.Detail, t.Stack, t.Serving.Work)
		out.threads = append(out.threads, one)
	}
	d.list = append(d.list, out)
	d.threads += len(out.threads)
}

// timelessText describes what a thread does, but not for how long. Without this time, the texts of many dumps are
// equal, and the page stores equal texts only once.
func timelessText(v gvl.ThreadState, dict *sampler.Dictionary) string {
	v.SinceNS, v.AtNS, v.MovedNS, v.Detail.DeadlineNS = 0, 0, 0, 0
	v.WaitsExactly(0, 0)
	return flamegraph.Printable(strings.Replace(gvl.Describe(v, dict), " "+units.ProseDuration(0), "", 1))
}

// incidentLocks sums up the waits for each Mutex or Monitor.
type incidentLocks struct {
	gvl.Ignore
	locks map[incidentLockKey]*incidentLock
	// otherNS is the time of waits for locks that are not counted separately, because there are too many locks.
	otherNS int64
}

type incidentLockKey struct {
	kind   string
	object uint64
}

// incidentLock sums up how long all threads together waited for a lock, in ns. It also divides this time in three ways:
// by waiting thread, by the thread that held the lock, and by the stack of the waiting thread.
type incidentLock struct {
	key             incidentLockKey
	ns              int64
	fromNS, toNS    int64
	waiters, owners map[sampler.ThreadID]int64
	stacks          map[sampler.StackID]int64
}

func (l *incidentLocks) Interval(i *gvl.Interval) {
	if i.State != gvl.Lock {
		return
	}
	k := incidentLockKey{i.Detail.Kind, i.Detail.Object}
	x := l.locks[k]
	if x == nil {
		if len(l.locks) >= maxIncidentLocks {
			l.otherNS += i.NS()
			return
		}
		x = &incidentLock{key: k, fromNS: i.FromNS, waiters: map[sampler.ThreadID]int64{}, owners: map[sampler.ThreadID]int64{}, stacks: map[sampler.StackID]int64{}}
		l.locks[k] = x
	}
	x.ns += i.NS()
	x.fromNS, x.toNS = min(x.fromNS, i.FromNS), max(x.toNS, i.ToNS)
	addParty(x.waiters, i.Thread, i.NS())
	addParty(x.owners, i.Detail.Holder, i.NS())
	addParty(x.stacks, i.Stack, i.NS())
}

// addParty adds time to a thread or stack in m. If m already has maxLockParties other IDs, it adds the time to ID 0,
// which has the sum of all further threads or stacks.
func addParty[K sampler.ThreadID | sampler.StackID](m map[K]int64, id K, ns int64) {
	if _, ok := m[id]; !ok && len(m) >= maxLockParties {
		id = 0
	}
	m[id] += ns
}

// longest returns the locks, sorted by the total time for which threads waited for each lock. The lock with the longest
// time comes first.
func (l *incidentLocks) longest() []*incidentLock {
	return slices.SortedFunc(maps.Values(l.locks), func(a, b *incidentLock) int {
		return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.key.object, b.key.object), strings.Compare(a.key.kind, b.key.kind))
	})
}

// mostOf returns the n threads or stacks with the most time.
func mostOf[K sampler.ThreadID | sampler.StackID](m map[K]int64, n int) []K {
	ids := slices.SortedFunc(maps.Keys(m), func(a, b K) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	return ids[:min(n, len(ids))]
}

// incidentGC lists garbage collections, from the beginning of the measurement up to maxIncidentCycles.
type incidentGC struct {
	gvl.Ignore
	trace.Cycles
}

// Tick adds a garbage collection to the list if one has begun since the last sample.
func (g *incidentGC) Tick(k *gvl.Tick) {
	if k.GC.Valid {
		g.Take(k.Sample, func(int64) bool { return len(g.List) < maxIncidentCycles })
	}
}
