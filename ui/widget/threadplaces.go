package widget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
)

// A Now is the content of the free rows below the threads. It shows what the threads do at the moment on the screen.
// For a selected thread it shows the stack. For a group, or for all threads, it lists the different stacks, and for
// each stack the threads that have it.
type Now struct {
	flame  *Flame // if the flamegraph folds libraries, Now does, too
	atNS   int64
	key    scene.RowKey
	in     sampler.Generation // generation of the Dictionary in which the IDs in Places are valid
	folded bool               // true if libraries are folded in Places
	Places []Spot
}

// Folds reports whether frames of libraries are folded in the stacks. They are if the flamegraph folds them.
func (n *Now) Folds() bool { return n.flame.Folding == FoldLibraries }

// Spot is a place in the code where threads are: a state and a stack, and the names of the threads that have both.
type Spot struct {
	State  gvl.State
	idle   bool // the spot's threads are in io and have nothing to do
	stack  sampler.StackID
	frames string // innermost first
	Names  []string
}

// Draw draws where in the code the threads of a row are. If w is nil, it draws this for all threads.
func (n *Now) Draw(a canvas.Area, sc *scene.Scene, w *scene.Row) {
	if a.H < scene.LeastNow || sc.LastNS == 0 {
		return
	}
	t := &sc.Theme
	of, members := "all threads", []int(nil)
	var key scene.RowKey
	var th *scene.Thread
	if w != nil {
		of, members, key = w.Name, w.Members, w.Key
		if !w.IsGroup {
			th = &sc.Threads[members[0]]
		}
	} else {
		for i := range sc.Threads {
			members = append(members, i)
		}
	}
	a.Row(0).Fill('─', t.Rule())
	x := a.Put(2, 0, canvas.Cut(" "+of, a.W/2), t.Bold())
	rest, st := " · "+sc.StackWord(), t.Dimmed()
	if th != nil && th.Known {
		rest += ": " + th.Forms(sc.Dict)[0]
	}
	x = a.Put(x, 0, canvas.Cut(rest, a.W-x-4), st)
	a.Put(x, 0, " ", t.Rule())
	rows := a.Sub(0, 1, a.W, a.H-1)
	switch {
	case th == nil:
		n.drawPlaces(rows, sc, key, members)
	case !th.Known:
		rows.Put(2, 0, "its stack at that moment is not known", t.Dimmed())
	default:
		sc.ListStack(rows.Sub(1, 0, rows.W-2, rows.H), th.State.Stack, n.Folds())
	}
}

// drawPlaces lists where the threads are. Each entry is a state and a stack, with the threads that have both. The entry
// with the most threads comes first.
func (n *Now) drawPlaces(a canvas.Area, sc *scene.Scene, key scene.RowKey, members []int) {
	t := &sc.Theme
	g := sc.Dict.Generation()
	if since := sc.AtNS - n.atNS; key != n.key || g != n.in || n.Folds() != n.folded || sc.Frozen || since < 0 || since >= panelEachNS {
		n.atNS, n.key, n.in, n.folded, n.Places = sc.AtNS, key, g, n.Folds(), placesOf(sc, members, n.Folds())
	}
	if len(n.Places) == 0 {
		a.Put(2, 0, "what they did at that moment is not known", t.Dimmed())
		return
	}
	countW, stateW := len(fmt.Sprint(len(sc.Threads))), 8
	namesW := min(a.W/4, 44)
	for y, p := range n.Places {
		if y == a.H-1 && len(n.Places) > a.H {
			a.Put(2, y, fmt.Sprintf("▼ %d more places", len(n.Places)-y), t.Dimmed())
			return
		}
		row := a.Row(y)
		x := row.Put(1, 0, canvas.PadLeft(fmt.Sprint(len(p.Names)), countW)+" × ", t.Plain())
		word, st := scene.StateWord(p.State, p.idle, t)
		row.Put(x, 0, word, st)
		x += stateW + 1
		row.Put(x, 0, canvas.Cut(p.frames, a.W-x-namesW-3), t.Plain())
		row.Put(a.W-namesW-1, 0, canvas.Cut(strings.Join(p.Names, ", "), namesW), t.Dimmed())
	}
	// The rows that are left below the list show the whole stack of the first entry.
	first := &n.Places[0]
	rest := a.Sub(0, len(n.Places), a.W, a.H-len(n.Places))
	if rest.H < scene.LeastNow || first.stack == 0 {
		return
	}
	rest.Row(0).Fill('─', t.Rule())
	x := rest.Put(2, 0, canvas.Cut(" stack of "+first.Names[0], rest.W-6), t.Bold())
	rest.Put(x, 0, " ", t.Rule())
	sc.ListStack(rest.Sub(1, 1, rest.W-2, rest.H-1), first.stack, n.Folds())
}

// placesOf groups the threads that have the same state and the same stack into one Spot.
func placesOf(sc *scene.Scene, members []int, fold bool) []Spot {
	type at struct {
		state gvl.State
		idle  bool
		stack sampler.StackID
	}
	index := make(map[at]int)
	var out []Spot
	for _, i := range members {
		th := &sc.Threads[i]
		if !th.Known {
			continue
		}
		k := at{th.State.State, th.Idle != "", th.State.Stack}
		n, ok := index[k]
		if !ok {
			n = len(out)
			index[k] = n
			out = append(out, Spot{State: k.state, idle: k.idle, stack: k.stack})
		}
		out[n].Names = append(out[n].Names, th.Name)
	}
	// The list shows only a few frames of a stack. If stacks differ only in other frames, they would look the same. So
	// they are one place.
	byText := make(map[string]int)
	merged := out[:0:0]
	for _, p := range out {
		p.frames = sc.StackText(p.stack, fold)
		k := fmt.Sprint(p.State, p.idle, p.frames)
		if n, ok := byText[k]; ok {
			merged[n].Names = append(merged[n].Names, p.Names...)
			continue
		}
		byText[k] = len(merged)
		merged = append(merged, p)
	}
	sorting.StableBy(merged, func(x, y Spot) int {
		return cmp.Or(cmp.Compare(len(y.Names), len(x.Names)),
			cmp.Compare(slices.Index(gvl.ByUrgency[:], x.State), slices.Index(gvl.ByUrgency[:], y.State)), cmp.Compare(x.frames, y.frames))
	})
	return merged
}
