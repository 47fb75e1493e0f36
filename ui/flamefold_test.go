package ui

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page/thread"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// requestTree is the flamegraph of a server, for tests. It has two methods of the program, each below more than 20
// frames of libraries. Two middlewares lead to both methods.
type requestTree struct {
	widget.Flame
	dict    *sampler.Dictionary
	weights flamegraph.Snapshot
}

func newRequests(t *testing.T, wrappers ...string) *requestTree {
	t.Helper()
	r := &requestTree{dict: sampler.NewDictionary()}
	gem := func(name, label string) sampler.FrameID {
		return r.dict.InternFrame(sampler.Frame{Label: label, AbsolutePath: "/gems/" + name + "-1.0/lib/x.rb", Origin: sampler.OriginGem, Gem: name + " 1.0"})
	}
	own := func(label string) sampler.FrameID {
		return r.dict.InternFrame(sampler.Frame{Label: label, AbsolutePath: "/app/orders.rb", FirstLine: 3, Origin: sampler.OriginApp})
	}
	add := func(ns int64, frames ...sampler.FrameID) {
		var stack sampler.StackID
		for _, label := range wrappers {
			stack = r.dict.InternStack(stack, own(label))
		}
		for i := range 20 {
			stack = r.dict.InternStack(stack, gem("puma", fmt.Sprintf("Puma#call_%d", i)))
		}
		for _, f := range frames {
			stack = r.dict.InternStack(stack, f)
		}
		r.weights.Entries = append(r.weights.Entries, flamegraph.Entry{
			Key: flamegraph.Key{Thread: 1, Stack: stack, State: gvl.Running}, Weights: flamegraph.Weights{WallNS: ns, Samples: ns}})
	}
	a, b, c, exec := gem("rack", "Rack::Static#call"), gem("rack", "Rack::Runtime#call"), gem("rack", "Rack::Head#call"),
		r.dict.InternFrame(sampler.Frame{Label: "PG::Connection#exec", C: true, Origin: sampler.OriginCore})
	show, index := own("OrdersController#show"), own("OrdersController#index")
	add(400, a, index)
	add(200, b, index)
	add(150, b, c, show)
	add(150, a, c, show, gem("pg", "AR#load"), gem("pg", "AR#select"), gem("pg", "AR#exec"), exec)
	add(100, b, exec)
	return r
}

// smallRoom is a height of the flamegraph, in rows. It is enough for only a part of the server's frames.
const smallRoom = 5

