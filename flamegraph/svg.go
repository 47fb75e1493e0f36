package flamegraph

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// svgScript makes the picture interactive. The script itself contains no names. Names are in the page, as escaped text
// and attributes.
//
//go:embed svg.js
var svgScript string

// maxSVGNodes limits how many nodes are drawn. If a tree has more, its narrowest nodes are left out.
const maxSVGNodes = 40_000

// These are sizes in the picture, in SVG user units.
const (
	svgWidth     = 1200 // a browser scales the picture
	svgPad       = 10
	svgHead      = 76
	svgRow       = 18
	svgFoot      = 42
	svgCharWidth = 6.7 // width of a character of the 11 px monospace font; the script measures the real width
	// svgMinWidth is the width below which a node is left out. The parent shows how many of its children are left out.
	svgMinWidth = 0.25
)

// WriteSVG writes the tree as one self-contained SVG file with a heading. A browser can open the file from disk. The
// picture zooms on click, searches with a regular expression (ctrl-f or /), and describes a frame on hover. Outermost
// frames are at the top. Colours show the origin of the code. Any name is safe, because it is escaped and control
// characters are replaced. The same tree always gives the same bytes.
func (t *Tree) WriteSVG(w io.Writer, title string) error {
	return t.writeSVG(w, title, nil, svgMinWidth)
}

// SVGColors are colours for a tree that replace the colours by origin.
type SVGColors struct {
	// Fill returns a node's colour, #rrggbb. white is true if the text on it is white.
	Fill func(*Node) (color string, white bool)
	// Legend explains the colours.
	Legend []SVGLegend
}

// SVGLegend is a colour, #rrggbb, with its meaning.
type SVGLegend struct{ Color, Text string }

// WriteSVGIn is WriteSVG with other colours. If colors is nil, colours show the origin of the code.
func (t *Tree) WriteSVGIn(w io.Writer, title string, colors *SVGColors) error {
	return t.writeSVG(w, title, colors, svgMinWidth)
}

func (t *Tree) writeSVG(w io.Writer, title string, colors *SVGColors, minWidth float64) error {
	s := svgWriter{t: t, colors: colors, title: title, out: bufio.NewWriter(w), scale: float64(svgWidth-2*svgPad) / float64(max(t.Root.Total, 1)), minWidth: minWidth}
	for s.count(t.Root) > maxSVGNodes { // this loop ends at the latest when minWidth exceeds the width of the picture
		s.minWidth *= 2
		s.coarse = true
	}
	s.write()
	return s.out.Flush()
}

type svgWriter struct {
	t        *Tree
	title    string
	colors   *SVGColors // nil for colours by origin
	out      *bufio.Writer
	scale    float64 // pixels per unit of weight
	minWidth float64
	coarse   bool // minWidth was raised, because the tree has too many nodes
	depth    int  // the largest depth that is drawn
}

func (s *svgWriter) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// drawn reports whether a node is wide enough to be drawn. The root is always drawn.
func (s *svgWriter) drawn(n *Node) bool {
	return n.Parent == nil || n.Total > 0 && float64(n.Total)*s.scale >= s.minWidth
}

func (s *svgWriter) count(n *Node) int {
	if n.Parent == nil {
		s.depth = 0
	}
	s.depth = max(s.depth, n.Depth)
	c := 1
	for _, k := range n.Children {
		if s.drawn(k) {
			c += s.count(k)
		} else {
			s.depth = max(s.depth, k.Depth) // reserve a row for the cell that represents the nodes left out
		}
	}
	return c
}

