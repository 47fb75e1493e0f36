package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// timelineOf returns the cells in the timeline's row that has the given name.
func (s *screen) timelineOf(name string) string {
	s.t.Helper()
	g := &s.model.Regions
	return string([]rune(s.line(name))[g.CellsX : g.CellsX+g.CellsW])
}

// TestASelectedFrameIsShownWhereItRuns: while a frame of the flamegraph is selected, the timeline highlights only the
// times in which the frame was on the stack. When the user switches to another part of the screen, the timeline shows
// all states again.
func TestASelectedFrameIsShownWhereItRuns(t *testing.T) {
	for _, noColor := range []bool{false, true} {
		s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, scene.Options{Folder: t.TempDir(), NoColor: noColor})
		whole := s.text()
		s.press("/", "R", "e", "p", "o", "r", "t", "s", "#", "b", "u", "i", "l", "d", "enter", "esc")
		s.sees("where Reports#build runs")
		if l := strings.TrimSpace(s.timelineOf("http-1 ")); l != "" {
			t.Errorf("http-1 never ran Reports#build, its row says %q", l)
		}
		if l := s.timelineOf("worker-3 "); !strings.ContainsAny(l, "█▇▆▅▄") || !strings.HasPrefix(l, "     ") {
			t.Errorf("worker-3 ran Reports#build since it hogs the GVL and not before, its row says %q", l)
		}
		s.press("down") // selects the callee, JSON or Array#map
		s.misses("where Reports#build runs")
		s.press("up", "esc")
		s.misses(" runs ")
		s.press("tab", "tab") // goes to the timeline and back, which selects the heaviest frame
		s.sees("where ")
		s.press("tab", "up", "up", "up", "up", "up")
		s.misses(" runs ")
		if got := s.timelineOf("http-1 "); got != cutOf(whole, "http-1 ", s.model) {
			t.Errorf("the timeline is %q again, was %q", got, cutOf(whole, "http-1 ", s.model))
		}
	}
}

func cutOf(screen, name string, m *Model) string {
	for l := range strings.Lines(screen) {
		if strings.Contains(l, name) {
			return string([]rune(l)[m.Regions.CellsX : m.Regions.CellsX+m.Regions.CellsW])
		}
	}
	return ""
}

// TestFrameCellsAreWhatTheSamplesSay checks every cell of the timeline against the samples, while a frame is selected.
// A cell must be highlighted if all of the thread's stacks in it have the frame. It must be empty if no stack has the
// frame. The sum of the cells must be the frame's time in the flamegraph. The timeline rounds times to slots. So the
// cell at which a stack changes may be highlighted or empty.
func TestFrameCellsAreWhatTheSamplesSay(t *testing.T) {
	samples := record(t, demosource.Options{Length: 30 * time.Second})
	s := newScreen(t, 200, 50, demosource.Options{Length: 30 * time.Second}, scene.Options{})
	for _, label := range []string{"Reports#build", "Order.find_open", "DB#query", "block in Server#start"} {
		s.model.Focus = scene.OnFlame
		s.model.Flame.SelectNode(firstOf(s.model.Flame.Tree.Root, label))
		s.model.Refresh()
		n := s.model.Flame.SelNode
		if n == nil || n.Label != label || s.model.Timeline.FrameCells == nil {
			t.Fatalf("%s is not selected: %v", label, n)
		}
		v := &s.model.Timeline
		each := (v.ToNS - v.FromNS) / int64(v.Cells)
		const slack = flamegraph.DefaultSlotNS
		runs := runsOf(samples, s.store.Dict, n)
		var sum int64
		highlighted, empty := 0, 0
		for i := range v.Visible {
			w := &v.Visible[i]
			if w.IsGroup {
				continue
			}
			cells := v.FrameCells.Cells[w.Key]
			for c := range cells {
				sum += cells[c].Listed()
				from := v.FromNS + int64(c)*each
				some, all := runs[w.Key.Thread].between(from-slack, from+each+slack)
				switch got := cells[c].Listed() > 0; {
				case got && !some:
					t.Errorf("%s: cell %d of %s is highlighted, no stack around it had it", label, c, w.Name)
				case !got && some && all && from+each <= s.model.LastNS-slack:
					// The test does not check cells with an idle state, because the flamegraph leaves out idle states.
					// Before the first sample no cell can be highlighted.
					if !w.Cells[c].Dominant.Idle() && w.Cells[c].Listed() > 0 {
						t.Errorf("%s: cell %d of %s is empty, every stack around it had it", label, c, w.Name)
					}
				case got:
					highlighted++
				default:
					empty++
				}
			}
		}
		if highlighted == 0 {
			t.Errorf("%s: nothing is highlighted", label)
		}
		if d := sum - n.Total; d > 1e6 || -d > slack*int64(len(v.Visible)) {
			t.Errorf("%s: %d ns are highlighted, the flamegraph says %d", label, sum, n.Total)
		}
		t.Logf("%s: %d cells highlighted, %d empty, %.3f s of %.3f s", label, highlighted, empty, float64(sum)/1e9, float64(n.Total)/1e9)
	}
}

