package flamegraph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// checkPicture checks the rules that every Picture must follow.
func checkPicture(t *testing.T, p Picture, maxRows int) {
	t.Helper()
	if len(p.Rows) > maxRows {
		t.Fatalf("%d rows, limit %d", len(p.Rows), maxRows)
	}
	var spans map[*Node][2]int
	for y, row := range p.Rows {
		x := 0
		next := map[*Node][2]int{}
		for _, c := range row {
			if c.X != x || c.W < 1 {
				t.Fatalf("row %d: a cell at %d of width %d, the last one ended at %d", y, c.X, c.W, x)
			}
			x += c.W
			if w := ansi.StringWidth(c.Text); w > c.W {
				t.Fatalf("text %q of width %d in a cell of %d", c.Text, w, c.W)
			}
			parent := c.Parent
			if c.Kind == cellNode {
				next[c.Node] = [2]int{c.X, c.X + c.W}
				parent = c.Node.Parent
			}
			if (c.Kind == cellNode && c.Node != p.Zoom) || c.Kind == cellMore {
				s, ok := spans[parent]
				if !ok || c.X < s[0] || c.X+c.W > s[1] {
					t.Fatalf("row %d: %+v stands outside its parent %v", y, c, s)
				}
			}
			if c.Kind == cellMore && c.Count < 2 {
				t.Fatalf("a merged cell of %d", c.Count)
			}
		}
		if x != p.Width {
			t.Fatalf("row %d is %d wide, want %d", y, x, p.Width)
		}
		spans = next
	}
}

func TestLayoutInvariants(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(300)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(rnd, 30, 150, 20)
		tr := NewBuilder(w.dict).Build(w.snapshot(rnd, 400, 5), Options{})
		zoom := tr.Root
		for rnd.IntN(3) > 0 && len(zoom.Children) > 0 {
			zoom = zoom.Children[rnd.IntN(len(zoom.Children))]
		}
		width, rows := 1+rnd.IntN(300), 1+rnd.IntN(30)
		p := Layout(tr, zoom, width, rows)
		checkPicture(t, p, rows)
		full := Layout(tr, zoom, width, 1000)
		checkPicture(t, full, 1000)
		if len(p.Rows) != min(rows, len(full.Rows)) && zoom.Parent == nil {
			t.Fatalf("%d rows, %d in full", len(p.Rows), len(full.Rows))
		}
		// In the first row below the zoomed node, each node's width is proportional to its weight, with an error of
		// less than a column.
		for _, row := range full.Rows {
			for _, c := range row {
				if c.Kind == cellNode && c.Node.Parent == zoom {
					if want := float64(width) * float64(c.Node.Total) / float64(zoom.Total); math.Abs(want-float64(c.W)) >= 1 {
						t.Fatalf("%d columns for a share of %.2f", c.W, want)
					}
				}
			}
		}
	}
}

