package work

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// listsNS is the interval between two searches of a thread's frames for Queues, in ns.
	listsNS = int64(5e9)
	// maxListFrames bounds the frames of a thread that are searched, from the innermost, maxListVariables the
	// variables of a frame and of its receiver.
	maxListFrames, maxListVariables = 32, 16
	// captured is how many variables around a block are searched if their code has ended. Their names are not known.
	captured = 8
	// envWords is the distance from an environment's pointer to its last variable, in words. The word before the
	// pointer leads to the environment around a block. Its lowest two bits are then 1 (VM_ENV_DATA_INDEX_SPECVAL and
	// GC_GUARDED_PTR of vm_core.h, 2.5 to 4.0).
	envWords = 3
)

// lists knows the Queues that variables of running code have, with the names of the variables.
type lists struct {
	names  map[uint64]string
	values []uint64
	types  []string
	found  []string
}

// noteLists searches the frames of a thread for Queues, if the last search is old enough. What cannot be read is left
// out: a later search may find it.
func (f *Finder) noteLists(s *State, fr *Frames) {
	if fr.Partial || fr.NowNS-s.listedNS < listsNS && s.listedNS != 0 || len(f.lists.names) >= sampler.MaxLists {
		return
	}
	s.listedNS = fr.NowNS
	_ = f.eachScope(fr, min(fr.count()-1, maxListFrames), func(scope *code.Scope) (bool, error) {
		f.listsOf(scope)
		return len(f.lists.names) >= sampler.MaxLists, nil
	})
}

// listsOf notes the Queues among the variables of a frame, of the block around it, and of its receiver.
func (f *Finder) listsOf(scope *code.Scope) {
	l := &f.lists
	if f.objects.Read(func() error {
		l.values, l.found = l.values[:0], l.found[:0]
		var missing error
		add := func(name string, at attach.Address) {
			v, err := f.objects.View.Word(at)
			if err == view.ErrMissing {
				missing = err
			}
			if err == nil && f.objects.IsObject(v) {
				l.values, l.found = append(l.values, v), append(l.found, name)
			}
		}
		names := scope.Locals.Names()
		for i := range min(len(names), maxListVariables) {
			add(names[i], scope.Locals.At(scope.EP, i))
		}
		if around, err := f.objects.View.Word(scope.EP - 8); err == view.ErrMissing {
			missing = err
		} else if err == nil && around&3 == 1 {
			for i := range captured {
				add("", attach.Address(around&^3)-attach.Address(envWords+i)*8)
			}
		}
		err := f.objects.EachIvar(scope.Self, maxListVariables, func(id, v uint64) error {
			name, err := f.objects.IDName(id)
			if err == nil && f.objects.IsObject(v) {
				l.values, l.found = append(l.values, v), append(l.found, name)
			}
			return err
		})
		if err == view.ErrMissing {
			missing = err
		}
		return missing
	}) != nil {
		return
	}
	l.types = slices.Grow(l.types[:0], len(l.values))[:len(l.values)]
	f.objects.DataTypeNames(l.values, l.types)
	for i, typ := range l.types {
		if typ != "queue" || len(l.names) >= sampler.MaxLists {
			continue
		}
		if l.names == nil {
			l.names = make(map[uint64]string)
		}
		if l.names[l.values[i]] == "" {
			l.names[l.values[i]] = l.found[i]
		}
	}
}

// Lists reads the lengths of the Queues that variables of running code have, or had. An object that has gone is
// forgotten.
func (f *Finder) Lists() []sampler.List {
	var out []sampler.List
	for v, name := range f.lists.names {
		var n int64
		err := f.objects.Read(func() (err error) {
			n, err = f.objects.Length(v)
			return err
		})
		if err != nil {
			delete(f.lists.names, v)
			continue
		}
		out = append(out, sampler.List{Object: v, Name: name, Length: n})
	}
	slices.SortFunc(out, sampler.List.Compare)
	return out
}
