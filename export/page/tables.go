package page

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// maxLockNames limits how many waiters and how many holders of a lock are named.
const maxLockNames = 6

func (b *incidentBuilder) addFindings() {
	n := b.n
	b.out.Found = []incidentFinding{}
	if !b.has(partFindings) {
		return
	}
	for _, f := range n.stat.Findings {
		x := incidentFinding{
			// Names are cut to the builder's limit, which may be shorter than MaxName. The sentences of a finding are
			// always cut at MaxName.
			ID: f.ID, Severity: f.Severity, Title: b.words(f.Title), Text: cutText(f.Text, MaxName), Next: cutText(f.Next, MaxName), FromNS: n.since(f.SinceNS),
			ToNS: n.since(n.lanes.lastNS), GoesOn: f.UntilNS == nil, Threads: b.threadList(f.Threads), Served: 0, Function: b.innermost(f.Stack),
		}
		if f.UntilNS != nil {
			x.ToNS = n.since(*f.UntilNS)
		}
		if len(f.Threads) > 0 {
			x.Names = b.words(b.name(f.Threads[0]))
		}
		if f.Endpoint != nil {
			x.Served = b.served(*f.Endpoint)
		}
		b.out.Found = append(b.out.Found, x)
	}
}

// served returns the index of a route in out.Served. It returns 0 if no weight on the page belongs to the route.
func (b *incidentBuilder) served(name string) int {
	name = b.words(name)
	for i, s := range b.out.Served {
		if i > 0 && s == name {
			return i
		}
	}
	return 0
}

// innermost returns the function by which the page names a stack: the innermost function of the program's own code. If
// the stack has no own code, it returns the stack's innermost function.
func (b *incidentBuilder) innermost(id sampler.StackID) int {
	if id == 0 {
		return -1
	}
	b.frames = b.n.dict.Frames(id, b.frames[:0])
	if len(b.frames) == 0 {
		return -1
	}
	for _, fid := range b.frames {
		if f := b.n.dict.Frame(fid); f.Own() {
			return b.function(f)
		}
	}
	return b.function(b.n.dict.Frame(b.frames[0]))
}

// named returns the number of the first function whose name is label, or −1 if there is none.
func (b *incidentBuilder) named(label string) int {
	label = b.words(label)
	for i, f := range b.out.Names {
		if f[0] == label {
			return i
		}
	}
	return -1
}

func (b *incidentBuilder) addBlame() {
	s := &b.n.stat
	b.out.Blame, b.out.Waits = []incidentCharge{}, []incidentWait{}
	if !b.has(partWaits) {
		return
	}
	if s.Blame.TotalNS > 0 {
		b.out.Blamed = units.ProseDuration(s.Blame.TotalNS) + " of waiting for the GVL, of all threads together: " + strings.Join(export.BlameParts(&s.Blame), ", ")
	}
	for _, p := range s.Blame.Frames {
		label := p.Label
		if p.Caller != "" {
			label = p.Caller
		}
		b.out.Blame = append(b.out.Blame, incidentCharge{
			Text: b.words(export.PlaceText(p)), Share: p.Share, Words: units.ProseDuration(p.NS), Thread: b.thread(p.Thread), Function: b.named(label),
		})
	}
	for _, w := range s.LongestWaits {
		x := incidentWait{FromNS: b.n.since(w.StartNS), NS: w.NS, Words: w.Told().Prose(), Thread: b.thread(w.Thread)}
		if w.Before != nil {
			x.Before = b.words("after " + w.Before.Words)
		}
		b.out.Waits = append(b.out.Waits, x)
	}
}

func (b *incidentBuilder) addRequests() {
	r := &b.n.stat.Requests
	if c := b.n.stat.Capacity; c != nil {
		own := *c
		if own.Why != nil {
			why := b.words(*own.Why)
			own.Why = &why
		}
		b.out.Capacity = &own
	}
	b.out.Routes, b.out.Longest, b.out.Running = []incidentRoute{}, []incidentLong{}, []incidentLong{}
	if !b.has(partRoutes) {
		return
	}
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		name := export.EndpointName(e)
		b.out.Routes = append(b.out.Routes, incidentRoute{
			Name: b.words(name), Served: b.served(name), Kind: e.Kind, Ended: e.Ended, Running: e.Running, Rate: e.PerSecond, Least: e.AtLeast,
			P50: incidentSpan{e.P50NS, export.EndpointSpan(e, e.P50NS)}, P95: incidentSpan{e.P95NS, export.EndpointSpan(e, e.P95NS)},
			Max: incidentSpan{e.LongestNS, export.LongestText(e)}, NS: e.NS.Array(), Where: b.words(export.WhereText(&e.NS, e.FiberNS, e.Peers)), Blame: e.BlameShare,
		})
	}
	if !b.has(partSingle) {
		return
	}
	for i := range b.n.longest {
		q := &b.n.longest[i]
		name := q.Work.Endpoint
		if name == "" {
			name = export.UnknownOf(q.Work.Kind.String())
		}
		if q.Work.Values != "" {
			name += " (" + q.Work.Values + ")"
		}
		took := units.ProseDuration(q.DurationNS())
		if q.AtLeast || q.InProgress {
			took = "≥" + took
		}
		ns := report.StatesOf(q.NS)
		x := incidentLong{Name: b.words(name), FromNS: b.n.since(q.FromNS), Took: incidentSpan{q.DurationNS(), took}, Thread: b.thread(q.Thread), NS: q.NS, Where: export.WhereText(&ns, q.FiberNS, nil)}
		if q.InProgress {
			x.Words = "in progress at the end"
		}
		b.out.Longest = append(b.out.Longest, x)
	}
	for i := range r.Running[:min(len(r.Running), maxIncidentRequests)] {
		q := &r.Running[i]
		words := q.Words
		if q.Suspended {
			words = "suspended: its thread works for others"
		}
		b.out.Running = append(b.out.Running, incidentLong{
			Name: b.words(export.ServingName(&q.StatServing)), FromNS: b.n.since(b.n.lanes.lastNS - q.AgeNS), Took: incidentSpan{q.AgeNS, export.AgeText(&q.StatServing)},
			Thread: b.thread(q.Thread), NS: q.NS.Array(), Where: b.words(words), Words: b.words(strings.Join(export.Tellings(&q.StatServing), " · ")),
		})
	}
}

