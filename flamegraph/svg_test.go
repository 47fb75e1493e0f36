package flamegraph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/sampler"
)

func svgOf(t testing.TB, tr *Tree, title string, minWidth float64) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tr.writeSVG(&b, title, nil, minWidth); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSVGGolden(t *testing.T) {
	d, s := shop()
	tr := NewBuilder(d).Build(s, Options{})
	golden.Check(t, "provenance.svg", svgOf(t, tr, "order-service, pid 4242", svgMinWidth))
}

// svgCell is a cell of a picture, as an XML parser sees it.
type svgCell struct {
	x, w  float64
	depth int
	label string
	cut   bool // the text is cut, and an attribute has the whole label
	title string
}

func readSVG(t testing.TB, b []byte) (cells []svgCell, elements map[string]int) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(b))
	elements = map[string]int{}
	var path []string
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return cells, elements
		}
		if err != nil {
			t.Fatalf("not well-formed XML: %v", err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			elements[e.Name.Local]++
			path = append(path, e.Name.Local)
			attr := map[string]string{}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Fatalf("attribute %s", a.Name.Local)
				}
				attr[a.Name.Local] = a.Value
			}
			number := func(k string) float64 {
				v, err := strconv.ParseFloat(attr[k], 64)
				if err != nil {
					t.Fatalf("%s of %s: %v", k, e.Name.Local, err)
				}
				return v
			}
			if _, ok := attr["data-d"]; ok {
				label, cut := attr["data-l"]
				cells = append(cells, svgCell{depth: int(number("data-d")), label: label, cut: cut})
			} else if e.Name.Local == "rect" && len(path) > 1 && path[len(path)-2] == "g" {
				cells[len(cells)-1].x, cells[len(cells)-1].w = number("x"), number("width")
			}
		case xml.CharData:
			if len(path) > 1 && path[len(path)-1] == "text" && path[len(path)-2] == "g" && !cells[len(cells)-1].cut {
				cells[len(cells)-1].label += string(e)
			}
			if len(path) > 1 && path[len(path)-1] == "title" && path[len(path)-2] == "g" && len(cells) > 0 {
				cells[len(cells)-1].title += string(e)
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

func TestSVGGeometry(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(20)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(rnd, 50, 300, 25)
		tr := NewBuilder(w.dict).Build(w.snapshot(rnd, 900, 4), Options{})
		minWidth := []float64{0.1, 3}[seed%2]
		cells, _ := readSVG(t, svgOf(t, tr, "geometry", minWidth))
		if cells[0].label != "all" || cells[0].w != svgWidth-2*svgPad {
			t.Fatalf("root %+v", cells[0])
		}
		var above []svgCell // the cells from the root to the previous cell
		for _, c := range cells {
			above = above[:min(c.depth, len(above))]
			if len(above) != c.depth {
				t.Fatalf("%q at depth %d follows depth %d", c.label, c.depth, len(above)-1)
			}
			if c.depth > 0 {
				p := above[c.depth-1]
				if c.x < p.x-0.002 || c.x+c.w > p.x+p.w+0.002 {
					t.Fatalf("%q (%v+%v) is outside %q (%v+%v)", c.label, c.x, c.w, p.label, p.x, p.w)
				}
				if c.w < minWidth-0.001 {
					t.Fatalf("%q is %v wide, under the limit", c.label, c.w)
				}
			}
			above = append(above, c)
		}
	}
}

func TestSVGBounded(t *testing.T) {
	d := sampler.NewDictionary()
	s := &Snapshot{}
	for i := range 3 * maxSVGNodes {
		f := d.InternFrame(sampler.Frame{Label: fmt.Sprint("m", i)})
		s.Entries = append(s.Entries, Entry{Key{Thread: 1, Stack: d.InternStack(0, f), State: 0}, Weights{WallNS: int64(1 + i%5)}})
	}
	tr := NewBuilder(d).Build(s, Options{})
	b := svgOf(t, tr, "many", 1e-9)
	cells, _ := readSVG(t, b)
	if len(cells) > maxSVGNodes+1 {
		t.Errorf("%d cells", len(cells))
	}
	if !bytes.Contains(b, []byte("are not drawn")) || !bytes.Contains(b, []byte("frames too narrow to draw")) {
		t.Error("what is left out is not said")
	}
}

func TestSVGEmpty(t *testing.T) {
	d := sampler.NewDictionary()
	cells, _ := readSVG(t, svgOf(t, NewBuilder(d).Build(&Snapshot{}, Options{}), "empty", svgMinWidth))
	if len(cells) != 1 {
		t.Errorf("%d cells", len(cells))
	}
}

// FuzzSVGEscapes: with any name in it, the picture is well-formed XML with the same elements as with a plain name. The
// parser reads back the same name, except for characters that cannot be printed.
func FuzzSVGEscapes(f *testing.F) {
	for _, s := range []string{
		"plain", `</script><script>alert(1)</script>`, `]]><script>alert(1)</script>`, `" onload="alert(1)`, "&amp;", "&#10;",
		"a\x00b\x1b[31m", "\xff\xfe", "\uFFFE\uFFFF", "<!--", "-->", "new\nline", "\u202e", "é", "]]>", "\u2028",
	} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, label, path, title string) {
		d := sampler.NewDictionary()
		stack := func(label, path string) *Snapshot {
			id := d.InternFrame(sampler.Frame{Label: label, AbsolutePath: path})
			return &Snapshot{Entries: []Entry{{Key{Thread: 1, Stack: d.InternStack(0, id), State: 1}, Weights{WallNS: 10}}}}
		}
		cells, elements := readSVG(t, svgOf(t, NewBuilder(d).Build(stack(label, path), Options{Root: func(sampler.ThreadID) string { return title }}), title, svgMinWidth))
		_, plain := readSVG(t, svgOf(t, NewBuilder(d).Build(stack("plain", "plain"), Options{Root: func(sampler.ThreadID) string { return "plain" }}), "plain", svgMinWidth))
		for e, n := range plain {
			if elements[e] != n {
				t.Errorf("%d elements %s, with a plain name %d", elements[e], e, n)
			}
		}
		last := cells[len(cells)-1]
		want := strings.NewReplacer("\uFFFE", "\uFFFD", "\uFFFF", "\uFFFD").Replace(printableLines(label))
		if last.label != want {
			t.Errorf("label %q came back as %q, want %q", label, last.label, want)
		}
	})
}

func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func BenchmarkSVG(b *testing.B) {
	w, s := benchWorld(b)
	tr := NewBuilder(w.dict).Build(s, Options{})
	n := 0
	for b.Loop() {
		n = len(svgOf(b, tr, "benchmark", svgMinWidth))
	}
	b.ReportMetric(float64(n), "bytes")
}
