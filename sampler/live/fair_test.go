package live

import (
	"slices"
	"testing"
	"time"
)

// TestUsersTakeTurns: where there is room for 64, two processes of one user get in beside a hundred of another's, which
// came first and of which some are sampled already.
func TestUsersTakeTurns(t *testing.T) {
	var list []*relative
	for i := range 102 {
		r := &relative{user: 1000, userRead: true}
		if i >= 100 {
			r.user = 2000
		}
		list = append(list, r)
	}
	got := takeTurns(list, map[int]int{1000: 62})
	if len(got) != len(list) || got[0].user != 2000 || got[1].user != 2000 {
		t.Errorf("the first are of users %d and %d", got[0].user, got[1].user)
	}
	got = takeTurns(list, map[int]int{})
	ours := 0
	for _, r := range got[:MaxProcesses] {
		if r.user == 2000 {
			ours++
		}
	}
	if ours != 2 {
		t.Errorf("%d of the first %d are of the user who has two", ours, MaxProcesses)
	}
}

// TestPlacesGiveWay: of a user who has all places the processes that have theirs for longest leave them to those of
// users with fewer, and no more than a fair share.
func TestPlacesGiveWay(t *testing.T) {
	const greedy, late, later = 1000, 2000, 3000
	begun := time.Now()
	holding := func(user, n int) (list []*relative) {
		for i := range n { // the last one has its place for longest
			r := &relative{user: user, userRead: true, heldSince: begun.Add(-time.Duration(i) * time.Second)}
			r.PID = i
			list = append(list, r)
		}
		return list
	}
	for _, c := range []struct {
		what          string
		held, wanting []*relative
		taken         map[int]int
		free          int
		// leaving are the users of those that leave.
		leaving []int
	}{
		{"nobody else", holding(greedy, 64), holding(greedy, 136), map[int]int{greedy: 64}, 0, nil},
		{"one process", holding(greedy, 64), holding(late, 1), map[int]int{greedy: 64}, 0, []int{greedy}},
		{"places that are free", holding(greedy, 62), holding(late, 3), map[int]int{greedy: 62}, 2, []int{greedy}},
		{"two of 200", holding(greedy, 64), append(holding(greedy, 134), holding(late, 2)...), map[int]int{greedy: 64}, 0, []int{greedy, greedy}},
		{"a fair share", holding(greedy, 64), holding(late, 136), map[int]int{greedy: 64}, 0, slices.Repeat([]int{greedy}, 32)},
		{"three users", append(holding(greedy, 32), holding(late, 32)...), holding(later, 100), map[int]int{greedy: 32, late: 32}, 0,
			slices.Concat(slices.Repeat([]int{greedy}, 11), slices.Repeat([]int{late}, 10))},
		{"those that were named stay", holding(greedy, 1), holding(late, 10), map[int]int{greedy: 64}, 0, []int{greedy}},
		{"shares that are equal", append(holding(greedy, 32), holding(late, 32)...), holding(late, 5), map[int]int{greedy: 32, late: 32}, 0, nil},
		{"one fewer", append(holding(greedy, 33), holding(late, 31)...), holding(late, 5), map[int]int{greedy: 33, late: 31}, 0, []int{greedy}},
	} {
		var leaving []int
		last := make(map[int]time.Time)
		for _, r := range chooseLeaving(c.wanting, slices.Clone(c.held), c.taken, c.free) {
			leaving = append(leaving, r.user)
			if r.heldSince.Before(last[r.user]) {
				t.Errorf("%s: process %d leaves after one that has its place for less long", c.what, r.PID)
			}
			last[r.user] = r.heldSince
		}
		slices.Sort(leaving)
		if !slices.Equal(leaving, c.leaving) {
			t.Errorf("%s: %d leave, of users %v; want %d, of %v", c.what, len(leaving), leaving, len(c.leaving), c.leaving)
		}
	}
}

// TestForgetsForOthers: a user who fills the list of processes keeps no other's out of it.
func TestForgetsForOthers(t *testing.T) {
	g := &Group{}
	for range 10 {
		g.list = append(g.list, &relative{user: 1000, userRead: true})
	}
	g.list[9].src = &Source{}
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