func (b *incidentBuilder) addLocks() {
	b.out.Locks = []incidentLockRow{}
	if !b.has(partLocks) {
		return
	}
	list := b.n.locks.longest()
	for _, l := range list[:min(len(list), shownLocks)] {
		waiters, owners := mostOf(l.waiters, maxLockNames), mostOf(l.owners, maxLockNames)
		x := incidentLockRow{
			Name: lockName(l.key.kind, l.key.object), FromNS: b.n.since(l.fromNS), ToNS: b.n.since(l.toNS), NS: l.ns, Words: units.ProseDuration(l.ns), Func: -1,
			Waiters: b.threadList(waiters), Owners: b.threadList(owners), Waited: b.parties(l.waiters, waiters, l.ns), Owned: b.parties(l.owners, owners, l.ns),
		}
		for _, stack := range mostOf(l.stacks, 1) {
			if x.Func = b.innermost(stack); x.Func >= 0 {
				x.Where, _ = b.out.Names[x.Func][0].(string)
			}
		}
		b.out.Locks = append(b.out.Locks, x)
	}
}

// parties lists the threads that waited for a lock or held it, with their shares: "worker-1 60 %, worker-2 20 %, 4
// more".
func (b *incidentBuilder) parties(all map[sampler.ThreadID]int64, named []sampler.ThreadID, whole int64) string {
	var parts []string
	for _, id := range named {
		name := "(not known)"
		if id != 0 {
			name = b.words(b.name(id))
		}
		parts = append(parts, name+" "+export.Share(all[id], whole))
	}
	if n := len(all) - len(named); n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return strings.Join(parts, ", ")
}

func (b *incidentBuilder) addGC() {
	g, o := &b.n.stat.GC, &b.out.GC
	o.Facts, o.Triggers, o.Payers, o.Cycles = []incidentFact{}, []incidentPlace{}, []incidentPlace{}, []int64{}
	add := func(name, value, about string) { o.Facts = append(o.Facts, incidentFact{name, value, about}) }
	if !g.Valid {
		add("collections", "not known", "the collector could not be read")
		return
	}
	add("collections", units.Count(int64(g.Count)), fmt.Sprintf("%d minor, %d major", g.Minor, g.Major))
	add("time in it", units.ProseDuration(g.NS), export.Share(g.NS, b.n.stat.DurationNS)+" of the time")
	if g.Allocated > 0 {
		add("objects allocated", export.CountText(float64(g.Allocated)), export.CountText(g.AllocatedPerSecond)+" a second")
	}
	if reasons := export.ReasonsText(g); reasons != "" {
		add("started by", reasons, "")
	}
	if g.Figures != nil {
		if text := strings.TrimPrefix(export.HeapText(g.Figures), "; "); text != "" {
			add("heap at the end", text, "")
		}
	}
	for _, p := range g.Triggers {
		if p.Label != "" {
			o.Triggers = append(o.Triggers, incidentPlace{b.words(export.GCPlaceText(&p.StatCode)), fmt.Sprintf("%d seen, %d probably", p.Seen, p.Probable)})
		}
	}
	for _, p := range g.Payers {
		if p.Label != "" {
			o.Payers = append(o.Payers, incidentPlace{b.words(export.GCPlaceText(&p.StatCode)), units.Percent(p.Share) + ", " + units.ProseDuration(p.NS)})
		}
	}
	if !b.has(partCycles) {
		return
	}
	for _, c := range b.n.gc.List {
		major := int64(1)
		if c.Minor {
			major = 0
		}
		o.Cycles = append(o.Cycles, b.n.since(c.AtNS), major, int64(b.textID(account.DescribeGCReason(c.Reason))))
	}
}
