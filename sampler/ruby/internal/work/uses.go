package work

import (
	"math"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// usedFrames limits how many innermost frames of a thread are searched for code that uses a Queue.
	usedFrames = 8
	// usesNS is the interval between two searches of a thread's frames while a Queue grows, in ns. If no Queue grows,
	// the interval is listsNS. A thread stays a user of a Queue for usedNS after ddtop last saw its code use the Queue,
	// in ns.
	usesNS, usedNS = int64(3e9), listsNS
	// grownItems and grownNS say when ddtop begins to search for the code that uses a Queue. Two conditions must hold.
	// The Queue has at least grownItems more elements than at its smallest length. It last had its smallest length at
	// least grownNS ago, in ns.
	grownItems, grownNS = 10, int64(1e9)
)

// putting are the methods that add an element to a Queue, and taking are the methods that remove an element. They also
// apply to Arrays that are used as queues.
var (
	putting = []string{"<<", "push", "enq", "append", "unshift", "prepend"}
	taking  = []string{"pop", "shift", "deq"}
)

// use has the times at which a thread was last seen to use a Queue. At putNS, its code put elements into the Queue. At
// tookNS, its code took elements from it.
type use struct{ putNS, tookNS int64 }

// growth is what ddtop knows about the length of a Queue. least is the smallest length so far. leastNS is the last time
// at which the Queue had this length.
type growth struct {
	least, leastNS int64
	grows          bool
	users          map[sampler.ThreadID]use
}

// grow notes the length n of a Queue. It returns the threads whose code only puts elements into the Queue, and the
// threads whose code only takes elements from it.
func (l *lists) grow(v uint64, n, now int64) (putters, takers []sampler.ThreadID) {
	g := l.growthOf(v)
	if n <= g.least {
		g.least, g.leastNS = n, now
	}
	g.grows = n-g.least >= grownItems && now-g.leastNS >= grownNS
	l.grows = l.grows || g.grows
	for id, u := range g.users {
		puts, takes := u.putNS != 0 && now-u.putNS < usedNS, u.tookNS != 0 && now-u.tookNS < usedNS
		switch {
		case !puts && !takes:
			delete(g.users, id)
		case !takes && len(putters) < sampler.MaxUsers:
			putters = append(putters, id)
		case !puts && len(takers) < sampler.MaxUsers:
			takers = append(takers, id)
		}
	}
	slices.Sort(putters)
	slices.Sort(takers)
	return putters, takers
}

// growthOf returns the growth of a Queue. It adds a new one for a Queue that has none yet.
func (l *lists) growthOf(v uint64) *growth {
	g := l.growths[v]
	if g == nil {
		if l.growths == nil {
			l.growths = make(map[uint64]*growth)
		}
		g = &growth{least: math.MaxInt64}
		l.growths[v] = g
	}
	return g
}

// noteUses searches the frames of a thread for code that puts elements into a growing Queue, or takes elements from it.
// Such code has the Queue in a variable or constant, and calls one of the methods in putting or taking. For taking from
// Arrays, ddtop uses noteArrays instead. That function is more exact, because it uses the receiver of the call.
func (f *Finder) noteUses(id sampler.ThreadID, now int64) {
	l := &f.lists
	l.grown = l.grown[:0]
	for v, g := range l.growths {
		if g.grows {
			l.grown = append(l.grown, v)
		}
	}
	if len(l.grown) == 0 || id == 0 {
		return
	}
	var puts, takes []uint64
	if f.objects.Read(func() error {
		puts, takes = puts[:0], takes[:0]
		var missing error
		for i := range l.scopes[:min(len(l.scopes), usedFrames)] {
			scope := &l.scopes[i]
			err := f.code.Operands(scope.ISeq, &l.operands)
			if err == nil {
				err = f.reached(scope)
			}
			if err == view.ErrMissing {
				missing = err
			}
			if err != nil {
				continue
			}
			calls := func(names []string) bool {
				return slices.ContainsFunc(l.operands.Calls, func(name string) bool { return slices.Contains(names, name) })
			}
			if calls(putting) {
				puts = append(puts, l.reach...)
			}
			if calls(taking) {
				takes = append(takes, l.reach...)
			}
		}
		return missing
	}) != nil {
		return
	}
	for _, v := range l.grown {
		g := l.growths[v]
		u := g.users[id]
		_, array := l.arrays.foundNS[v]
		if slices.Contains(puts, v) && !(array && u.tookNS == now) {
			u.putNS = now
		}
		if slices.Contains(takes, v) && !array {
			u.tookNS = now
		}
		g.use(id, u)
	}
}

// use updates the times at which a thread was last seen to use the Queue. A time of zero in u means that this use was
// not seen. Then the known time stays.
func (g *growth) use(id sampler.ThreadID, u use) {
	if u == (use{}) {
		return
	}
	if g.users == nil {
		g.users = make(map[sampler.ThreadID]use)
	}
	was := g.users[id]
	g.users[id] = use{max(u.putNS, was.putNS), max(u.tookNS, was.tookNS)}
}

// reached stores in l.reach those growing Queues to which a scope's code refers. The caller must have filled l.operands
// from this code, and must call reached within a function that it passes to objects.Read.
func (f *Finder) reached(scope *code.Scope) error {
	l := &f.lists
	l.reach = l.reach[:0]
	var missing error
	take := func(v uint64, err error) {
		switch {
		case err == view.ErrMissing:
			missing = err
		case err == nil && slices.Contains(l.grown, v):
			l.reach = append(l.reach, v)
		}
	}
	for _, v := range l.operands.Constants {
		take(v, nil)
	}
	for v, id := range l.named.variables {
		if l.operands.Names(id) {
			take(v, nil)
		}
	}
	// local takes the value of the local variable at an address, if the code refers to this variable. Bytecode names a
	// local variable by its distance from the environment's pointer ep, in words.
	local := func(ep, at attach.Address) {
		if l.operands.Names(uint64(ep-at) / 8) {
			take(f.objects.View.Word(at))
		}
	}
	for k := range min(len(scope.Locals.Names()), maxListVariables) {
		local(scope.EP, scope.Locals.At(scope.EP, k))
	}
	around, err := f.objects.View.Word(scope.EP - 8)
	for k := range captured {
		if err != nil || around&3 != 1 {
			break
		}
		local(attach.Address(around&^3), attach.Address(around&^3)-attach.Address(envWords+k)*8)
	}
	take(0, err)
	take(0, f.objects.EachIvar(scope.Self, maxListVariables, func(id, v uint64) error {
		if l.operands.Names(id) {
			take(v, nil)
		}
		return nil
	}))
	return missing
}
