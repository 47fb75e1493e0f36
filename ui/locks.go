package ui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// placesFrom is what the places were summed from.
type placesFrom struct {
	fromNS, toNS int64
	hides        bool // directories were hidden
}

// locksPage shows deadlocks, what threads wait for, and whose code made others wait for the GVL.
type locksPage struct {
	plainPage
	flame *flameView // whose search its rows have to match
	// both are the rows of both tables, through which one cursor goes.
	both    list[lockKey, lockKey]
	locks   table[lockRow, lockKey]
	byPlace table[placeRow, lockKey]

	cycles [][]deadLink
	// shortLocks is how many more there are, whose waits are all too short for the list. Locks that nobody waits for now are listed
	// while others waited for them in the time shown.
	shortLocks int
	blame
	placesOf placesFrom
}

// lockKey names a row: a lock by what it is, or a place.
type lockKey struct {
	object uint64
	kind   string
	holder sampler.ThreadID
	place  flamegraph.Place
	// isPlace distinguishes the place of which no stack was read from nothing at all.
	isPlace bool
}

func (k lockKey) id() lockKey { return k }

// lockRow and placeRow are rows of the tables.
type (
	lockRow struct {
		*gvl.Contended
		// use is how it was used in the time shown, of which overNS were watched; of a lock alone.
		use    gvl.LockUse
		overNS int64
		// taken is where the holder took it or, where that can't be told, where the one that waits longest wants it.
		taken lockPlace
	}
	placeRow struct{ *flamegraph.PlaceSum }
)

func (l lockRow) id() lockKey {
	k := lockKey{object: l.Object, kind: l.Kind}
	if l.Object == 0 {
		k.holder = l.Holder
	}
	return k
}

func (b placeRow) id() lockKey { return lockKey{place: b.Place, isPlace: true} }

// deadLink is one thread of a deadlock.
type deadLink struct {
	thread, holder sampler.ThreadID
	kind           string
	object         uint64
	stack          sampler.StackID // of the holder
}

// blame is whose code made others wait for the GVL.
type blame struct {
	places []flamegraph.PlaceSum
	// waitNS is the waiting of all threads, nobodyNS the part in which nobody held the GVL.
	waitNS, nobodyNS int64
}

// blameOf sums the blame up by place.
func blameOf(s *flamegraph.Snapshot, dict *sampler.Dictionary) blame {
	b := blame{places: s.Places(dict, func(e *flamegraph.Entry) int64 { return e.Weights.BlameNS })}
	charged, total := int64(0), s.Total()
	for i := range b.places {
		charged += b.places[i].NS
	}
	b.nobodyNS = max(total.WaitNS-charged, 0)
	b.waitNS = max(total.WaitNS, charged) // a wait's own time comes with its stack, a little later than the blame
	return b
}

func newLocksPage(c *components) *locksPage {
	cursor := new(lockKey)
	p := &locksPage{flame: &c.flame, both: list[lockKey, lockKey]{cursor: cursor}}
	p.locks = table[lockRow, lockKey]{list: list[lockRow, lockKey]{cursor: cursor}, columns: lockColumns(), left: 1}
	p.byPlace = table[placeRow, lockKey]{list: list[placeRow, lockKey]{cursor: cursor}, columns: p.placeColumns(), left: 1}
	p.keyMap = keyMap{title: "locks and blame", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "holder", help: "open the thread that holds the lock, or that made others wait",
			do: func(h Host) tea.Cmd { return p.enter(h) }},
	}, cursorKeys("", "select a lock or a place", p.move))}
	return p
}

func (p *locksPage) found() string { return units.Plural(len(p.both.rows), "row", "rows") }

// SelectLock puts the cursor on a lock.
func (p *locksPage) SelectLock(l *gvl.Contended) { *p.both.cursor = lockRow{Contended: l}.id() }

func (p *locksPage) move(_ Host, by step) tea.Cmd {
	if p.both.height = p.byPlace.height; p.locks.index() >= 0 {
		p.both.height = p.locks.height
	}
	p.both.move(by)
	return nil
}

// enter opens the thread behind the selected row.
func (p *locksPage) enter(h Host) tea.Cmd {
	var id sampler.ThreadID
	if i := p.locks.index(); i >= 0 {
		l := p.locks.rows[i]
		if id = l.Holder; id == 0 && len(l.Waiters) > 0 {
			id = l.Waiters[0]
		}
		if id == 0 {
			h.Message().tell("nobody holds it and nobody waits for it just now")
			return nil
		}
	} else if i := p.byPlace.index(); i >= 0 {
		id = p.byPlace.rows[i].Thread
	} else {
		return p.move(h, step{rows: +1})
	}
	h.Scene().selected = rowKey{thread: id}
	return h.Open(pageThread)
}

