package work

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxArrays limits how many Arrays ddtop remembers as queues. ddtop forgets an Array if for arrayNS, in ns, it has
	// seen no code that takes elements from the Array. An Array that grows is kept longer.
	maxArrays, arrayNS = 16, int64(60e9)
	// takersNS is how long the map arrays.takers is kept, in ns. After this time the map is cleared, and all code is
	// read again. maxTakers limits the number of its entries.
	takersNS, maxTakers = int64(60e9), 1 << 12
	// maxLevels limits how many environments around a block are searched for a variable. Each environment has the
	// variables of the code that contains the code of the environment before it.
	maxLevels = 4
	// envLocal is set in the flags of the outermost environment of a method (VM_ENV_FLAG_LOCAL, vm_core.h).
	envLocal = 2
)

// emptying are the methods that take an element from an Array. waiting are methods that wait for the next element.
var (
	emptying = []string{"shift", "pop"}
	waiting  = []string{"wait", "wait_while", "wait_until", "sleep", "stop", "pass"}
)

// A taker describes a piece of code that takes elements from an Array. from has the receivers of the calls that take an
// element, such as @jobs in "@jobs.shift". waits is true if the code also calls a method that waits.
type taker struct {
	from  []code.Receiver
	waits bool
}

// arrays are the Arrays that workers use as queues.
type arrays struct {
	// foundNS has the Arrays that are used as queues. The key is the address of an Array. The value is the time at
	// which ddtop last saw code that takes elements from the Array.
	foundNS map[uint64]int64
	// takers has the taker of each piece of code, by the address of the code's iseq. A taker describes the calls that
	// take elements from an Array. sinceNS is when the map was last cleared.
	takers  map[attach.Address]taker
	sinceNS int64
}

// noteArrays searches the frames of a thread for Arrays that are used as queues. An Array is used as a queue if two
// conditions are met: the code of a frame takes elements from it, and the code of this or another frame waits.
func (f *Finder) noteArrays(id sampler.ThreadID, now int64) {
	l := &f.lists
	a := &l.arrays
	if a.takers == nil || now-a.sinceNS > takersNS || len(a.takers) > maxTakers {
		a.takers, a.sinceNS = make(map[attach.Address]taker), now
	}
	waits, takes := false, false
	scopes := l.scopes[:min(len(l.scopes), usedFrames)]
	for i := range scopes {
		t := f.takerOf(scopes[i].ISeq)
		waits, takes = waits || t.waits, takes || len(t.from) > 0
	}
	if !waits || !takes {
		return
	}
	for i := range scopes {
		for _, r := range a.takers[scopes[i].ISeq].from {
			var v uint64
			if f.objects.Read(func() (err error) {
				v, err = f.arrayOf(&scopes[i], r)
				return err
			}) == nil && v != 0 {
				l.noteArray(v, r, id, now)
			}
		}
	}
}

// takerOf returns the taker of a piece of code: the calls that take an element from an Array. If the code cannot be
// read, it returns an empty taker, and the next call reads the code again.
func (f *Finder) takerOf(iseq attach.Address) (t taker) {
	a := &f.lists.arrays
	t, ok := a.takers[iseq]
	if ok {
		return t
	}
	if f.objects.Read(func() error {
		from, calls, err := f.code.Receivers(iseq, emptying, &f.lists.operands)
		t = taker{from, slices.ContainsFunc(calls, func(name string) bool { return slices.Contains(waiting, name) })}
		return err
	}) != nil {
		return taker{}
	}
	a.takers[iseq] = t
	return t
}

// noteArray notes an Array from which the code of a thread takes elements.
func (l *lists) noteArray(v uint64, r code.Receiver, id sampler.ThreadID, now int64) {
	a := &l.arrays
	if _, ok := a.foundNS[v]; !ok {
		if len(a.foundNS) >= maxArrays || len(l.names) >= sampler.MaxLists {
			return
		}
		if a.foundNS == nil {
			a.foundNS = make(map[uint64]int64)
		}
		if l.names == nil {
			l.names = make(map[uint64]string)
		}
		l.names[v] = r.Name
		if i := slices.Index(l.values, v); i >= 0 && r.Name == "" {
			l.names[v] = l.found[i]
		}
		l.named.again = l.named.again || r.Constant != 0
	}
	a.foundNS[v] = now
	l.growthOf(v).use(id, use{tookNS: now})
}

// forgetArray reports whether v is an Array that should be forgotten. It should be forgotten if it does not grow, and
// if no code took elements from it for arrayNS.
func (l *lists) forgetArray(v uint64, now int64) bool {
	found, ok := l.arrays.foundNS[v]
	g := l.growths[v]
	return ok && now-found > arrayNS && (g == nil || !g.grows)
}

// arrayOf returns the Array that is now in r, a variable or constant of a scope. It returns zero if r does not hold an
// Array. Call it in a function that objects.Read calls.
func (f *Finder) arrayOf(scope *code.Scope, r code.Receiver) (found uint64, err error) {
	var missing error
	take := func(v uint64, err error) {
		is := false
		if err == nil && f.objects.IsObject(v) {
			is, err = f.objects.Is(v, heap.TypeArray)
		}
		switch {
		case err == view.ErrMissing:
			missing = err
		case is && found == 0:
			found = v
		}
	}
	held := func(id, v uint64) error {
		if id == r.ID {
			take(v, nil)
		}
		return nil
	}
	switch {
	case r.Constant != 0:
		take(f.code.ConstantOf(r.Constant))
	case r.Local != 0:
		ep := scope.EP
		for level := range maxLevels {
			if level == r.Level || r.Level == code.AnyLevel && level <= 1 {
				take(f.objects.View.Word(ep - attach.Address(r.Local)*8))
			}
			flags, errFlags := f.objects.View.Word(ep)
			around, err := f.objects.View.Word(ep - 8)
			take(0, view.Worst(errFlags, err))
			if errFlags != nil || err != nil || flags&envLocal != 0 || around&3 != 1 {
				break
			}
			ep = attach.Address(around &^ 3)
		}
	case r.Name[0] == '$' && f.lists.named.globals != 0:
		table, err := f.objects.View.Word(f.lists.named.globals)
		if err != nil {
			return 0, err
		}
		values, _, err := f.objects.Globals(attach.Address(table))
		take(values[r.ID], err)
	case r.Name[0] == '@':
		take(0, f.objects.EachIvar(scope.Self, maxListVariables, held))
		flags, err := f.objects.Flags(scope.Self)
		if err == nil && heap.CarriesClasses(flags&heap.TypeMask) {
			err = f.objects.EachHeld(scope.Self, held)
		} else if err == nil {
			var class uint64
			if class, err = f.objects.View.Word(attach.Address(scope.Self) + 8); err == nil {
				err = f.objects.EachHeld(class, held)
			}
		}
		take(0, err)
	}
	return found, missing
}
