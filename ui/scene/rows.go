package scene

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/style"
)

// RowDetail describes a row of threads.
func (sc *Scene) RowDetail(w *Row) (name, rest string) {
	var parts []string
	if w.IsGroup {
		var listed int64
		for _, ns := range w.Totals {
			listed += ns
		}
		states := Urgency
		slices.SortStableFunc(states[:], func(x, y gvl.State) int { return cmp.Compare(w.Totals[y], w.Totals[x]) })
		for _, s := range states {
			if sh := style.Share(w.Totals[s], listed); sh >= 0.005 {
				parts = append(parts, fmt.Sprintf("%s %s", s, units.Percent(sh)))
			}
		}
		return w.Name, strings.Join(parts, " · ")
	}
	th := &sc.Threads[w.Members[0]]
	info, _ := sc.Dict.Thread(th.ID)
	if th.Known {
		parts = append(parts, gvl.DescribeFit(th.State, sc.Dict)[0])
		if _, f := sc.Dict.Stack(th.State.Stack); f != 0 {
			fr := sc.Dict.Frame(f)
			where := fr.Label
			if fr.Path != "" && !fr.C {
				where += " " + style.LineIn(fr.Path, fr.Line, fr.Uncertain)
			}
			parts = append(parts, "in "+where)
		}
	}
	if info.TID != 0 {
		parts = append(parts, fmt.Sprintf("tid %d", info.TID))
	}
	if info.Ractor > 1 {
		parts = append(parts, fmt.Sprintf("ractor %d", info.Ractor))
	}
	return th.Name, strings.Join(parts, "  ")
}

// Row is a line of the list: a thread, a group's head, or a member of an opened group.
type Row struct {
	Key     RowKey
	Name    string
	Members []int // indexes into threads
	IsGroup bool
	Open    bool
	InGroup bool
	Totals  [gvl.NumStates]int64
	Cells   []gvl.Cell
	Now     []string  // in words, the fullest form first
	State   gvl.State // of a thread now
	Ident   int       // of a thread in the GVL lane; 0: none
	Holds   bool      // it holds the GVL now
	Listens bool      // in io it rests; of a group, all that are in io do
	Then    bool      // now is of a moment of the time axis
}

// Words are those of now in full; "": not known.
func (w *Row) Words() string {
	if len(w.Now) == 0 {
		return ""
	}
	return w.Now[0]
}

func (w Row) ID() RowKey { return w.Key }

func (w Row) Line() *Row { return &w }
