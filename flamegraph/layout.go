package flamegraph

import "github.com/ddtop/ddtop/internal/units"

// cellKind is the kind of a Cell.
type cellKind uint8

const (
	// cellNode is the zoomed node, or a node below it.
	cellNode cellKind = iota
	// CellAncestor is a node above the zoomed node, drawn over the whole width.
	CellAncestor
	// cellMore represents Count siblings that are too narrow to be drawn.
	cellMore
	// CellBlank is an empty part of a row. Either the node above it spends time in its own code there, or the cell
	// above it is not a node.
	CellBlank
)

// Cell is a part of a row of the picture.
type Cell struct {
	Kind cellKind
	// Node is the node shown. It is nil for cellMore and CellBlank.
	Node *Node
	// Parent is the node whose children a cellMore represents. It is nil otherwise.
	Parent *Node
	// X is the cell's first column, and W is its width in columns. W is at least 1.
	X, W int
	// Count and Total are the number of nodes that a cellMore represents, and their weight.
	Count int
	Total int64
	// Text is the label cut to W columns, not padded. It is "" for CellBlank.
	Text string
}

// Picture is a tree laid out in terminal cells. The widths of a row's cells sum to Width, exactly.
type Picture struct {
	Width int
	// Rows go from the outermost frame (or, in an inverted tree, the innermost) inward. Empty rows at the end are
	// left out.
	Rows [][]Cell
	// Zoom is the zoomed node. It fills the whole width.
	Zoom *Node
}

// Layout arranges a tree in rows. First come the nodes above the zoomed node, each in a row of full width. Then come
// the zoomed node and the nodes below it. If zoom is nil, the root is the zoomed node. If there are too few rows for
// all ancestors, the outermost ancestors are left out. The children of a node get whole columns by the method of the
// largest remainder, so that together they are never wider than their parent. Children narrower than a column are
// merged into one cellMore after their siblings. If together they have less than half a column, they are not drawn.
func Layout(t *Tree, zoom *Node, width, maxRows int) Picture {
	if zoom == nil {
		zoom = t.Root
	}
	p := Picture{Width: width, Zoom: zoom}
	if width <= 0 || maxRows <= 0 {
		return p
	}
	var above []*Node
	for n := zoom.Parent; n != nil; n = n.Parent {
		above = append(above, n)
	}
	if len(above) > maxRows-1 {
		above = above[:maxRows-1]
	}
	for i := len(above) - 1; i >= 0; i-- {
		p.Rows = append(p.Rows, []Cell{{Kind: CellAncestor, Node: above[i], W: width, Text: above[i].Fit(width)}})
	}
	row := []Cell{{Kind: cellNode, Node: zoom, W: width, Text: zoom.Fit(width)}}
	l := layouter{}
	for drawn := true; drawn && len(p.Rows) < maxRows; row, drawn = l.next(row, width) {
		p.Rows = append(p.Rows, row)
	}
	return p
}

type layouter struct {
	parts []part
	// totals and widths have one element for the node's own weight, and then one for each child.
	totals []int64
	widths []int
}

type part struct {
	node  *Node
	count int
	total int64
	w     int
}

// next lays out one row. The parameter above is the row above it. drawn is false if neither a node nor a cellMore has a
// column in the new row.
func (l *layouter) next(above []Cell, width int) (row []Cell, drawn bool) {
	row = make([]Cell, 0, len(above)+4)
	x := 0
	for i := range above {
		c := &above[i]
		if c.Kind == cellNode {
			l.share(c.Node, c.W)
			for _, p := range l.parts {
				if p.w == 0 {
					continue
				}
				cell := Cell{Kind: cellNode, Node: p.node, X: x, W: p.w, Total: p.total}
				if p.node == nil {
					cell.Kind, cell.Parent, cell.Count = cellMore, c.Node, p.count
					cell.Text = moreText(p.count, p.w)
				} else {
					cell.Text = p.node.Fit(p.w)
				}
				row = append(row, cell)
				x += p.w
				drawn = true
			}
		}
		if end := c.X + c.W; x < end {
			row = blank(row, x, end-x)
			x = end
		}
	}
	return row, drawn
}

// blank adds a CellBlank to a row. If the row's last cell is already a CellBlank, it extends this cell.
func blank(row []Cell, x, w int) []Cell {
	if n := len(row); n > 0 && row[n-1].Kind == CellBlank {
		row[n-1].W += w
		return row
	}
	return append(row, Cell{Kind: CellBlank, X: x, W: w})
}

// share puts n's children into parts, and divides w columns among them.
func (l *layouter) share(n *Node, w int) {
	l.parts = l.parts[:0]
	more := part{}
	for _, c := range n.Children {
		if c.Total <= 0 {
			continue
		}
		if whole, _ := units.Quota(w, c.Total, n.Total); whole >= 1 {
			l.parts = append(l.parts, part{node: c, count: 1, total: c.Total})
			continue
		}
		more.node, more.total = c, more.total+c.Total
		more.count++
	}
	if more.count > 1 {
		more.node = nil
	}
	if more.count > 0 {
		l.parts = append(l.parts, more)
	}
	l.totals = append(l.totals[:0], n.Self)
	for i := range l.parts {
		l.totals = append(l.totals, l.parts[i].total)
	}
	l.widths = units.Divide(w, l.totals, n.Total, l.widths)
	for i := range l.parts {
		l.parts[i].w = l.widths[1+i]
	}
}
