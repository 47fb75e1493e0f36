package work

import (
	"cmp"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// namedNS limits how long one part of a search for named Queues may take, in ns. Searching a class takes 15 µs.
	// Ruby with its standard library has 600 classes, and a large application has 10,000.
	namedNS = int64(5e6)
	// namedRest is the pause after a search, as a multiple of the search's length. So searches take at most 0.2 % of a
	// CPU. namedEveryNS is the shortest pause, in ns.
	namedRest, namedEveryNS = 500, int64(60e9)
	// maxClasses limits how many classes and modules are searched. classesAtOnce is how many of them are read together.
	maxClasses, classesAtOnce = 1 << 16, 64
	// maxVariables limits how many words of libruby's variables are tested in the search for the pointer to the table
	// of global variables. wordsAtOnce is how many words are tested together.
	maxVariables, wordsAtOnce = 1 << 17, 512
)

// named is a search for the Queues that constants, class variables and global variables hold. It gives these Queues
// names. It begins at the class Object, and continues with the classes that each class holds. It is done in parts, each
// of which takes about namedNS at most.
type named struct {
	// object is the class Object. It is zero if the class is not known. In this case nothing is searched.
	object uint64
	todo   []uint64
	seen   map[uint64]bool
	// classes and queues are what the method meet has found in the present batch: the classes that must be searched
	// later, and the Queues.
	classes []uint64
	queues  []held
	// variables has the Queues that are named after a variable and not after a constant. It maps each Queue to the ID
	// of the variable's name.
	variables map[uint64]uint64
	// words are the addresses of words that may point to the table of global variables. globals is the address of the
	// word that really points to it. sought is true after all words were tested.
	words   []attach.Address
	globals attach.Address
	sought  bool
	// tookNS is how long the search has taken so far. restNS is when the next search may begin. If again is true, it
	// may begin at once, because a new Array needs a name, which may come from a constant.
	tookNS, restNS int64
	again          bool
}

// held is an object that a class holds in a constant or class variable. id is the ID of the constant's or variable's
// name. For an object in a global variable, class is zero.
type held struct{ class, id, value uint64 }

// findNamed continues the search for named Queues for a few milliseconds. clock returns CLOCK_MONOTONIC in ns.
func (l *lists) findNamed(clock func() int64) {
	n := &l.named
	began := clock()
	if n.object == 0 || began < n.restNS && !n.again {
		return
	}
	if n.seen == nil {
		n.again = false
		n.todo, n.seen, n.tookNS = append(n.todo[:0], n.object), map[uint64]bool{n.object: true}, 0
		if n.globals == 0 && !n.sought {
			n.words = l.globalWords()
		}
	}
	now := began
	for ; now-began < namedNS && len(n.todo) > 0; now = clock() {
		l.searchClasses()
	}
	for ; now-began < namedNS && len(n.words) > 0; now = clock() {
		l.findGlobals()
	}
	l.objects.View.Reset() // free the memory, which may not be needed again for long
	if n.tookNS += now - began; len(n.todo)+len(n.words) > 0 {
		return
	}
	l.searchGlobals()
	n.sought = true
	n.seen, n.classes, n.queues = nil, nil, nil
	n.restNS = now + max(namedRest*n.tookNS, namedEveryNS)
}

// searchClasses searches the next classes for Queues. It leaves out classes that cannot be read.
func (l *lists) searchClasses() {
	n := &l.named
	batch := n.todo[:min(classesAtOnce, len(n.todo))]
	n.todo = n.todo[len(batch):]
	if l.objects.Read(func() error {
		n.classes, n.queues = n.classes[:0], n.queues[:0]
		var missing error
		for _, class := range batch {
			if l.objects.EachHeld(class, func(id, value uint64) error { return l.meet(held{class, id, value}) }) == view.ErrMissing {
				missing = view.ErrMissing
			}
		}
		return missing
	}) == nil {
		l.takeHeld()
	}
}

