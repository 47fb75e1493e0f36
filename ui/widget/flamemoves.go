package widget

import (
	"github.com/ddtop/ddtop/flamegraph"
)

// callerOf and calleeOf return the node in the next row, towards the callers or the callees. It may stand for a run of
// frames. They return nil if there is no such row.
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

// SelectBeside selects the next frame in the same row: to the right if d is +1, to the left if d is -1.
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

// up and Down move the selection by one row of the screen. The row above has the callers. If Upward is set, it has the
// callees.
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

// rowAt returns the row of the flamegraph that is drawn in row y of an area. height is the number of rows of the area.
// It returns -1 if there is none.
func (v *Flame) rowAt(y, height int) int {
	if v.Upward {
		y = height - 1 - y
	}
	if y += v.Top; y < 0 || y >= len(v.Picture.Rows) {
		return -1
	}
	return y
}

// ScrollBy scrolls by d rows of the screen. A positive d moves to rows further down.
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

// pageBy scrolls by the height of the flamegraph, up (-1) or down (+1).
func (v *Flame) pageBy(d int) {
	if v.Upward {
		d = -d
	}
	v.scroll(d)
}

// scroll moves the selection by the height of the flamegraph, towards the callers (-1) or the callees (+1). The picture
// scrolls with it.
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

// ZoomOut shows the whole flamegraph again. It returns false if it was not zoomed.
func (v *flamePicture) ZoomOut() bool {
	if len(v.Zoom) == 0 {
		return false
	}
	v.Selected = v.Zoom
	v.Zoom = nil
	return true
}

// NextMatch selects the next or previous frame that matches the search. The order is from row to row, and in a row from
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
