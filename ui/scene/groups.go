package scene

import (
	"github.com/ddtop/ddtop/gvl"
)

// Group is a row of the timeline that stands for one or several threads: either one thread or, with at least two
// members whose names follow one pattern, a pool.
type Group struct {
	// Name is the pool's pattern; "" for a thread on its own.
	Name    string
	Members []int // indexes into the threads
}

// minGroup is how many threads make a pool.
const minGroup = 2

// GroupThreads sorts threads (given by their names, in a stable order) into groups, each at the place of its first
// member. Threads that are alone in their pattern stay alone. Names that hold no digit never make a pool with a
// different name, but twins of the same name do.
func GroupThreads(names []string) []Group {
	byPattern := make(map[string]int, len(names))
	out := make([]Group, 0, len(names))
	for i, n := range names {
		p := gvl.PoolName(n)
		at, ok := byPattern[p]
		if !ok {
			at = len(out)
			byPattern[p] = at
			out = append(out, Group{Name: p})
		}
		out[at].Members = append(out[at].Members, i)
	}
	for i := range out {
		if len(out[i].Members) < minGroup {
			out[i].Name = ""
		}
	}
	return out
}
