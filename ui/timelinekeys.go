package ui

// move moves the selection by n rows, to the edge at most.
func (v *timelineView) move(n int) {
	if len(v.rows) == 0 {
		return
	}
	i := v.index()
	if i < 0 {
		i = -1
		if n < 0 {
			i = len(v.rows)
		}
	}
	v.selected = v.rows[max(0, min(i+n, len(v.rows)-1))].key
}

// page moves the selection by a screenful.
func (v *timelineView) page(n int) { v.move(n * max(v.drawn-1, 1)) }

// expand opens or closes the selected group; closing a member closes its group.
func (v *timelineView) expand(open bool) {
	i := v.index()
	if i < 0 {
		return
	}
	for ; i >= 0; i-- {
		if v.rows[i].isGroup {
			if v.opened == nil {
				v.opened = make(map[string]bool)
			}
			v.opened[v.rows[i].key.group] = open
			if !open {
				v.selected = v.rows[i].key
			}
			return
		}
		if !v.rows[i].inGroup {
			return
		}
	}
}
