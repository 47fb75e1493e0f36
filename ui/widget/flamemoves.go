package widget

import (
	"github.com/ddtop/ddtop/flamegraph"
)

// callerOf and calleeOf return the node in the next row. callerOf goes towards the callers, and calleeOf towards the
// callees. The node may be one row for several folded frames. They return nil if there is no next row.
func (v *flamePicture) callerOf(n *flamegraph.Node) *flamegraph.Node {
	return v.original(v.drawn(n).Parent)
}

func (v *flamePicture) calleeOf(n *flamegraph.Node) *flamegraph.Node {
	return v.original(heaviest(v.drawn(n)))
}

func (v *flamePicture) SelectParent() {
	if !v.First() {
		v.SelectNode(v.callerOf(v.SelNode))
	}
}

func (v *flamePicture) SelectChild() {
	if !v.First() {
		v.SelectNode(v.calleeOf(v.SelNode))
	}
}

// SelectBeside selects the next frame in the same row: the one on the right if d is +1, on the left if d is -1.
func (v *flamePicture) SelectBeside(d int) {
	if v.First() {
		return
	}
	y, i, _ := v.Find(v.SelNode)
	row := v.Picture.Rows[y]
	for i += d; i >= 0 && i < len(row); i += d {
		if row[i].Node != nil {
			v.SelectNode(row[i].Node)
			return
		}
	}
}

// up and Down move the selection by one row of the screen. Usually the row above has the callers. If Upward is set, the
// flamegraph is upside down, and the row above has the callees.
func (v *Flame) up() {
	if v.Upward {
		v.SelectChild()
	} else {
		v.SelectParent()
	}
}

func (v *Flame) Down() {
	if v.Upward {
		v.SelectParent()
	} else {
		v.SelectChild()
	}
}

// rowAt returns which row of the flamegraph is drawn in row y of an area. The area has height rows. It returns -1 if
// none is drawn there.
func (v *Flame) rowAt(y, height int) int {
	if v.Upward {
		y = height - 1 - y
	}
	if y += v.Top; y < 0 || y >= len(v.Picture.Rows) {
		return -1
	}
	return y
}

// ScrollBy scrolls the flamegraph by d rows of the screen. With a positive d, rows further down come into view.
func (v *Flame) ScrollBy(d int) {
	if v.Upward {
		d = -d
	}
	v.Top += d
	v.Selected = nil
}

func (v *flamePicture) toRoot() {
	v.Selected, v.SelNode, v.Top = nil, nil, 0
	v.First()
}

// pageBy scrolls by as many rows as the flamegraph has on the screen, up (-1) or down (+1).
func (v *Flame) pageBy(d int) {
	if v.Upward {
		d = -d
	}
	v.scroll(d)
}

// scroll moves the selection by as many rows as the flamegraph has on the screen, towards the callers (-1) or the
// callees (+1). It scrolls the picture by the same number of rows.
func (v *flamePicture) scroll(d int) {
	if v.First() {
		return
	}
	for range max(v.Height-1, 1) {
		n := v.callerOf(v.SelNode)
		if d > 0 {
			n = v.calleeOf(v.SelNode)
		}
		if n == nil || n.Parent == nil {
			return
		}
		v.SelNode = n
		v.SelectNode(n)
	}
}

func (v *flamePicture) ZoomIn() {
	if v.First() {
		return
	}
	v.Zoom = v.Selected
	v.Top = 0
	if hit := v.inRun[v.SelNode]; hit != nil {
		v.Selected = v.own.PathIn(v.SelNode, hit)
	}
}

// ZoomOut shows the whole flamegraph again. It returns false if the flamegraph was not zoomed.
func (v *flamePicture) ZoomOut() bool {
	if len(v.Zoom) == 0 {
		return false
	}
	v.Selected = v.Zoom
	v.Zoom = nil
	return true
}

// NextMatch selects the next or previous frame that matches the search. It goes from row to row, and within a row from
// left to right.
func (v *flamePicture) NextMatch(d int) {
	var hits []*flamegraph.Node
	at := -1
	for _, row := range v.Picture.Rows {
		for i := range row {
			n := row[i].Node
			if n == nil || !v.Matches.Nodes[n] {
				continue
			}
			if n == v.SelNode {
				at = len(hits)
			}
			hits = append(hits, n)
		}
	}
	if len(hits) == 0 {
		return
	}
	if at < 0 && d < 0 {
		at = 0
	}
	v.SelectNode(hits[(at+d+len(hits))%len(hits)])
}
