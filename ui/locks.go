package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// placesFrom is what the places were summed from.
type placesFrom struct {
	fromNS, toNS int64
	hides        bool // directories were hidden
}

// locksPage shows deadlocks, what threads wait for, and whose code made others wait for the GVL.
type locksPage struct {
	keys     keyMap
	selected lockKey
	top      int // first lock drawn
	topPlace int

	cycles [][]deadLink
	locks  []gvl.Contended
	// shortLocks is how many more there are, whose waits are all too short for the list.
	shortLocks int
	places     []blamePlace
	// waitNS is the waiting of all threads in the time shown, nobodyNS the part in which nobody held the GVL.
	waitNS, nobodyNS int64
	placesOf         placesFrom
}

// lockKey names a row: a lock by what it is, or a place.
type lockKey struct {
	object uint64
	kind   string
	holder sampler.ThreadID
	place  placeKey
	// isPlace distinguishes the place of which no stack was read from nothing at all.
	isPlace bool
}

// deadLink is one thread of a deadlock.
type deadLink struct {
	thread, holder sampler.ThreadID
	kind           string
	object         uint64
	stack          sampler.StackID // of the holder
}

// placeKey is a place in the code: the innermost method written in Ruby and the C function in it.
type placeKey struct {
	method, native, path string
}

// place is a place with the line that is executed.
type place struct {
	placeKey
	line int32
}

// blamePlace is a place that made threads wait.
type blamePlace struct {
	placeKey
	ns      int64
	line    int32     // charged most
	kind    gvl.State // how it held the GVL most of that time
	kinds   [gvl.NumStates]int64
	thread  sampler.ThreadID // charged most
	threads map[sampler.ThreadID]int64
	lines   map[int32]int64
}

func newLocksPage() *locksPage {
	p := &locksPage{}
	moved := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.move(n); return nil }
	}
	p.keys = keyMap{title: "locks and blame", bindings: []binding{
		{keys: []string{"enter"}, show: "enter", short: "holder", help: "open the thread that holds the lock, or that made others wait",
			do: func(m *Model) tea.Cmd { return p.enter(m) }},
		{keys: []string{"up", "k"}, show: "↑ ↓", help: "select a lock or a place (also k, j; page keys, home, end)", do: moved(-1)},
		{keys: []string{"down", "j"}, do: moved(+1)},
		{keys: []string{"pgup"}, do: moved(-10)},
		{keys: []string{"pgdown"}, do: moved(+10)},
		{keys: []string{"home", "g"}, do: moved(-maxRows)},
		{keys: []string{"end", "G", "shift+g"}, do: moved(maxRows)},
	}}
	return p
}

func (p *locksPage) keyMap() *keyMap { return &p.keys }

// rowKeys are all rows that can be selected, in their order.
func (p *locksPage) rowKeys() []lockKey {
	out := make([]lockKey, 0, len(p.locks)+len(p.places))
	for i := range p.locks {
		out = append(out, keyOfLock(&p.locks[i]))
	}
	for i := range p.places {
		out = append(out, keyOfPlace(&p.places[i]))
	}
	return out
}

func keyOfLock(l *gvl.Contended) lockKey {
	k := lockKey{object: l.Object, kind: l.Kind}
	if l.Object == 0 {
		k.holder = l.Holder
	}
	return k
}

func keyOfPlace(b *blamePlace) lockKey { return lockKey{place: b.placeKey, isPlace: true} }

func (p *locksPage) index() int { return slices.Index(p.rowKeys(), p.selected) }

func (p *locksPage) move(n int) {
	keys := p.rowKeys()
	if len(keys) == 0 {
		return
	}
	i := p.index()
	if i < 0 && n < 0 {
		i = len(keys)
	}
	p.selected = keys[max(0, min(i+n, len(keys)-1))]
}

// enter opens the thread behind the selected row.
func (p *locksPage) enter(m *Model) tea.Cmd {
	i := p.index()
	id := sampler.ThreadID(0)
	switch {
	case i < 0:
		p.move(+1)
		return nil
	case i < len(p.locks):
		l := &p.locks[i]
		if id = l.Holder; id == 0 {
			id = l.Waiters[0]
		}
	default:
		id = p.places[i-len(p.locks)].thread
	}
	m.timeline.selected = rowKey{thread: id}
	return m.open(pageThread)
}

