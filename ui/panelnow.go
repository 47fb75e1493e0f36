package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// nowView fills rows that the threads leave free with where they are: the stack of the selected one, or which stacks the threads
// of a group, or all, are on at the moment shown.
type nowView struct {
	flame  *flameView // where it folds libraries, stacks do
	atNS   int64
	key    rowKey
	in     sampler.Generation // the Dictionary's generation that places is of
	folded bool               // so are places
	places []spot
}

// folds reports whether frames of libraries are folded, as in the flamegraph.
func (n *nowView) folds() bool { return n.flame.folding == foldLibraries }

// spot is a state and a stack with the threads that are there.
type spot struct {
	state  gvl.State
	stack  sampler.StackID
	frames string // innermost first
	names  []string
}

const (
	// leastNow is the height from which on the list says something, its rule included.
	leastNow = 5
	// placeFrames is how many frames identify a place: a thread in IO#gets is identified by its callers.
	placeFrames = 5
)

// draw draws where the threads of a row are; nil: all threads.
func (n *nowView) draw(a canvas.Area, sc *scene, w *row) {
	if a.H < leastNow || sc.lastNS == 0 {
		return
	}
	t := &sc.Theme
	of, members := "all threads", []int(nil)
	var key rowKey
	var th *threadRow
	if w != nil {
		of, members, key = w.name, w.members, w.key
		if !w.isGroup {
			th = &sc.threads[members[0]]
		}
	} else {
		for i := range sc.threads {
			members = append(members, i)
		}
	}
	a.Row(0).Fill('─', t.Rule())
	x := a.Put(2, 0, canvas.Cut(" "+of, a.W/2), t.Bold())
	rest, st := " · "+sc.stackWord(), t.Dimmed()
	if th != nil && th.known {
		rest += ": " + gvl.DescribeFit(th.state, sc.dict)[0]
	}
	x = a.Put(x, 0, canvas.Cut(rest, a.W-x-4), st)
	a.Put(x, 0, " ", t.Rule())
	rows := a.Sub(0, 1, a.W, a.H-1)
	switch {
	case th == nil:
		n.drawPlaces(rows, sc, key, members)
	case !th.known:
		rows.Put(2, 0, "its stack at that moment is not known", t.Dimmed())
	default:
		sc.listStack(rows.Sub(1, 0, rows.W-2, rows.H), th.state.Stack, n.folds())
	}
}

// drawPlaces lists the places of threads, those of most threads first.
func (n *nowView) drawPlaces(a canvas.Area, sc *scene, key rowKey, members []int) {
	t := &sc.Theme
	g := sc.dict.Generation()
	if since := sc.atNS - n.atNS; key != n.key || g != n.in || n.folds() != n.folded || sc.frozen || since < 0 || since >= panelEachNS {
		n.atNS, n.key, n.in, n.folded, n.places = sc.atNS, key, g, n.folds(), sc.placesOf(members, n.folds())
	}
	if len(n.places) == 0 {
		a.Put(2, 0, "what they did at that moment is not known", t.Dimmed())
		return
	}
	countW, stateW := len(fmt.Sprint(len(sc.threads))), 8
	namesW := min(a.W/4, 44)
	for y, p := range n.places {
		if y == a.H-1 && len(n.places) > a.H {
			a.Put(2, y, fmt.Sprintf("▼ %d more places", len(n.places)-y), t.Dimmed())
			return
		}
		row := a.Row(y)
		x := row.Put(1, 0, canvas.PadLeft(fmt.Sprint(len(p.names)), countW)+" × ", t.Plain())
		st := canvas.Style{FG: t.Readable(t.States[p.state])}
		if p.state == gvl.Waiting || p.state.Held() || p.state == gvl.Lock {
			st.Attr = canvas.Bold
		}
		row.Put(x, 0, p.state.String(), st)
		x += stateW + 1
		row.Put(x, 0, canvas.Cut(p.frames, a.W-x-namesW-3), t.Plain())
		row.Put(a.W-namesW-1, 0, canvas.Cut(strings.Join(p.names, ", "), namesW), t.Dimmed())
	}
	// What is left has the stack of most of them in full.
	first := &n.places[0]
	rest := a.Sub(0, len(n.places), a.W, a.H-len(n.places))
	if rest.H < leastNow || first.stack == 0 {
		return
	}
	rest.Row(0).Fill('─', t.Rule())
	x := rest.Put(2, 0, canvas.Cut(" stack of "+first.names[0], rest.W-6), t.Bold())
	rest.Put(x, 0, " ", t.Rule())
	sc.listStack(rest.Sub(1, 1, rest.W-2, rest.H-1), first.stack, n.folds())
}

// placesOf groups threads by their state and stack.
func (sc *scene) placesOf(members []int, fold bool) []spot {
	type at struct {
		state gvl.State
		stack sampler.StackID
	}
	index := make(map[at]int)
	var out []spot
	for _, i := range members {
		th := &sc.threads[i]
		if !th.known {
			continue
		}
		k := at{th.state.State, th.state.Stack}
		n, ok := index[k]
		if !ok {
			n = len(out)
			index[k] = n
			out = append(out, spot{state: k.state, stack: k.stack})
		}
		out[n].names = append(out[n].names, th.name)
	}
	// Stacks that differ further out than what is written are one place.
	byText := make(map[string]int)
	merged := out[:0:0]
	for _, p := range out {
		p.frames = sc.stackText(p.stack, fold)
		k := p.state.String() + " " + p.frames
		if n, ok := byText[k]; ok {
			merged[n].names = append(merged[n].names, p.names...)
			continue
		}
		byText[k] = len(merged)
		merged = append(merged, p)
	}
	slices.SortStableFunc(merged, func(x, y spot) int {
		return cmp.Or(cmp.Compare(len(y.names), len(x.names)),
			cmp.Compare(slices.Index(urgency[:], x.state), slices.Index(urgency[:], y.state)), cmp.Compare(x.frames, y.frames))
	})
	return merged
}
