package locks

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageLocks,
	Key:    "6",
	Help:   "deadlocks, locks and what they cost, and the code that makes threads wait for the GVL",
	Shared: page.SearchShared,
	Make:   page.Makes(New),
}

// Page shows deadlocks, the locks and other objects that threads wait for, and the code that made other threads wait
// for the GVL.
type Page struct {
	page.Plain
	flame *widget.Flame // the flamegraph's search selects the rows
	// Both has the rows of the table of locks and of the table of places. The tables share one cursor, which moves from
	// one to the other.
	Both    widget.List[lockKey, lockKey]
	Locks   widget.Table[lockRow, lockKey]
	ByPlace widget.Table[placeRow, lockKey]

	cycles [][]deadLink
	// ShortLocks is the number of locks that are not listed because all waits for them were too short. It counts only
	// locks for which threads wait now, or waited in the time that is shown.
	ShortLocks int
	widget.Blame
	placesOf widget.PlacesFrom
}

// lockKey identifies a row: a lock, or a place in the code that made threads wait for the GVL.
type lockKey struct {
	Object uint64
	kind   string
	holder sampler.ThreadID
	Place  flamegraph.Place
	// isPlace is true for a place in the code. It distinguishes the key of a place without a stack from the zero
	// lockKey, which means that no row is selected.
	isPlace bool
}

func (k lockKey) ID() lockKey { return k }

// lockRow is a row of the table of locks, and placeRow a row of the table of places.
type (
	lockRow struct {
		*account.Contended
		// use says how threads used the lock in the time that is shown. overNS is the part of this time in which ddtop
		// watched the lock, in ns. For a queue both are empty.
		use    account.LockUse
		overNS int64
		cost   account.LockCost
		// taken is the code in which the holder took the lock. If this is not known, it is the code in which a thread
		// waits for the lock. If no thread waits now, it is the code of the longest wait.
		taken lockPlace
	}
	placeRow struct{ *flamegraph.PlaceSum }
)

func (l lockRow) ID() lockKey {
	k := lockKey{Object: l.Object, kind: l.Kind}
	if l.Object == 0 {
		k.holder = l.Holder
	}
	return k
}

func (b placeRow) ID() lockKey { return lockKey{Place: b.Place, isPlace: true} }

// deadLink is one thread of a deadlock.
type deadLink struct {
	thread, holder sampler.ThreadID
	kind           string
	object         uint64
	stack          sampler.StackID // the holder's stack
}

func New(c *widget.Parts) *Page {
	cursor := new(lockKey)
	p := &Page{flame: &c.Flame, Both: widget.List[lockKey, lockKey]{Cursor: cursor}}
	p.Locks = widget.Table[lockRow, lockKey]{List: widget.List[lockRow, lockKey]{Cursor: cursor}, Columns: lockColumns(), Left: 1}
	p.ByPlace = widget.Table[placeRow, lockKey]{List: widget.List[placeRow, lockKey]{Cursor: cursor}, Columns: p.placeColumns(), Left: 1}
	p.KeyMap = scene.KeyMap{Title: "locks and blame", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "holder", Help: "open the thread that holds the lock, or that made threads wait",
			Do: func(h scene.Host) tea.Cmd { return p.enter(h) }},
	}, widget.CursorKeys("", "select a lock or a place", p.move))}
	return p
}

func (p *Page) Found() string { return units.Plural(len(p.Both.Rows), "row", "rows") }

// SelectLock puts the cursor on a lock.
func (p *Page) SelectLock(l *account.Contended) { *p.Both.Cursor = lockRow{Contended: l}.ID() }

func (p *Page) move(_ scene.Host, by widget.Step) tea.Cmd {
	if p.Both.Height = p.ByPlace.Height; p.Locks.Index() >= 0 {
		p.Both.Height = p.Locks.Height
	}
	p.Both.Move(by)
	return nil
}