func (p *locksPage) load(sc *scene, r *store.Reading) {
	if i := p.both.index(); i >= 0 {
		p.both.at = i // a click has moved the cursor, too
	}
	all := gvl.Locks(sc.states)
	now := len(all)
	for _, l := range r.Holds.Recent(sc.atNS-sc.windowNS, sc.atNS) {
		if !slices.ContainsFunc(all[:now], func(x gvl.Contended) bool { return x.Object == l.Object }) {
			all = append(all, l)
		}
	}
	p.locks.rows, p.byPlace.rows, p.both.rows = p.locks.rows[:0], p.byPlace.rows[:0], p.both.rows[:0]
	for i := range all {
		if l := (lockRow{Contended: &all[i]}); l.LongestNS >= int64(sc.opt.WaitThreshold) || i >= now {
			if l.Exclusive {
				l.load(sc, r)
			}
			p.locks.rows, p.both.rows = append(p.locks.rows, l), append(p.both.rows, l.id())
		}
	}
	p.shortLocks = len(all) - len(p.locks.rows) // all but those that nobody waits for now
	if re := p.flame.listed(); re != nil {
		p.locks.rows = slices.DeleteFunc(p.locks.rows, func(l lockRow) bool { return !l.matches(re, sc.dict) })
		p.both.rows = p.both.rows[:0]
		for _, l := range p.locks.rows {
			p.both.rows = append(p.both.rows, l.id())
		}
	}
	p.loadCycles(sc.states)
	if of := (placesFrom{sc.weights.FromNS, sc.weights.ToNS, sc.dict.HidesDirectories()}); of != p.placesOf {
		p.placesOf = of
		p.blame = blameOf(&sc.weights, sc.dict)
	}
	for i := range p.places {
		b := placeRow{&p.places[i]}
		if re := p.flame.listed(); re != nil && !re.MatchString(b.String()) && !re.MatchString(b.Path) &&
			!re.MatchString(gvl.ThreadName(b.Thread, sc.dict)) {
			continue
		}
		p.byPlace.rows, p.both.rows = append(p.byPlace.rows, b), append(p.both.rows, b.id())
	}
}

func (p *locksPage) loadCycles(states []gvl.ThreadState) {
	p.cycles = p.cycles[:0]
	byID := make(map[sampler.ThreadID]*gvl.ThreadState, len(states))
	for i := range states {
		byID[states[i].Thread] = &states[i]
	}
	for _, c := range gvl.Deadlocks(states) {
		links := make([]deadLink, 0, len(c))
		for i, id := range c {
			next := c[(i+1)%len(c)]
			l := deadLink{thread: id, holder: next}
			if s := byID[id]; s != nil {
				l.kind, l.object = s.Detail.Kind, s.Detail.Object
			}
			if s := byID[next]; s != nil {
				l.stack = s.Stack
			}
			links = append(links, l)
		}
		p.cycles = append(p.cycles, links)
	}
}

// topShare is how many places from the top have at least most of the waiting, and which share they have.
func (p *locksPage) topShare() (n int, of float64) {
	const most, few = 0.8, 5
	var sum int64
	for n < min(len(p.places), few) {
		sum += p.places[n].NS
		n++
		if of = style.Share(sum, p.waitNS); of >= most {
			break
		}
	}
	return n, of
}

func (p *locksPage) about(sc *scene) string {
	waiters := 0
	for i := range p.locks.rows {
		if l := &p.locks.rows[i]; l.Exclusive {
			waiters += len(l.Waiters)
		}
	}
	s := ""
	if waiters > 0 {
		s = units.Plural(waiters, "thread waits", "threads wait") + " for locks" + between
	}
	if p.waitNS > 0 {
		s += units.Duration(p.waitNS) + " of waiting for the GVL" + between
	}
	s += sc.when()
	if n := len(p.cycles); n > 0 {
		s = fmt.Sprintf("%d DEADLOCK · ", n) + s
	}
	return s
}

func (p *locksPage) detail(sc *scene) (name, rest string) {
	if i := p.locks.index(); i >= 0 {
		l := p.locks.rows[i]
		names := ""
		const few = 4
		for k, id := range l.Waiters {
			if k == few {
				names += fmt.Sprintf(" and %d more", len(l.Waiters)-few)
				break
			}
			if k > 0 {
				names += ", "
			}
			names += gvl.ThreadName(id, sc.dict)
		}
		if names == "" {
			names = "nobody just now"
		}
		return lockName(l.Kind, l.Object), l.useText(sc) + "waited for by " + names
	}
	if i := p.byPlace.index(); i >= 0 {
		b := p.byPlace.rows[i]
		return b.String(), fmt.Sprintf("%s:%d  made others wait %s (%s of all waiting)", b.Path, b.Line, units.Duration(b.NS),
			units.Percent(style.Share(b.NS, p.waitNS)))
	}
	return "", ""
}

// lockName is the kind and the address of a lock.
func lockName(kind string, object uint64) string {
	if kind == "" {
		kind = "a lock"
	}
	if object == 0 {
		return kind
	}
	return fmt.Sprintf("%s 0x%x", kind, object)
}