func (s *svgWriter) write() {
	height := svgHead + (s.depth+1)*svgRow + svgFoot
	w := svgWidth
	s.printf(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" aria-labelledby="t d">`+"\n", w, height, w, height)
	s.printf(`<title id="t">%s</title><desc id="d">%s</desc>`+"\n", svgText(s.title), svgText(s.summary()))
	style := svgStyle
	if s.colors != nil {
		style += "#frames text.w{fill:#fff}"
	}
	s.printf("<style>%s</style>\n", style)
	s.printf(`<rect width="100%%" height="100%%" fill="#fcfcfa"/>` + "\n")
	s.printf(`<text x="%d" y="24" class="h">%s</text>`+"\n", svgPad, svgText(s.title))
	s.printf(`<text x="%d" y="42" class="s">%s</text>`+"\n", svgPad, svgText(s.summary()))
	s.printf(`<text id="reset" x="%d" y="24" class="b" tabindex="0" role="button" visibility="hidden">⟲ reset zoom</text>`+"\n", w-svgPad-210)
	s.printf(`<text id="search" x="%d" y="24" class="b" tabindex="0" role="button">⌕ search (ctrl-f, /)</text>`+"\n", w-svgPad-120)
	s.legend(svgPad, 62)
	s.printf(`<g id="frames" data-x0="%d" data-w="%d" data-y0="%d" data-row="%d">`+"\n", svgPad, w-2*svgPad, svgHead, svgRow)
	s.node(s.t.Root, 0)
	s.printf("</g>\n")
	s.printf(`<text id="details" x="%d" y="%d" class="s" aria-live="polite"> </text>`+"\n", svgPad, height-22)
	s.printf(`<text id="matched" x="%d" y="%d" class="s" text-anchor="end" aria-live="polite"> </text>`+"\n", w-svgPad, height-22)
	s.printf("<script><![CDATA[\n%s]]></script>\n</svg>\n", svgScript)
}

const svgStyle = `
text{font:11px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#1c1c1c}
.h{font:600 16px system-ui,sans-serif}.s,.l{font:12px system-ui,sans-serif;fill:#444}
.b{font:12px system-ui,sans-serif;fill:#0b5cad;cursor:pointer}
#frames g{cursor:pointer}#frames text{pointer-events:none}
#frames rect{stroke:#fcfcfa;stroke-width:.5}#frames g:hover rect{stroke:#111;stroke-width:1}
#frames g.up{opacity:.55}#frames g.hit rect{fill:#d33fb4}#frames g.hit text{fill:#fff}`

func (s *svgWriter) summary() string {
	t := s.t
	parts := []string{t.Metric.String() + " " + t.Metric.format(t.Root.Total), fmt.Sprintf("%d samples", t.Samples)}
	if d := t.ToNS - t.FromNS; d > 0 {
		parts = append(parts, "over "+units.Weight(d))
	}
	if t.Options.Inverted {
		parts = append(parts, "callees first")
	}
	if t.Excluded > 0 {
		parts = append(parts, t.Metric.format(t.Excluded)+" left out by filters")
	}
	if t.Cut > 0 {
		parts = append(parts, formatShare(t.Cut, t.Root.Total)+" below what the tree holds")
	}
	if s.coarse {
		parts = append(parts, fmt.Sprintf("frames under %s are not drawn", formatShare(int64(s.minWidth/s.scale), t.Root.Total)))
	}
	return strings.Join(parts, " · ")
}

// node draws a node and the nodes under it. x is its left edge, in units of weight.
func (s *svgWriter) node(n *Node, x int64) {
	fill, white := s.fill(n)
	s.cell(n, n.Text(), n.Depth, x, n.Total, fill, white, s.details(n))
	at, small, smallTotal := x, 0, int64(0)
	for _, c := range n.Children {
		if !s.drawn(c) {
			small++
			smallTotal += c.Total
			continue
		}
		s.node(c, at)
		at += c.Total
	}
	if small > 0 && float64(smallTotal)*s.scale >= s.minWidth {
		text := fmt.Sprintf("… %d more", small)
		s.cell(nil, text, n.Depth+1, at, smallTotal, "#d9d9d6", false, fmt.Sprintf("%d frames too narrow to draw\n%s, %s of all", small, s.t.Metric.format(smallTotal), formatShare(smallTotal, s.t.Root.Total)))
	}
}

func (s *svgWriter) cell(n *Node, label string, depth int, x, total int64, fill string, white bool, details string) {
	px, pw := svgPad+float64(x)*s.scale, float64(total)*s.scale
	if n != nil && n.Parent == nil {
		pw = svgWidth - 2*svgPad
	}
	y := svgHead + depth*svgRow
	fit := ""
	if chars := int((pw - 6) / svgCharWidth); chars >= 2 {
		fit = LabelFit(label, chars)
		if n != nil {
			fit = n.Fit(chars)
		}
	}
	s.printf(`<g data-d="%d"`, depth)
	if fit != label { // only a cut label needs this attribute: the script reads an uncut label from the text
		s.printf(` data-l="%s"`, svgText(label))
	}
	if n == nil {
		s.printf(` data-more="1"`)
	}
	s.printf(`><title>%s</title><rect x="%.3f" y="%d" width="%.3f" height="%d" fill="%s"/>`, svgText(details), px, y, pw, svgRow-1, fill)
	class := ""
	if white {
		class = ` class="w"`
	}
	s.printf(`<text x="%.3f" y="%d"%s>%s</text></g>`+"\n", px+3, y+13, class, svgText(fit))
}

func (s *svgWriter) details(n *Node) string {
	var b strings.Builder
	name, place := n.Code()
	b.WriteString(name)
	if n.Kind == RunNode {
		b.WriteString("\nfrom " + n.Label)
	}
	if place != "" {
		b.WriteString("\n" + place)
	} else if n.C {
		b.WriteString("\nC function")
	}
	fmt.Fprintf(&b, "\n%s, %s of all", s.t.Metric.format(n.Total), formatShare(n.Total, s.t.Root.Total))
	if n.Self > 0 && n.Self < n.Total {
		fmt.Fprintf(&b, "; itself %s, %s", s.t.Metric.format(n.Self), formatShare(n.Self, s.t.Root.Total))
	}
	type share struct {
		state gvl.State
		v     int64
	}
	var states []share
	for st, v := range n.StateTotal {
		if v > 0 {
			states = append(states, share{gvl.State(st), v})
		}
	}
	sorting.StableBy(states, func(x, y share) int { return cmp.Compare(y.v, x.v) })
	for i, g := range states {
		sep := ", "
		if i == 0 {
			sep = "\n"
		}
		fmt.Fprintf(&b, "%s%s %s", sep, g.state, formatShare(g.v, n.Total))
	}
	if n.Uncertain {
		b.WriteString("\nuncertain: the frame or its line can't be fully trusted")
	}
	return b.String()
}

// originColors has hue, saturation and lightness for each origin of code. Lightness differs, too, to help readers who
// cannot distinguish hues. OriginUnknown is for nodes that are no frames.
var originColors = [sampler.NumOrigins][3]int{
	sampler.OriginApp: {28, 85, 66}, sampler.OriginGem: {205, 60, 72}, sampler.OriginStdlib: {140, 32, 76}, sampler.OriginCore: {50, 55, 82},
	sampler.OriginEval: {330, 55, 78}, sampler.OriginUnknown: {60, 4, 84},
}

func (s *svgWriter) fill(n *Node) (color string, white bool) {
	if s.colors != nil {
		return s.colors.Fill(n)
	}
	c := originColors[sampler.OriginUnknown]
	if n.IsFrame() { // the colours of neighbours differ a little; the same label always has the same colour
		c = originColors[n.from]
		h := fnv.New32a()
		h.Write([]byte(n.Label)) // never fails (hash.Hash)
		c[2] += int(h.Sum32()%9) - 4
	}
	return fmt.Sprintf("hsl(%d,%d%%,%d%%)", c[0], c[1], c[2]), false
}

func (s *svgWriter) legend(x, y int) {
	var entries []SVGLegend
	if s.colors != nil {
		entries = s.colors.Legend
	} else {
		for o := sampler.OriginApp; o < sampler.NumOrigins; o++ {
			c, text := originColors[o], o.String()
			if o == sampler.OriginCore {
				text += ", C"
			}
			entries = append(entries, SVGLegend{fmt.Sprintf("hsl(%d,%d%%,%d%%)", c[0], c[1], c[2]), text})
		}
	}
	for _, e := range entries {
		s.printf(`<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d" class="l">%s</text>`+"\n",
			x, y-9, e.Color, x+14, y, svgText(e.Text))
		x += 14 + 7*len([]rune(e.Text)) + 14
	}
}

var svgEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// svgText escapes text for XML elements and attributes. Line breaks in titles become character references, because an
// attribute with plain line breaks would lose them.
func svgText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		l = strings.Map(func(r rune) rune {
			if r == 0xfffe || r == 0xffff { // not allowed in XML 1.0
				return 0xfffd
			}
			return r
		}, Printable(l))
		lines[i] = svgEscaper.Replace(l)
	}
	return strings.Join(lines, "&#10;")
}
