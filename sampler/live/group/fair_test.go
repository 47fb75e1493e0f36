package group

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler/live"
)

// TestForgetsForOthers: if one user's processes fill the list, another user's processes must still get half of it. A
// process that is sampled must stay in the list.
func TestForgetsForOthers(t *testing.T) {
	g := &Group{}
	for range 10 {
		g.list = append(g.list, &relative{user: 1000, userRead: true})
	}
	g.list[9].src = &live.Source{}
	mine := func(list []*relative) (n int) {
		for _, r := range list {
			if r.user == 2000 {
				n++
			}
		}
		return n
	}
	living := slices.Clone(g.list)
	for range 20 {
		r := &relative{user: 2000, userRead: true}
		if left := g.forgetFor(r, living); len(left) < 10 {
			g.add(r)
			living = append(left, r)
		}
	}
	if len(living) != 10 || len(g.list) != 10 || mine(living) != 5 || mine(g.list) != 5 || !g.sampled(living[4]) {
		t.Errorf("%d and %d processes are left, %d and %d of them of the user who came later", len(living), len(g.list), mine(living), mine(g.list))
	}
}