// meet notes an object that a class holds, if the object is a class, a Queue, or an Array that is used as a queue. Call
// it in a function that objects.Read calls.
func (l *lists) meet(h held) error {
	n := &l.named
	if n.seen[h.value] {
		return nil
	}
	flags, err := l.objects.Flags(h.value)
	if err == nil && heap.CarriesClasses(flags&heap.TypeMask) {
		n.classes = append(n.classes, h.value)
		return nil
	}
	_, is := l.arrays.foundNS[h.value]
	if err == nil && !is {
		is, err = l.objects.IsQueue(h.value)
	}
	if is {
		n.queues = append(n.queues, h)
	}
	if err == view.ErrMissing {
		return err
	}
	return nil // neither a class nor a Queue
}

// takeHeld names the Queues that the method meet has noted, and adds the classes that meet has noted to the search.
func (l *lists) takeHeld() {
	n := &l.named
	for _, class := range n.classes {
		if !n.seen[class] && len(n.seen) < maxClasses {
			n.seen[class] = true
			n.todo = append(n.todo, class)
		}
	}
	for _, h := range n.queues {
		l.nameList(h)
	}
}

// nameList names a Queue after the constant or variable that holds it: "Worker::JOBS", "Worker.@@jobs", "$jobs".
func (l *lists) nameList(h held) {
	if l.names[h.value] == "" && len(l.names) >= sampler.MaxLists {
		return
	}
	var name string
	err := l.objects.Read(func() (err error) {
		if name, err = l.objects.IDName(h.id); err != nil || h.class == 0 {
			return err
		}
		path, _, err := l.objects.PathOfClass(h.class)
		switch {
		case name != "" && name[0] == '@':
			name = cmp.Or(path, "a class") + "." + name
		case h.class != l.named.object && path != "":
			name = path + "::" + name
		}
		return err
	})
	if err != nil || name == "" {
		return
	}
	if l.names == nil {
		l.names = make(map[uint64]string)
	}
	l.names[h.value] = name
	if name[0] == '$' || strings.Contains(name, "@") {
		if l.named.variables == nil {
			l.named.variables = make(map[uint64]uint64)
		}
		l.named.variables[h.value] = h.id
	}
}

// globalWords returns the addresses of those words of libruby's variables that may point to the table of global
// variables.
func (l *lists) globalWords() (list []attach.Address) {
	if l.objects.Variables == nil {
		return nil
	}
	seen := make(map[uint64]bool)
	_ = l.objects.Variables(func(at attach.Address, word uint64) { // ignore errors: global variables then give no names
		if word&7 == 0 && word >= 1<<16 && word < 1<<56 && !seen[word] && len(list) < maxVariables {
			seen[word] = true
			list = append(list, at)
		}
	})
	return list
}

// findGlobals tests whether one of the next words points to the table of global variables.
func (l *lists) findGlobals() {
	n := &l.named
	batch := n.words[:min(wordsAtOnce, len(n.words))]
	n.words = n.words[len(batch):]
	_ = l.objects.Read(func() error { // ignore errors: a table that cannot be read is skipped
		var missing error
		for _, at := range batch {
			table, err := l.objects.View.Word(at)
			ok := false
			if err == nil {
				_, ok, err = l.objects.Globals(attach.Address(table))
			}
			if err == view.ErrMissing {
				missing = err
			}
			if ok {
				n.globals, n.words = at, nil
				return nil
			}
		}
		return missing
	})
}

// searchGlobals finds the Queues that global variables hold, and names them.
func (l *lists) searchGlobals() {
	n := &l.named
	if n.globals == 0 {
		return
	}
	if l.objects.Read(func() error {
		n.classes, n.queues = n.classes[:0], n.queues[:0]
		table, err := l.objects.View.Word(n.globals)
		if err != nil {
			return err
		}
		values, _, err := l.objects.Globals(attach.Address(table))
		var missing error
		for id, value := range values {
			missing = view.Worst(missing, l.meet(held{0, id, value}))
			if inner, err := l.objects.View.Word(attach.Address(value)); err == nil {
				missing = view.Worst(missing, l.meet(held{0, id, inner}))
			} else if err == view.ErrMissing {
				missing = err
			}
		}
		return view.Worst(err, missing)
	}) == nil {
		l.takeHeld()
	}
}