func TestLayoutPicture(t *testing.T) {
	d, s := shop()
	tr := NewBuilder(d).Build(s, Options{})
	var got string
	p := Layout(tr, nil, 39, 10) // each column stands for 20 ns
	checkPicture(t, p, 10)
	for _, row := range p.Rows {
		for _, c := range row {
			text := []rune(c.Text)
			for i := range c.W {
				switch {
				case c.Kind == CellBlank:
					got += " "
				case i < len(text):
					got += string(text[i])
				default:
					got += "_"
				}
			}
			got += "|"
		}
		got += "\n"
	}
	want := `
all____________________________________|
(…|<main>_______________________________|
  |m…|Reports.loop_______________________|
    |Reports#build______________________|
    |Array#map_|JSON.generate_______|     |
    |Rep…#build|                         |
    |.generate_|                         |
`
	if "\n"+got != want {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

func TestLayoutWithoutRoom(t *testing.T) {
	d, s := shop()
	tr := NewBuilder(d).Build(s, Options{})
	for _, c := range [][2]int{{0, 5}, {5, 0}, {-1, -1}} {
		if p := Layout(tr, nil, c[0], c[1]); len(p.Rows) != 0 {
			t.Errorf("%v: %d rows", c, len(p.Rows))
		}
	}
	empty := NewBuilder(d).Build(&Snapshot{}, Options{})
	checkPicture(t, Layout(empty, nil, 20, 5), 5)
}

func TestLayoutZoomKeepsRowsForTheZoomed(t *testing.T) {
	d, s := shop()
	tr := NewBuilder(d).Build(s, Options{})
	n := tr.Root
	for len(n.Children) > 0 {
		n = n.Children[len(n.Children)-1]
	}
	p := Layout(tr, n, 40, 2)
	if len(p.Rows) != 2 || p.Rows[1][0].Node != n || p.Rows[0][0].Kind != CellAncestor {
		t.Errorf("rows %+v", p.Rows)
	}
}

func TestLabelFit(t *testing.T) {
	for _, c := range []struct {
		label string
		width int
		want  string
	}{
		{"Foo::Bar#baz", 12, "Foo::Bar#baz"},
		{"Foo::Bar#baz", 11, "Bar#baz"},
		{"Foo::Bar#baz", 6, "#baz"},
		{"Foo::Bar#baz", 3, "baz"},
		{"Foo::Bar#bazinga", 4, "baz…"},
		{"Foo::Bar#bazinga", 1, "b"},
		{"Foo::Bar#baz", 0, ""},
		{"A::B::C.find_open", 14, "B::C.find_open"},
		{"A::B::C.find_open", 12, "C.find_open"},
		{"block in Foo#each", 16, "Foo#each"},
		{"block (2 levels) in Foo#each", 8, "Foo#each"},
		{"block (2 levels) in Foo#each", 7, "#each"},
		{"Foo::OrdersController#recalculate_totals", 20, "Ord…#recalculate_to…"},
		{"Foo::OrdersController#recalculate_totals", 19, "#recalculate_totals"},
		{"Foo::OrdersController#recalculate_totals", 15, "recalculate_to…"},
		{"DB#recalculate_totals_of_all", 22, "DB#recalculate_totals…"},
		{"<class:Order>", 8, "<class:…"},
		{"block in <main>", 14, "block <main>"},
		{"block (2 levels) in <main>", 12, "block <main>"},
		{"block in <main>", 9, "block in…"},
		{"block in <main>", 6, "block…"},
		{"rescue in call", 12, "rescue call"},
		{"Integer#..", 9, "Integ…#.."},
		{"Integer#..", 6, "#.."},
		{"Foo#[]=", 5, "#[]="},
		{"日本#語メソッド", 8, "語メソ…"},
		{"app.rb", 4, "app…"},
		{"evil\x1b[2Jname", 20, "evil\uFFFD[2Jname"},
		{"block in ", 5, "bloc…"},
		{"in in in", 3, "in…"},
	} {
		if got := LabelFit(c.label, c.width); got != c.want {
			t.Errorf("LabelFit(%q, %d) = %q, want %q", c.label, c.width, got, c.want)
		}
	}
}

func FuzzLabelFit(f *testing.F) {
	for _, s := range []string{"Foo::Bar#baz", "block in A.b", "日本語#あ", "\x1b]0;x\a", "a\u202eb", "é́́#x", "👩‍👩‍👧#y", "A#", "::#.", "\xff\xfe"} {
		for _, w := range []int{0, 1, 2, 5, 40} {
			f.Add(s, w)
		}
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		got := LabelFit(s, width)
		if w := ansi.StringWidth(got); w > max(width, 0) {
			t.Errorf("LabelFit(%q, %d) = %q, %d wide", s, width, got, w)
		}
		for _, r := range got {
			if Unprintable(r) {
				t.Errorf("LabelFit(%q, %d) = %q holds %U", s, width, got, r)
			}
		}
	})
}