func (p *locksPage) load(m *Model, r *reading) {
	all := gvl.Locks(m.states)
	p.locks = slices.DeleteFunc(all, func(l gvl.Contended) bool { return l.LongestNS < int64(m.opt.WaitThreshold) })
	p.shortLocks = len(all) - len(p.locks)
	p.loadCycles(m.states)
	if of := (placesFrom{m.flame.snapshot.FromNS, m.flame.snapshot.ToNS, m.store.dict.HidesDirectories()}); of != p.placesOf {
		p.placesOf = of
		p.loadPlaces(&m.flame.snapshot, m.store.dict)
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

// loadPlaces sums the blame by place.
func (p *locksPage) loadPlaces(s *flamegraph.Snapshot, dict *sampler.Dictionary) {
	byKey := make(map[placeKey]*blamePlace)
	ofStack := make(map[sampler.StackID]place)
	p.waitNS, p.nobodyNS = 0, 0
	charged := int64(0)
	for i := range s.Entries {
		e := &s.Entries[i]
		p.waitNS += e.Weights.WaitNS
		if e.Weights.BlameNS == 0 {
			continue
		}
		charged += e.Weights.BlameNS
		k, ok := ofStack[e.Key.Stack]
		if !ok {
			k = placeOf(dict, e.Key.Stack)
			ofStack[e.Key.Stack] = k
		}
		b := byKey[k.placeKey]
		if b == nil {
			b = &blamePlace{placeKey: k.placeKey, threads: make(map[sampler.ThreadID]int64), lines: make(map[int32]int64)}
			byKey[k.placeKey] = b
		}
		b.ns += e.Weights.BlameNS
		b.kinds[e.Key.State] += e.Weights.BlameNS
		b.threads[e.Key.Thread] += e.Weights.BlameNS
		b.lines[k.line] += e.Weights.BlameNS
	}
	p.nobodyNS = max(p.waitNS-charged, 0)
	p.waitNS = max(p.waitNS, charged) // a wait's own time comes with its stack, a little later than the blame
	p.places = p.places[:0]
	for _, b := range byKey {
		b.kind = dominant(&b.kinds)
		for id, ns := range b.threads {
			if best := b.threads[b.thread]; ns > best || ns == best && id < b.thread {
				b.thread = id
			}
		}
		b.line = -1
		for line, ns := range b.lines {
			if best := b.lines[b.line]; ns > best || ns == best && line < b.line {
				b.line = line
			}
		}
		p.places = append(p.places, *b)
	}
	slices.SortFunc(p.places, func(x, y blamePlace) int {
		return cmp.Or(cmp.Compare(y.ns, x.ns), cmp.Compare(x.method, y.method), cmp.Compare(x.native, y.native),
			cmp.Compare(x.path, y.path))
	})
}

// placeOf finds the place where a stack is: its innermost frame written in Ruby, and the function of Ruby's core
// (in C or, like Integer#times, in <internal:…>) that this called.
func placeOf(dict *sampler.Dictionary, stack sampler.StackID) place {
	const maxUp = 64 // C functions in a row
	var k place
	for range maxUp {
		caller, id := dict.Stack(stack)
		if id == 0 {
			break
		}
		f := dict.Frame(id)
		if !f.C && !strings.HasPrefix(f.Path, "<internal:") {
			k.method, k.path, k.line = f.Label, f.Path, f.Line
			return k
		}
		if k.native == "" {
			k.native = f.Label
		}
		stack = caller
	}
	return k
}

// words is the place as people write it: "Reports#build → JSON.generate".
func (k *placeKey) words() string {
	switch {
	case k.method == "" && k.native == "":
		return "no stack was read"
	case k.method == "":
		return k.native
	case k.native == "":
		return k.method
	}
	return k.method + " → " + k.native
}

// topShare is how many places from the top have at least most of the waiting, and which share they have.
func (p *locksPage) topShare() (n int, of float64) {
	const most, few = 0.8, 5
	var sum int64
	for n < min(len(p.places), few) {
		sum += p.places[n].ns
		n++
		if of = share(sum, p.waitNS); of >= most {
			break
		}
	}
	return n, of
}

func (p *locksPage) about(m *Model) string {
	s := fmt.Sprintf("%s of waiting for the GVL · %s", units.Duration(p.waitNS), m.when())
	if n := len(p.cycles); n > 0 {
		s = fmt.Sprintf("%d DEADLOCK · ", n) + s
	}
	return s
}

func (p *locksPage) detail(m *Model) (name, rest string) {
	i := p.index()
	switch {
	case i < 0:
		return "", ""
	case i < len(p.locks):
		l := &p.locks[i]
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
			names += gvl.ThreadName(id, m.store.dict)
		}
		return lockName(l.Kind, l.Object), "waited for by " + names
	}
	b := &p.places[i-len(p.locks)]
	return b.words(), fmt.Sprintf("%s:%d  made others wait %s (%s of all waiting)", b.path, b.line, units.Duration(b.ns), units.Percent(share(b.ns, p.waitNS)))
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

// dominant returns the state with the most time.
func dominant(ns *[gvl.NumStates]int64) gvl.State {
	best := gvl.Unknown
	for s, n := range ns {
		if n > ns[best] {
			best = gvl.State(s)
		}
	}
	return best
}
