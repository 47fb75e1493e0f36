package locks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// lockPlace is the line of Ruby code that takes a lock; path is "" where it is not known.
type lockPlace struct {
	label, path string
	line        int32
	uncertain   bool
}

// maxLockFrames bounds the frames that are looked through for the code that takes a lock.
const maxLockFrames = 200

// load finds out how the lock was used and where it is taken.
func (l *lockRow) load(sc *scene.Scene, r *store.Reading) {
	fromNS := max(sc.AtNS-sc.WindowNS, sc.OldestNS, r.Holds.FromNS())
	l.use, l.overNS = r.Holds.Of(l.Object, fromNS, sc.AtNS), sc.AtNS-fromNS
	l.taken = takenAt(sc.Dict, l.HolderStack, l.HolderState == gvl.Lock)
	for i := range sc.States {
		if ts := &sc.States[i]; l.taken == (lockPlace{}) && len(l.Waiters) > 0 && ts.Thread == l.Waiters[0] {
			l.taken = callOf(sc.Dict, sc.Dict.Frames(ts.Stack, nil))
		}
	}
}

// matches reports whether a search finds the lock: by what it is, by its threads or by the code that takes it.
func (l lockRow) matches(re *regexp.Regexp, dict *sampler.Dictionary) bool {
	return re.MatchString(lockName(l.Kind, l.Object)) || re.MatchString(l.taken.label) || re.MatchString(l.taken.path) ||
		l.Holder != 0 && re.MatchString(gvl.ThreadName(l.Holder, dict)) ||
		slices.ContainsFunc(l.Waiters, func(id sampler.ThreadID) bool { return re.MatchString(gvl.ThreadName(id, dict)) })
}

// takenAt is where a thread took a lock that it holds: what called the innermost of Ruby's methods that do, or the one outside of
// that where the thread waits in the innermost for another lock.
func takenAt(dict *sampler.Dictionary, stack sampler.StackID, waits bool) lockPlace {
	frames := dict.Frames(stack, nil)
	frames = frames[:min(len(frames), maxLockFrames)]
	for i, id := range frames {
		if f := dict.Frame(id); !f.C || !takesLock(f.Label) {
			continue
		}
		if !waits {
			return callOf(dict, frames[i+1:])
		}
		waits = false
	}
	return lockPlace{}
}

// takesLock reports whether a method of Ruby's takes a Mutex or Monitor.
func takesLock(label string) bool {
	class, method, _ := strings.Cut(label, "#")
	if !strings.HasSuffix(class, "Mutex") && !strings.HasSuffix(class, "Monitor") {
		return false
	}
	switch method {
	case "lock", "synchronize", "enter", "mon_enter", "mon_synchronize":
		return true
	}
	return false
}

// callOf is the innermost frame of the program's own among some, of any Ruby code where there is none of its own.
func callOf(dict *sampler.Dictionary, frames []sampler.FrameID) lockPlace {
	var out lockPlace
	for _, id := range frames[:min(len(frames), maxLockFrames)] {
		f := dict.Frame(id)
		if f.C || f.Path == "" || strings.HasPrefix(f.Path, "<internal:") {
			continue
		}
		if own := f.Own(); own || out.path == "" {
			out = lockPlace{f.Label, f.Path, f.Line, f.Uncertain}
			if own {
				return out
			}
		}
	}
	return out
}

// draw writes the code, and its file and line last: where both have no room, these are what one looks for.
func (p lockPlace) draw(a canvas.Area, t *style.Theme) {
	if p.path == "" {
		a.Put(0, 0, "–", t.Dimmed())
		return
	}
	const leastLabel = 5
	where := style.LineIn(filepath.Base(p.path), p.line, p.uncertain)
	x := 0
	if room := a.W - canvas.Width(where) - 1; room >= leastLabel {
		x = a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(p.label), room), t.Plain()) + 1
	}
	a.Put(x, 0, canvas.CutLeft(where, a.W-x), t.Dimmed())
}

// held is how long the lock was held, of a share of its holds; "–" where none was seen from its begin to its end.
func (l lockRow) held(q float64) string {
	if l.use.Held.Count() == 0 {
		return "–"
	}
	return l.use.Held.Quantile(q).Duration()
}

// heldNow is for how long its holder has had it.
func (l lockRow) heldNow() string {
	if l.use.Now == 0 {
		return "–"
	}
	return l.use.HeldNow.Duration()
}

// perSecond is how often the lock was taken, at least: who takes it while nobody waits is not seen.
func (l lockRow) perSecond() string {
	if l.overNS <= 0 {
		return "–"
	}
	hz := float64(l.use.Taken) / (float64(l.overNS) / 1e9)
	switch {
	case l.use.Taken == 0:
		return "≥0"
	case hz < 9.95:
		return fmt.Sprintf("≥%.1f", hz)
	}
	return "≥" + units.Count(int64(hz))
}

// useText is the use of a lock in a sentence, for the line that describes the selected row.
func (l lockRow) useText(sc *scene.Scene) string {
	if !l.Exclusive {
		return ""
	}
	s := fmt.Sprintf("taken %s/s, held p50 %s p95 %s max %s  ", l.perSecond(), l.held(.5), l.held(.95), l.held(1))
	if l.taken.path != "" && sc.Width >= scene.WideWidth {
		s += "at " + style.LineIn(l.taken.path, l.taken.line, l.taken.uncertain) + "  "
	}
	return s
}

// drawWaiters lists who waits for a lock, for how long and where.
func (l lockRow) drawWaiters(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	a.Put(1, 0, canvas.Cut(" who waits for "+lockName(l.Kind, l.Object)+" ", a.W-2), t.Bold())
	nameW := min(24, a.W/5)
	for y, id := range l.Waiters[:min(len(l.Waiters), a.H-1)] {
		row := a.Row(1 + y)
		if y == a.H-2 && len(l.Waiters) > a.H-1 {
			row.Put(1, 0, fmt.Sprintf("and %d more", len(l.Waiters)-y), t.Dimmed())
			break
		}
		row.Put(1, 0, canvas.Cut(gvl.ThreadName(id, sc.Dict), nameW), t.Bold())
		for i := range sc.States {
			if ts := &sc.States[i]; ts.Thread == id {
				row.Put(nameW+2, 0, canvas.PadLeft(ts.Lasted().Duration(), 9), canvas.Style{FG: t.Readable(t.States[ts.State])})
				callOf(sc.Dict, sc.Dict.Frames(ts.Stack, nil)).draw(row.Sub(nameW+13, 0, row.W-nameW-14, 1), t)
			}
		}
		sc.OnPress(row, pressThread(id))
	}
}

// pressThread opens a thread.
func pressThread(id sampler.ThreadID) func(h scene.Host, x, y int) tea.Cmd {
	return func(h scene.Host, _, _ int) tea.Cmd {
		h.Showing().Selected = scene.RowKey{Thread: id}
		return h.Open(scene.PageThread)
	}
}
