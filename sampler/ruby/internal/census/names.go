package census

import (
	"cmp"
	"context"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// finish adds the names to the counts of types and classes, and sorts these counts.
func (c *Counter) finish(ctx context.Context, rest func()) error {
	c.out.Types = c.out.Types[:0]
	byName := make(map[string]*sampler.HeapKind)
	add := func(name string, kind *sampler.HeapKind) {
		if kind.Objects == 0 {
			return
		}
		k := byName[name]
		if k == nil {
			k = &sampler.HeapKind{Name: name}
			byName[name] = k
		}
		k.Add(kind)
	}
	for typ := range c.types {
		kind := &c.types[typ]
		if kind.Objects == 0 {
			continue
		}
		kind.Name = heap.TypeNames[typ]
		if kind.Name == "" {
			kind.Name = sampler.AllocUnknown
		}
		c.out.Types = append(c.out.Types, *kind)
		if class := classByType(uint64(typ)); class != "" {
			add(class, kind)
		}
		add(sampler.AllocHidden, &c.hidden[typ])
	}
	add(sampler.AllocOthers, &c.words.others)
	names := make([]string, len(c.words.kinds))
	for i := range c.words.kinds {
		if err := ctx.Err(); err != nil {
			return err
		}
		names[i] = c.objects.NameOrKind(c.words.keys[i])
		add(names[i], &c.words.kinds[i])
		if i%namesAPiece == namesAPiece-1 {
			rest()
		}
	}
	c.out.Classes = make([]sampler.HeapKind, 0, len(byName))
	for _, k := range byName {
		c.out.Classes = append(c.out.Classes, *k)
	}
	sampler.SortHeapKinds(c.out.Types)
	sampler.SortHeapKinds(c.out.Classes)
	if rest := c.out.Classes[min(len(c.out.Classes), sampler.MaxHeapClasses):]; len(rest) > 0 {
		others := sampler.HeapKind{Name: sampler.AllocOthers}
		for i := range rest {
			others.Add(&rest[i])
		}
		c.out.Classes = append(c.out.Classes[:sampler.MaxHeapClasses], others)
	}
	for _, s := range c.slots {
		c.out.Sizes = append(c.out.Sizes, *s)
	}
	sorting.By(c.out.Sizes, func(a, b sampler.HeapSize) int { return cmp.Compare(a.SlotSize, b.SlotSize) })
	return c.placeObjects(ctx, rest, func(kind int32, typ uint8) string {
		switch kind {
		case kindByType:
			return classByType(uint64(typ))
		case kindHidden:
			return sampler.AllocHidden
		case kindOthers:
			return sampler.AllocOthers
		}
		return names[kind]
	})
}

// classByType returns the name under which objects of a type are counted, whatever their class. It is "Class" for
// classes. Otherwise each class would have a count of its own, because it has its own singleton class. The result is
// empty for types whose objects are counted by their class.
func classByType(typ uint64) string {
	switch {
	case typ >= heap.TypeImemo:
		return sampler.AllocInternal
	case !heap.CarriesClasses(typ):
		return ""
	case heap.TypeNames[typ] == "T_CLASS":
		return "Class"
	}
	return "Module"
}

// wordTable maps a class word to the counts of the class. A class word is the word in an object that points to the
// object's class. A wordTable must be fast, because a pass looks up each object. So it is a hash table made for this
// purpose.
type wordTable struct {
	places []int32 // 1 + the index of a key; zero means a free place
	keys   []uint64
	kinds  []sampler.HeapKind
	others sampler.HeapKind
	last   int
}

const (
	wordPlaces = 4 * sampler.MaxHeapWords // four times the keys, so that few collide
	wordShift  = 64 - 18                  // 1<<18 places
)

func (t *wordTable) reset() {
	if t.places == nil {
		t.places, t.keys = make([]int32, wordPlaces), make([]uint64, 0, sampler.MaxHeapWords)
		// The capacity of kinds is fixed, because a pass keeps pointers to its elements. If the slice grew, the
		// elements would move.
		t.kinds = make([]sampler.HeapKind, 0, sampler.MaxHeapWords)
	}
	clear(t.places)
	t.keys, t.kinds, t.others, t.last = t.keys[:0], t.kinds[:0], sampler.HeapKind{}, 0
}

// kind returns the counts of the class with the class word. The pointer is valid until the next call of reset.
func (t *wordTable) kind(word uint64) *sampler.HeapKind {
	if t.last < len(t.keys) && t.keys[t.last] == word { // neighbouring objects often have the same class
		return &t.kinds[t.last]
	}
	at := word * 0x9e3779b97f4a7c15 >> wordShift
	for ; t.places[at] != 0; at = (at + 1) % wordPlaces {
		if i := int(t.places[at] - 1); t.keys[i] == word {
			t.last = i
			return &t.kinds[i]
		}
	}
	if len(t.keys) == cap(t.keys) {
		return &t.others
	}
	t.keys, t.kinds = append(t.keys, word), append(t.kinds, sampler.HeapKind{})
	t.places[at], t.last = int32(len(t.keys)), len(t.keys)-1
	return &t.kinds[t.last]
}
