package fair

import (
	"slices"
	"testing"
)

// process is a process of a user. age is how long the process has had its place.
type process struct{ user, age int }

func userOf(p *process) int { return p.user }

func byTime(a, b *process) int { return b.age - a.age }

// places is the number of places in these tests.
const places = 64

// TestUsersTakeTurns: there are 64 places. A hundred processes of one user ask for places first, and then two processes
// of another user. These two get places. It does not matter whether processes of the first user have places already.
func TestUsersTakeTurns(t *testing.T) {
	var list []*process
	for i := range 102 {
		r := &process{user: 1000}
		if i >= 100 {
			r.user = 2000
		}
		list = append(list, r)
	}
	got := Turns(list, userOf, map[int]int{1000: 62})
	if len(got) != len(list) || got[0].user != 2000 || got[1].user != 2000 {
		t.Errorf("the first are of users %d and %d", got[0].user, got[1].user)
	}
	got = Turns(list, userOf, map[int]int{})
	ours := 0
	for _, r := range got[:places] {
		if r.user == 2000 {
			ours++
		}
	}
	if ours != 2 {
		t.Errorf("%d of the first %d are of the user who has two", ours, places)
	}
}

// TestPlacesGiveWay: if one user has all places, processes of users with fewer places get some of them. The first
// user's processes that have had their places longest give them up. No user gets more than a fair share.
func TestPlacesGiveWay(t *testing.T) {
	const greedy, late, later = 1000, 2000, 3000
	holding := func(user, n int) (list []*process) {
		for i := range n {
			list = append(list, &process{user, i}) // the last process has had its place for longest
		}
		return list
	}
	for _, c := range []struct {
		what          string
		held, wanting []*process
		taken         map[int]int
		free          int
		// leaving has the user of each process that gives up its place.
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
		last := make(map[int]int)
		for _, r := range Leaving(c.wanting, slices.Clone(c.held), userOf, byTime, c.taken, c.free) {
			leaving = append(leaving, r.user)
			if before, ok := last[r.user]; ok && r.age > before {
				t.Errorf("%s: a process leaves after one that has had its place for less long", c.what)
			}
			last[r.user] = r.age
		}
		slices.Sort(leaving)
		if !slices.Equal(leaving, c.leaving) {
			t.Errorf("%s: %d leave, of users %v; want %d, of %v", c.what, len(leaving), leaving, len(c.leaving), c.leaving)
		}
	}
}