// seenRuns has the times of those samples of one thread that have a stack. For each time, the field had says in how
// many earlier samples the stack has the selected frame.
type seenRuns struct {
	atNS []int64
	had  []int
}

func runsOf(samples []*sampler.Sample, d *sampler.Dictionary, n *flamegraph.Node) map[sampler.ThreadID]*seenRuns {
	has := make(map[sampler.StackID]bool)
	out := make(map[sampler.ThreadID]*seenRuns)
	for _, x := range samples {
		for i := range x.Threads {
			th := &x.Threads[i]
			if th.Stack == 0 {
				continue
			}
			r := out[th.ID]
			if r == nil {
				r = &seenRuns{had: []int{0}}
				out[th.ID] = r
			}
			h, ok := has[th.Stack]
			if !ok {
				h = hasPath(d, th.Stack, n)
				has[th.Stack] = h
			}
			count := r.had[len(r.had)-1]
			if h {
				count++
			}
			r.atNS, r.had = append(r.atNS, x.TimeNS), append(r.had, count)
		}
	}
	return out
}

// between looks at the samples between two times. The result some is true if at least one of these samples had the
// frame. The result all is true if all of them had it.
func (r *seenRuns) between(fromNS, toNS int64) (some, all bool) {
	if r == nil {
		return false, true
	}
	i, _ := slices.BinarySearch(r.atNS, fromNS)
	j, _ := slices.BinarySearch(r.atNS, toNS+1)
	had := r.had[j] - r.had[i]
	return had > 0, had == j-i
}

func firstOf(n *flamegraph.Node, label string) *flamegraph.Node {
	if n.Label == label {
		return n
	}
	for _, c := range n.Children {
		if x := firstOf(c, label); x != nil {
			return x
		}
	}
	return nil
}

// hasPath reports whether the outermost frames of a stack are the frames on the way from the flamegraph's root to a
// node. It compares frames only by their labels.
func hasPath(d *sampler.Dictionary, stack sampler.StackID, n *flamegraph.Node) bool {
	var labels, path []string
	for _, f := range d.Frames(stack, nil) {
		labels = append(labels, d.Frame(f).Label)
	}
	slices.Reverse(labels)
	for _, k := range flamegraph.PathOf(n)[1:] {
		path = append(path, k.Label)
	}
	return len(labels) >= len(path) && slices.Equal(labels[:len(path)], path)
}

// TestTheAxisOfAFrameHasWholeTimes: the name of the selected frame is drawn over the time axis and covers some of its
// times. At any width of the screen, each time must be either visible or hidden as a whole. A part of a time, such as
// the "0s" of "-10s", would be wrong.
func TestTheAxisOfAFrameHasWholeTimes(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("tab", "down", "down", "down")
	whole := regexp.MustCompile(`^(-\d+m?s|now|run|wait|io|lock|nativ|park|sleep|blame)$`)
	for w := 80; w <= 200; w++ {
		s.resize(w, 40)
		_, rest, found := strings.Cut(s.line("where "), " runs ")
		if !found {
			t.Fatalf("%d columns: the axis does not say where the frame runs", w)
		}
		for _, word := range strings.Fields(rest) {
			if !whole.MatchString(word) {
				t.Errorf("%d columns: %q in %q", w, word, rest)
			}
		}
	}
}
