package live

import (
	"slices"

	"github.com/ddtop/ddtop/sampler/kernel"
)

// noUser is the user of a process of which that can't be read.
const noUser = -1

// inTurns returns the living processes, where more of them want to be sampled than may be, in an order that gives the users of the machine
// a turn each: the processes of one, however many and however early, keep no other's out. n is how many are sampled.
func (g *Group) inTurns(living []*relative, n int) []*relative {
	var wanting []*relative
	taken := make(map[int]int)
	for _, r := range living {
		if !g.sampled(r) && r.tries < maxTries {
			wanting = append(wanting, r)
		}
	}
	if g.opts.Find == nil || n+len(wanting) <= MaxProcesses || n >= MaxProcesses {
		return living
	}
	for _, r := range living {
		r.readUser()
		if g.sampled(r) {
			taken[r.user]++
		}
	}
	return takeTurns(wanting, taken)
}

// readUser reads once whose a process is.
func (r *relative) readUser() {
	if r.userRead {
		return
	}
	r.userRead, r.user = true, noUser
	if uid, err := kernel.UserOf(r.PID); err == nil {
		r.user = uid
	}
}

// takeTurns puts processes in order: the user comes first who has the fewest so far. taken counts those that each has already; it is changed.
func takeTurns(list []*relative, taken map[int]int) []*relative {
	type turn struct {
		r *relative
		n int
	}
	turns := make([]turn, len(list))
	for i, r := range list {
		turns[i] = turn{r, taken[r.user]}
		taken[r.user]++
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.n - b.n })
	out := make([]*relative, len(turns))
	for i, t := range turns {
		out[i] = t.r
	}
	return out
}
