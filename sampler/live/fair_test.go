package live

import "testing"

// TestUsersTakeTurns: where there is room for 64, two processes of one user get in beside a hundred of another's, which came first and of
// which some are sampled already.
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
