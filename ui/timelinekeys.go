package ui

import "github.com/ddtop/ddtop/sampler"

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

// members returns the threads that a row stands for, and its name; nil when the row is gone.
func (v *timelineView) members(k rowKey) (ids map[sampler.ThreadID]bool, name string) {
	if k == (rowKey{}) {
		return nil, ""
	}
	for i := range v.threads {
		t := &v.threads[i]
		if t.id == k.thread || k.thread == 0 && pattern(t.name) == k.group {
			if ids == nil {
				ids = make(map[sampler.ThreadID]bool)
			}
			ids[t.id] = true
			name = t.name
		}
	}
	if k.thread == 0 && ids != nil {
		name = k.group
	}
	return ids, name
}
