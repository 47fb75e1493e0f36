package work

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// listsNS is the interval between two searches of a thread's frames for Queues, in ns.
	listsNS = int64(10e9)
	// maxListFrames limits how many frames of a thread are searched, counted from the innermost. maxListVariables
	// limits how many variables of a frame are searched, and how many instance variables of its receiver.
	maxListFrames, maxListVariables = 32, 16
	// captured is how many variables of the code around a block are searched. ddtop does not know the names of these
	// variables.
	captured = 8
	// envWords is the distance from an environment's pointer down to its last variable, in words. An environment has
	// the variables of a method or block. In a block, the word directly below the pointer leads to the environment of
	// the code around the block. The lowest two bits of this word are then 1 (VM_ENV_DATA_INDEX_SPECVAL and
	// GC_GUARDED_PTR of vm_core.h, 2.5 to 4.0).
	envWords = 3
)

// lists has the Queues that were found, with their names. They are values of variables in running code, of constants,
// of class variables and of global variables. lists also has the Arrays that are used as queues.
type lists struct {
	objects *heap.Objects
	names   map[uint64]string
	named   named
	arrays  arrays
	// growths records how the lengths of Queues change. grown are the Queues that grow.
	growths map[uint64]*growth
	grown   []uint64
	grows   bool
	// scopes, selves, values, found and types are buffers of a search. They hold the frames, the frames' receivers,
	// the values of their variables, and the names and types of these values.
	scopes         []code.Scope
	selves, values []uint64
	found, types   []string
	operands       code.Operands
	reach          []uint64
}

// noteLists searches the frames of a thread for Queues, unless the last search was only a short time ago. It leaves out
// Queues that cannot be read. A later search may find them.
func (f *Finder) noteLists(s *State, fr *Frames) {
	every := listsNS
	if f.lists.grows {
		every = usesNS
	}
	if fr.Partial || fr.NowNS-s.listedNS < every && s.listedNS != 0 {
		return
	}
	s.listedNS = fr.NowNS
	l := &f.lists
	l.scopes = l.scopes[:0]
	_ = f.eachScope(fr, min(fr.count()-1, maxListFrames), func(scope *code.Scope) (bool, error) {
		l.scopes = append(l.scopes, *scope)
		if site := f.site(scope); site.pool == roleActiveRecord {
			f.pools.note(scope.Self, site.pool)
		}
		return false, nil
	})
	if f.objects.Read(f.variablesOfScopes) != nil {
		return
	}
	l.types = slices.Grow(l.types[:0], len(l.values))[:len(l.values)]
	f.objects.DataTypeNames(l.values, l.types)
	for i, typ := range l.types {
		if !heap.IsQueue(typ) || len(l.names) >= sampler.MaxLists {
			continue
		}
		if l.names == nil {
			l.names = make(map[uint64]string)
		}
		if l.names[l.values[i]] == "" {
			l.names[l.values[i]] = l.found[i]
		}
	}
	f.noteArrays(fr.Thread, fr.NowNS)
	f.noteUses(fr.Thread, fr.NowNS)
}

// variablesOfScopes collects the variables of all frames, of the code around blocks, and of the frames' receivers. It
// reads all of them through the view at once, so that few system calls are needed.
func (f *Finder) variablesOfScopes() error {
	l := &f.lists
	l.values, l.found, l.selves = l.values[:0], l.found[:0], l.selves[:0]
	var missing error
	take := func(name string, v uint64, err error) {
		switch {
		case err == view.ErrMissing:
			missing = err
		case err == nil && f.objects.IsObject(v):
			l.values, l.found = append(l.values, v), append(l.found, name)
		}
	}
	for i := range l.scopes {
		scope := &l.scopes[i]
		names := scope.Locals.Names()
		for k := range min(len(names), maxListVariables) {
			v, err := f.objects.View.Word(scope.Locals.At(scope.EP, k))
			take(names[k], v, err)
		}
		around, err := f.objects.View.Word(scope.EP - 8)
		for k := range captured {
			if err != nil || around&3 != 1 {
				break
			}
			v, err := f.objects.View.Word(attach.Address(around&^3) - attach.Address(envWords+k)*8)
			take("", v, err)
		}
		take("", 0, err)
		if slices.Contains(l.selves, scope.Self) {
			continue
		}
		l.selves = append(l.selves, scope.Self)
		take("", 0, f.objects.EachIvar(scope.Self, maxListVariables, func(id, v uint64) error {
			name, err := f.objects.IDName(id)
			take(name, v, err)
			return nil
		}))
	}
	return missing
}

// Lists reads the lengths of the known Queues and Arrays. It removes objects that were freed.
func (f *Finder) Lists() []sampler.List {
	f.lists.findNamed(f.clock)
	f.lists.grows = false
	var out []sampler.List
	now := f.clock()
	for v, name := range f.lists.names {
		_, array := f.lists.arrays.foundNS[v]
		var n int64
		err := f.objects.Read(func() (err error) {
			n, err = f.objects.Length(v)
			return err
		})
		if err != nil || f.lists.forgetArray(v, now) {
			delete(f.lists.names, v)
			delete(f.lists.growths, v)
			delete(f.lists.arrays.foundNS, v)
			continue
		}
		l := sampler.List{Object: v, Name: name, Array: array, Length: n}
		l.Putters, l.Takers = f.lists.grow(v, n, now)
		out = append(out, l)
	}
	sorting.By(out, sampler.List.Compare)
	return out
}