// draw builds the flamegraph again, as a refresh of the screen does, and returns its picture.
func (r *requestTree) draw() string {
	r.Build(&r.weights, r.dict, nil, func(sampler.ThreadID) string { return "web" }, 100, smallRoom)
	r.Fit(smallRoom)
	var rows []string
	for _, row := range r.Picture.Rows {
		var cells []string
		for _, c := range row {
			if c.Text != "" {
				cells = append(cells, strings.TrimSpace(c.Text))
			}
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	return strings.Join(rows, "\n")
}

func (r *requestTree) label() string {
	if r.SelNode == nil {
		return ""
	}
	return r.SelNode.Text()
}

// TestOwnCodeIsOnTheFirstScreen: the program's own code may be below the visible rows of the flamegraph. ddtop then
// folds frames of libraries into fewer rows.
func TestOwnCodeIsOnTheFirstScreen(t *testing.T) {
	r := newRequests(t)
	const want = `web
⋯ 21 frames: puma, rack
OrdersController#index | OrdersController#show | Conn…#exec
⋯ 4 frames: pg
Connection#exec`
	if got := r.draw(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.Folding != widget.FoldLibraries {
		t.Errorf("it is folded by %d", r.Folding)
	}
	few := newRequests(t)
	for i := range few.weights.Entries {
		few.weights.Entries[i].Weights.Samples /= 50
	}
	if few.draw(); few.Folding != widget.FoldLibraries || few.Tree.Samples >= widget.FewSamples {
		t.Errorf("of %d samples it is folded by %d", few.Tree.Samples, few.Folding)
	}
	deep := newRequests(t)
	deep.Build(&deep.weights, deep.dict, nil, func(sampler.ThreadID) string { return "web" }, 100, 40)
	if deep.Folding != widget.FoldByItself {
		t.Error("with room for all of it, it is folded too")
	}
}

// TestTheCaptionSaysHowMuchIsHidden: if the flamegraph shows only 1 % of the time and hides the other 99 %, the caption
// says so.
func TestTheCaptionSaysHowMuchIsHidden(t *testing.T) {
	r := newRequests(t)
	for _, c := range []struct {
		parked int64
		want   string
	}{{1000, "idle hidden"}, {99_000, "1.0 % of the time, idle hidden"}} {
		e := r.weights.Entries[0]
		e.Key.State, e.Weights = gvl.Parked, flamegraph.Weights{WallNS: c.parked, Samples: c.parked}
		weights := r.weights
		weights.Entries = append(slices.Clone(weights.Entries), e)
		r.Build(&weights, r.dict, nil, func(sampler.ThreadID) string { return "web" }, 100, smallRoom)
		var g canvas.Grid
		g.Reset(120, 1)
		r.DrawRule(g.Area(), new(style.Theme), false, "last 30s")
		if got := g.Text(); !strings.Contains(got, " · "+c.want+" · ") {
			t.Errorf("%d ns of rest: %q, want %q", c.parked, got, c.want)
		}
	}
}

// TestRoomIsForTheFoldedPicture: a flamegraph with folded frames has fewer rows than one with whole stacks. It must ask
// the screen for only as many rows as it has.
func TestRoomIsForTheFoldedPicture(t *testing.T) {
	r := newRequests(t)
	r.Folding = widget.FoldNothing
	build := func() {
		r.Build(&r.weights, r.dict, nil, func(sampler.ThreadID) string { return "web" }, 100, 40)
	}
	build()
	whole := r.RowsWanted(1)
	r.NextFolding() // own code only
	build()
	if got := r.RowsWanted(2); got != len(r.Picture.Rows) || got >= whole {
		t.Errorf("%d rows are wanted for %d, and %d for whole stacks", got, len(r.Picture.Rows), whole)
	}
}

// TestFoldingKey: the key c switches the flamegraph between three states. It shows only the program's own code, or it
// folds consecutive library frames into one row, or it folds nothing. The selected frame stays selected.
func TestFoldingKey(t *testing.T) {
	r := newRequests(t)
	r.draw()
	r.SelectNode(nodeOf(r.Tree.Root, "OrdersController#index"))
	r.draw()
	total := r.SelNode.Total
	if total != 600 {
		t.Errorf("both branches together weigh %d", total)
	}
	for _, want := range []struct {
		folding widget.Folding
		rows    int
		total   int64
	}{{widget.FoldRuns, 8, 400}, {widget.FoldNothing, 28, 400}, {widget.FoldLibraries, 5, 600}} {
		r.NextFolding()
		picture := r.draw()
		if r.Folding != want.folding || r.label() != "OrdersController#index" || r.SelNode.Total != want.total {
			t.Errorf("folded by %d: %q of %d is selected", r.Folding, r.label(), r.SelNode.Total)
		}
		if n := len(r.Picture.Rows); n != want.rows {
			t.Errorf("folded by %d: %d rows, want %d\n%s", r.Folding, n, want.rows, picture)
		}
	}
}

// TestOpeningARun: a run is a row that stands for several consecutive frames. Enter on a run shows these frames, and
// esc folds them again. A search highlights a run that contains a match, and enter then goes to the match.
func TestOpeningARun(t *testing.T) {
	r := newRequests(t)
	r.draw()
	r.Down() // selects the thread
	r.draw()
	r.Down()
	if r.draw(); r.SelNode.Kind != flamegraph.RunNode || !strings.HasPrefix(r.label(), "⋯ ") {
		t.Fatalf("%q is selected", r.label())
	}
	if name, rest := r.Detail(r.dict); !strings.Contains(name, "puma, rack") || !strings.Contains(rest, "enter opens") || !strings.Contains(rest, "total 100.0 %") {
		t.Errorf("%q %q", name, rest)
	}
	run := r.Selected
	r.ZoomIn()
	if got := r.draw(); !strings.Contains(got, "Puma#call_19") || !strings.Contains(got, "Rack::Runtime#call") {
		t.Errorf("open it is\n%s", got)
	}
	for range 5 {
		r.Down()
		r.draw()
	}
	if !strings.HasPrefix(r.label(), "Puma#call_") {
		t.Errorf("within it %q is selected", r.label())
	}
	if !r.ZoomOut() {
		t.Fatal("it was not open")
	}
	if got := r.draw(); strings.Contains(got, "Puma#call") || r.SelNode.Kind != flamegraph.RunNode {
		t.Errorf("%q is selected in\n%s", r.label(), got)
	}
	r.Search = regexp.MustCompile("Rack::Head")
	r.draw()
	if r.NextMatch(+1); r.draw() == "" || fmt.Sprint(r.Selected) != fmt.Sprint(run) || r.Matches.Share != 0.3 {
		t.Fatalf("%q is found, %v", r.label(), r.Matches.Share)
	}
	r.ZoomIn()
	if r.draw(); r.label() != "Rack::Head#call" {
		t.Errorf("opened, %q is selected", r.label())
	}
	if y, _, ok := r.Find(r.SelNode); !ok || y < r.Top || y >= r.Top+r.Height {
		t.Errorf("what was found is in row %d of %d from %d", y, r.Height, r.Top)
	}
}

// TestStackOfOneThreadIsFolded: in the stack of a single thread, consecutive library frames are folded into one row.
// The program's own code and the innermost frame each keep a row.
func TestStackOfOneThreadIsFolded(t *testing.T) {
	r := newRequests(t)
	var all []thread.StackFrame
	for _, id := range r.dict.Frames(r.weights.Entries[3].Key.Stack, nil) {
		all = append(all, thread.StackFrame{Frame: r.dict.Frame(id)})
	}
	var got []string
	for _, f := range thread.FoldFrames(all) {
		if got = append(got, f.Label); f.Folded != strings.HasPrefix(f.Label, "⋯") {
			t.Errorf("%s is folded: %v", f.Label, f.Folded)
		}
	}
	if want := "PG::Connection#exec, ⋯ 3 frames: pg, OrdersController#show, ⋯ 22 frames: puma, rack"; strings.Join(got, ", ") != want {
		t.Errorf("%q", got)
	}
	s := hogged(t, 120, 40)
	s.press("2", "down", "down", "enter", "c")
	if p := s.model.pages[scene.PageThread].(*thread.Page); len(p.Frames.Rows) > p.Depth || s.model.Flame.Folding != widget.FoldLibraries {
		t.Errorf("%d rows of %d frames, folded by %d", len(p.Frames.Rows), p.Depth, s.model.Flame.Folding)
	}
	s.press("c")
	if p := s.model.pages[scene.PageThread].(*thread.Page); len(p.Frames.Rows) != p.Depth {
		t.Errorf("%d rows of %d frames", len(p.Frames.Rows), p.Depth)
	}
}

// TestAWrapperIsNotTheCode: one method of the program wraps all requests, and its frame is visible. ddtop must fold
// frames of libraries even so, because the wrapper does not show what the requests do.
func TestAWrapperIsNotTheCode(t *testing.T) {
	r := newRequests(t, "RequestLog#call")
	if got := r.draw(); r.Folding != widget.FoldLibraries || !strings.Contains(got, "index") {
		t.Errorf("folding %d:\n%s", r.Folding, got)
	}
}
