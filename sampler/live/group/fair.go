package group

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/fair"
)

// noUser is used as the user of a process if the process's user cannot be read.
const noUser = -1

// inTurns returns the processes in the order in which they get free places. A place allows a Group to sample one
// process, and the Group has g.places of them. If there are too few places, the users get them in turn. n is the number
// of sampled processes.
func (g *Group) inTurns(living []*relative, n int) []*relative {
	var wanting []*relative
	taken := make(map[int]int)
	for _, r := range living {
		if !g.sampled(r) && r.tries < maxTries {
			wanting = append(wanting, r)
		}
	}
	if g.opts.Find == nil || n+len(wanting) <= g.places || n >= g.places {
		return living
	}
	for _, r := range living {
		r.readUser()
		if g.sampled(r) {
			taken[r.user]++
		}
	}
	return fair.Turns(wanting, userOf, taken)
}

// noPlace returns the text that explains why a process is not sampled although it can be read.
func (g *Group) noPlace(r *relative) string {
	why := fmt.Sprintf("not sampled: %d processes already are, which is the limit", g.places)
	if r.yielded {
		why += ", and it has made room for a process of another user"
	}
	return why
}

// makeWay moves places between users if all places are in use. The user with the most places loses the oldest place to
// a user with fewer. This ends when one more move would give the receiver as many places as the giver has. Processes
// that the caller named keep their places. A place is free once its Source is Done. n is the number of sampled
// processes.
func (g *Group) makeWay(living []*relative, n int) {
	if g.opts.Find == nil || n < g.places {
		return
	}
	var wanting, held []*relative
	free := g.places - n
	g.mu.Lock()
	for _, r := range living {
		switch {
		case r.leaving:
			free++
		case r.src != nil && !r.done:
			held = append(held, r)
		// A process that could not be read (tries is not 0) does not get a place, because it must not take one from
		// another process.
		case r.src == nil && !r.done && r.tries == 0:
			wanting = append(wanting, r)
		}
	}
	g.mu.Unlock()
	if len(wanting) == 0 {
		return
	}
	taken := make(map[int]int)
	for _, r := range held {
		r.readUser()
		taken[r.user]++
	}
	for _, r := range wanting {
		r.readUser()
	}
	held = slices.DeleteFunc(held, func(r *relative) bool { return r.named })
	byTime := func(a, b *relative) int { return a.heldSince.Compare(b.heldSince) }
	leaving := fair.Leaving(wanting, held, userOf, byTime, taken, free)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range leaving {
		if r.src != nil && !r.done {
			r.leaving = true
			r.src.Leave()
		}
	}
}

// forgetFor makes room for r in g.list if another user has more processes there than r's user. It drops an unsampled
// process of the user with the most processes. A later search finds the dropped process again. forgetFor returns the
// living processes without the dropped one.
func (g *Group) forgetFor(r *relative, living []*relative) []*relative {
	r.readUser()
	count := make(map[int]int)
	for _, x := range living {
		x.readUser()
		count[x.user]++
	}
	most := -1
	for i, x := range living {
		if !x.named && !g.sampled(x) && (most < 0 || count[x.user] >= count[living[most].user]) {
			most = i
		}
	}
	if most < 0 || count[r.user]+1 >= count[living[most].user] {
		return living
	}
	forgotten := living[most]
	g.mu.Lock()
	g.list = slices.DeleteFunc(g.list, func(x *relative) bool { return x == forgotten })
	g.mu.Unlock()
	return slices.Delete(living, most, most+1)
}

// readUser finds out which user a process belongs to. It reads this only once.
func (r *relative) readUser() {
	if r.userRead {
		return
	}
	r.userRead, r.user = true, noUser
	if uid, err := kernel.UserOf(r.PID); err == nil {
		r.user = uid
	}
}

// userOf returns the user of a process. Call readUser before it.
func userOf(r *relative) int { return r.user }