// enter opens the page of the thread that the selected row is about.
func (p *Page) enter(h scene.Host) tea.Cmd {
	var id sampler.ThreadID
	if i := p.Locks.Index(); i >= 0 {
		l := p.Locks.Rows[i]
		if id = l.Holder; id == 0 && len(l.Waiters) > 0 {
			id = l.Waiters[0]
		}
		if id == 0 {
			h.Message().Tell("no thread holds it or waits for it now")
			return nil
		}
	} else if i := p.ByPlace.Index(); i >= 0 {
		id = p.ByPlace.Rows[i].Thread
	} else {
		return p.move(h, widget.Step{Rows: +1})
	}
	h.Showing().Selected = scene.RowKey{Thread: id}
	return h.Open(scene.PageThread)
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	if i := p.Both.Index(); i >= 0 {
		p.Both.At = i // a click may have selected another row
	}
	all := account.Locks(sc.States)
	// The list has locks first, and then other objects, such as queues. locks is the number of locks for which threads
	// wait now.
	locks := max(slices.IndexFunc(all, func(c account.Contended) bool { return !c.Exclusive }), 0)
	if locks == 0 && len(all) > 0 && all[0].Exclusive {
		locks = len(all)
	}
	recent := slices.DeleteFunc(r.Holds.Recent(sc.AtNS-sc.WindowNS, sc.AtNS), func(l account.Contended) bool {
		return slices.ContainsFunc(all[:locks], func(x account.Contended) bool { return x.Object == l.Object })
	})
	costs := r.Holds.Costs(sc.AtNS-sc.WindowNS, sc.AtNS, func(stack sampler.StackID, kind string) bool {
		return gvl.FitsLock(sc.Dict, stack, kind)
	})
	all = slices.Insert(all, locks, recent...)
	locks += len(recent)
	for _, c := range costs { // add locks for which ddtop has seen no end of a hold
		if !slices.ContainsFunc(all[:locks], func(x account.Contended) bool { return x.Object == c.Object }) {
			all = slices.Insert(all, locks, account.Contended{Kind: c.Kind, Object: c.Object, Exclusive: true})
			locks++
		}
	}
	sorting.StableBy(all[:locks], func(x, y account.Contended) int { // the most expensive locks first
		return cmp.Or(cmp.Compare(costs[y.Object].WaitedNS, costs[x.Object].WaitedNS), cmp.Compare(x.Object, y.Object))
	})
	p.Locks.Rows, p.ByPlace.Rows, p.Both.Rows = p.Locks.Rows[:0], p.ByPlace.Rows[:0], p.Both.Rows[:0]
	for i := range all {
		if l := (lockRow{Contended: &all[i]}); l.SeenNS >= int64(sc.Opt.WaitThreshold) || len(l.Waiters) == 0 {
			if l.Exclusive {
				l.cost = costs[l.Object]
				l.load(sc, r)
			}
			p.Locks.Rows, p.Both.Rows = append(p.Locks.Rows, l), append(p.Both.Rows, l.ID())
		}
	}
	p.ShortLocks = len(all) - len(p.Locks.Rows) // locks with only short waits are not listed
	if re := p.flame.Listed(); re != nil {
		p.Locks.Rows = slices.DeleteFunc(p.Locks.Rows, func(l lockRow) bool { return !l.matches(re, sc.Dict) })
		p.Both.Rows = p.Both.Rows[:0]
		for _, l := range p.Locks.Rows {
			p.Both.Rows = append(p.Both.Rows, l.ID())
		}
	}
	p.loadCycles(sc.States)
	if of := (widget.PlacesFrom{FromNS: sc.Weights.FromNS, ToNS: sc.Weights.ToNS, Hides: sc.Dict.HidesDirectories()}); of != p.placesOf {
		p.placesOf = of
		p.Blame = widget.BlameOf(&sc.Weights, sc.Dict)
	}
	for i := range p.Places {
		b := placeRow{&p.Places[i]}
		if re := p.flame.Listed(); re != nil && !re.MatchString(b.String()) && !re.MatchString(b.Path) &&
			!re.MatchString(gvl.ThreadName(b.Thread, sc.Dict)) {
			continue
		}
		p.ByPlace.Rows, p.Both.Rows = append(p.ByPlace.Rows, b), append(p.Both.Rows, b.ID())
	}
}

func (p *Page) loadCycles(states []gvl.ThreadState) {
	p.cycles = p.cycles[:0]
	byID := make(map[sampler.ThreadID]*gvl.ThreadState, len(states))
	for i := range states {
		byID[states[i].Thread] = &states[i]
	}
	for _, c := range account.Deadlocks(states) {
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

// topShare returns how many of the worst places together caused 80 % of the waiting. The result of is the exact share
// that these places caused. topShare counts at most five places.
func (p *Page) topShare() (n int, of float64) {
	const most, few = 0.8, 5
	var sum int64
	for n < min(len(p.Places), few) {
		sum += p.Places[n].NS
		n++
		if of = style.Share(sum, p.WaitNS); of >= most {
			break
		}
	}
	return n, of
}

func (p *Page) About(sc *scene.Scene) string {
	waiters := 0
	for i := range p.Locks.Rows {
		if l := &p.Locks.Rows[i]; l.Exclusive {
			waiters += len(l.Waiters)
		}
	}
	s := ""
	if waiters > 0 {
		s = units.Plural(waiters, "thread waits", "threads wait") + " for locks" + style.Between
	}
	if p.WaitNS > 0 {
		s += units.Duration(p.WaitNS) + " of waiting for the GVL" + style.Between
	}
	s += sc.When()
	if n := len(p.cycles); n > 0 {
		s = fmt.Sprintf("%d DEADLOCK · ", n) + s
	}
	return s
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	if i := p.Locks.Index(); i >= 0 {
		l := p.Locks.Rows[i]
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
			names += gvl.ThreadName(id, sc.Dict)
		}
		if names == "" {
			names = "no thread now"
		}
		return lockName(l.Kind, l.Object), l.useText(sc) + "waiting: " + names
	}
	if i := p.ByPlace.Index(); i >= 0 {
		b := p.ByPlace.Rows[i]
		code, where := gvl.AddLine(b.String(), style.LineIn(b.Path, b.Line, false))
		return code, style.Beside(where, fmt.Sprintf("made others wait %s (%s of all waiting)", units.Duration(b.NS),
			units.Percent(style.Share(b.NS, p.WaitNS))))
	}
	return "", ""
}

// lockName returns the kind and the address of a lock.
func lockName(kind string, object uint64) string {
	if kind == "" {
		kind = "a lock"
	}
	if object == 0 {
		return kind
	}
	return fmt.Sprintf("%s 0x%x", kind, object)
}

// lockPlace is the line of Ruby code that takes a lock. path is empty if it is not known.
type lockPlace struct {
	label, path string
	line        int32
	uncertain   bool
}

// maxLockFrames limits in how many frames of a stack ddtop searches for the code that takes a lock.
const maxLockFrames = 200

// load finds how the lock was used, and in which code threads take it.
func (l *lockRow) load(sc *scene.Scene, r *store.Reading) {
	fromNS := max(sc.AtNS-sc.WindowNS, sc.OldestNS, r.Holds.FromNS())
	l.use, l.overNS = r.Holds.Of(l.Object, fromNS, sc.AtNS), sc.AtNS-fromNS
	l.taken = takenAt(sc.Dict, l.HolderStack, l.Kind, l.HolderState == gvl.Lock)
	for i := range sc.States {
		if l.taken != (lockPlace{}) {
			return
		}
		if ts := &sc.States[i]; slices.Contains(l.Waiters, ts.Thread) && gvl.FitsLock(sc.Dict, ts.Stack, l.Kind) {
			l.taken = callOf(sc.Dict, sc.Dict.Frames(ts.Stack, nil))
		}
	}
	if l.taken == (lockPlace{}) {
		l.taken = callOf(sc.Dict, sc.Dict.Frames(l.cost.Stack, nil))
	}
}

// matches reports whether a search finds the lock: by its name, by its threads, or by the code that takes it.
func (l lockRow) matches(re *regexp.Regexp, dict *sampler.Dictionary) bool {
	return re.MatchString(lockName(l.Kind, l.Object)) || re.MatchString(l.taken.label) || re.MatchString(l.taken.path) ||
		l.Holder != 0 && re.MatchString(gvl.ThreadName(l.Holder, dict)) ||
		slices.ContainsFunc(l.Waiters, func(id sampler.ThreadID) bool { return re.MatchString(gvl.ThreadName(id, dict)) })
}

// takenAt returns where a thread took a lock that it holds. This is the caller of the method that takes locks of this
// kind, such as Mutex#lock. If waits is true, takenAt ignores the innermost frame, because the thread waits there for
// another lock. If several frames take locks of this kind, each of them can have taken this lock. Then the result is
// empty.
func takenAt(dict *sampler.Dictionary, stack sampler.StackID, kind string, waits bool) (taken lockPlace) {
	frames := dict.Frames(stack, nil)
	frames = frames[:min(len(frames), maxLockFrames)]
	for i, id := range frames {
		f := dict.Frame(id)
		if !f.C || waits && i == 0 || !takesLock(f.Label, kind) {
			continue
		}
		if taken != (lockPlace{}) {
			return lockPlace{}
		}
		taken = callOf(dict, frames[i+1:])
	}
	return taken
}

// takesLock reports whether a label names a method of Ruby itself that takes a lock of this kind (Mutex or Monitor),
// such as Mutex#lock.
func takesLock(label, kind string) bool {
	class, method, _ := strings.Cut(label, "#")
	if !strings.HasSuffix(class, kind) {
		return false
	}
	switch method {
	case "lock", "synchronize", "enter", "mon_enter", "mon_synchronize":
		return true
	}
	return false
}

// callOf returns the innermost frame that is the program's own code. If there is none, it returns the innermost frame
// of a gem, or else the innermost Ruby frame. It prefers a gem to the standard library, because the library's
// monitor.rb takes locks only for its callers.
func callOf(dict *sampler.Dictionary, frames []sampler.FrameID) (out lockPlace) {
	inGem := false
	for _, id := range frames[:min(len(frames), maxLockFrames)] {
		f := dict.Frame(id)
		if f.C || f.Path == "" || strings.HasPrefix(f.Path, "<internal:") {
			continue
		}
		place := lockPlace{f.Label, f.Path, f.Line, f.Uncertain}
		switch gem := f.From() == sampler.OriginGem; {
		case f.Own():
			return place
		case out.path == "" || gem && !inGem:
			out, inGem = place, gem
		}
	}
	return out
}

// draw writes the name of the function, and then its file and line. If there is no room for both, it writes only the
// file and line.
func (p lockPlace) draw(a canvas.Area, t *style.Theme) {
	if p.path == "" {
		a.Put(0, 0, "–", t.Dimmed())
		return
	}
	const leastLabel = 5
	label, where := gvl.AddLine(canvas.Clean(p.label), style.LineIn(filepath.Base(p.path), p.line, p.uncertain))
	if where == "" { // for a template, the label already ends with the line
		a.Put(0, 0, canvas.CutLeft(label, a.W), t.Plain())
		return
	}
	x := 0
	if room := a.W - canvas.Width(where) - 1; room >= leastLabel {
		x = a.Put(0, 0, flamegraph.LabelFit(label, room), t.Plain()) + 1
	}
	a.Put(x, 0, canvas.CutLeft(where, a.W-x), t.Dimmed())
}

// heldShares are the quantiles of the hold times of a lock that the table shows: p50, p95 and max.
var heldShares = [...]float64{.5, .95, 1}

// held returns, as text, the i-th quantile (heldShares) of the times for which a lock was held. If ddtop saw no hold
// from its beginning to its end, held returns "–".
func (l lockRow) held(i int) string {
	if l.use.Held.Count() == 0 {
		return "–"
	}
	return known(l.use.Told(heldShares[:]...)[i])
}

// known returns a duration as text. It returns "–" if the duration is not known.
func known(b gvl.Bounded) string {
	if b.NS == 0 {
		return "–"
	}
	return b.Duration()
}

// heldNow returns as text how long the present holder has held the lock. It is "–" if this is not known.
func (l lockRow) heldNow() string {
	if l.use.Now == 0 {
		return "–"
	}
	return known(l.use.HeldNow)
}

// perSecond returns how often per second threads took the lock, as a lower limit. The true number may be larger,
// because ddtop sees a hold only if another thread waits for the lock.
func (l lockRow) perSecond() string {
	if l.overNS <= 0 || l.use.Taken == 0 {
		return "–"
	}
	hz := float64(l.use.Taken) / (float64(l.overNS) / 1e9)
	switch {
	case hz < 9.95:
		return fmt.Sprintf("≥%.1f", hz)
	}
	return "≥" + units.Count(int64(hz))
}

// useText describes how threads use a lock. The screen shows it in the line about the selected row.
func (l lockRow) useText(sc *scene.Scene) string {
	if !l.Exclusive {
		return ""
	}
	s := ""
	if l.cost.WaitedNS > 0 {
		s = "waited for " + units.Duration(l.cost.WaitedNS) + " in all  "
	}
	s += fmt.Sprintf("taken %s/s, held p50 %s p95 %s max %s  ", l.perSecond(), l.held(0), l.held(1), l.held(2))
	if l.taken.path != "" && sc.Width >= scene.WideWidth {
		s += "at " + style.LineIn(l.taken.path, l.taken.line, l.taken.uncertain) + "  "
	}
	return s
}

// drawWaiters lists the threads that wait for a lock. For each it shows how long the thread has waited, and in which
// code.
func (l lockRow) drawWaiters(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	t.Heading(a, " who waits for "+lockName(l.Kind, l.Object)+" ")
	nameW := min(24, a.W/5)
	for y, id := range l.Waiters[:min(len(l.Waiters), a.H-1)] {
		row := a.Row(1 + y)
		if y == a.H-2 && len(l.Waiters) > a.H-1 {
			row.Put(1, 0, fmt.Sprintf("and %d more", len(l.Waiters)-y), t.Dimmed())
			break
		}
		row.Put(1, 0, canvas.CutName(gvl.ThreadName(id, sc.Dict), nameW), t.Bold())
		for i := range sc.States {
			if ts := &sc.States[i]; ts.Thread == id {
				row.Put(nameW+2, 0, canvas.PadLeft(known(ts.Told()), 9), canvas.Style{FG: t.Readable(t.States[ts.State])})
				callOf(sc.Dict, sc.Dict.Frames(ts.Stack, nil)).draw(row.Sub(nameW+13, 0, row.W-nameW-14, 1), t)
			}
		}
		sc.OnPress(row, pressThread(id))
	}
}

// pressThread returns what a click on a thread does: it opens the thread.
func pressThread(id sampler.ThreadID) func(h scene.Host, x, y int) tea.Cmd {
	return func(h scene.Host, _, _ int) tea.Cmd {
		h.Showing().Selected = scene.RowKey{Thread: id}
		return h.Open(scene.PageThread)
	}
}
