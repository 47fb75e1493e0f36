package recording

import (
	"cmp"
	"encoding/binary"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
)

// A wire writes samples to the streams of a block, or reads them. Each struct of a sample has one method for both
// directions. The method knows the previous value from the state, and gets the next value as an argument. It writes or
// reads the numbers that turn the previous value into the next one. When reading, the next value is not known yet, so
// the method ignores the argument.
//
// A method for a number gets the number, writes it, and returns it. When reading, the method ignores its argument, and
// returns the number that it has read.
type wire struct {
	state
	reading bool
	// out is the written data.
	out streams
	// c writes or reads the stream streamStructure, times the stream of times, and counts the stream of counters.
	c, times, counts cursor
	// A writer uses the map texts, which has the number of each string in a block. A reader uses the list strings,
	// which has the string for each number.
	texts   map[string]uint32
	strings []string

	stacks                 ids[sampler.StackID]
	peers                  ids[sampler.PeerID]
	works                  ids[sampler.WorkID]
	statements, exceptions ids[sampler.TextID]

	mids []sampler.ThreadID
	rids []sampler.RactorID
	// resumers is the number of elements in the Resumers of all threads together. queued is the number of elements in
	// the queues of all ractors together. A reader checks both numbers against limits.
	resumers, queued int
	// listed is how many threads all samples of the block so far list together.
	listed int
	// named has the threads that the samples of the block mention. It is nil if the block uses the IDs of the
	// Dictionary.
	named map[sampler.ThreadID]struct{}
	// names is a Redactor, which replaces names by pseudonyms while samples are read. It is nil if nothing is redacted.
	names *redact.Redactor
}

// ids assigns numbers to the IDs of one kind that a block uses, such as the IDs of stacks. The numbers begin at 1, in
// the order in which the IDs are first used. If list is nil, the block has no such numbers and uses the IDs of the
// Dictionary.
type ids[ID ~uint32] struct {
	list    []ID // the ID for each number; the first element stands for "none"
	numbers map[ID]uint32
	name    string
}

// begin drops all numbers. It makes a new list, because the tables of the previous block are made later, from the
// previous list.
func (x *ids[ID]) begin() {
	x.list = []ID{0}
	if x.numbers == nil {
		x.numbers = make(map[ID]uint32)
	}
	clear(x.numbers)
}

func (x *ids[ID]) carry(w *wire, id ID) ID {
	if w.reading {
		n := w.c.uint32()
		if x.list == nil {
			return ID(n)
		}
		if int64(n) >= int64(len(x.list)) {
			w.c.fail(x.name + " that the block does not have")
			return 0
		}
		return x.list[n]
	}
	n := uint32(id)
	if x.list != nil && id != 0 {
		var known bool
		if n, known = x.numbers[id]; !known {
			n = uint32(len(x.list))
			x.list = append(x.list, id)
			x.numbers[id] = n
		}
	}
	w.put(uint64(n))
	return id
}

func (w *wire) err() error {
	return cmp.Or(w.c.err, w.times.err, w.counts.err)
}

// put writes a number to streamStructure.
func (w *wire) put(v uint64) {
	w.out[streamStructure] = binary.AppendUvarint(w.out[streamStructure], v)
}

// uint writes or reads a number in streamStructure.
func (w *wire) uint(v uint64) uint64 {
	if w.reading {
		return w.c.uint()
	}
	w.put(v)
	return v
}

// int writes or reads a signed number in streamStructure.
func (w *wire) int(v int64) int64 {
	if w.reading {
		return w.c.int()
	}
	w.out[streamStructure] = appendInt(w.out[streamStructure], v)
	return v
}

// time writes or reads a difference between clock readings.
func (w *wire) time(v int64) int64 {
	if w.reading {
		return w.times.int()
	}
	w.out[streamTimes] = appendInt(w.out[streamTimes], v)
	return v
}

// count writes or reads a difference between counters, or an address.
func (w *wire) count(v int64) int64 {
	if w.reading {
		return w.counts.int()
	}
	w.out[streamCounters] = appendInt(w.out[streamCounters], v)
	return v
}

// small writes v, or reads a number into field. A number that was read must fit the field's type.
func small[T ~uint8 | ~uint16 | ~uint32](w *wire, field *T, v T) {
	if !w.reading {
		w.put(uint64(v))
		*field = v
		return
	}
	n := w.c.uint()
	if n > uint64(^T(0)) {
		w.c.fail("a number too large")
		n = 0
	}
	*field = T(n)
}

// signed writes v, or reads a signed number. It stores the number in field.
func (w *wire) signed(field *int32, v int32) {
	n := w.int(int64(v))
	if n != int64(int32(n)) {
		w.c.fail("a number too large")
		n = 0
	}
	*field = int32(n)
}

// figures writes or reads a list of numbers: first a mask of the numbers that have changed, then their differences.
func (w *wire) figures(fields, next []*int64) {
	var mask uint64
	if !w.reading {
		for i := range next {
			if *fields[i] != *next[i] {
				mask |= 1 << i
			}
		}
	}
	mask = w.uint(mask)
	for i := range fields {
		if mask&(1<<i) != 0 {
			*fields[i] += w.count(*next[i] - *fields[i])
		}
	}
}

// length writes or reads the length n of a list. When reading, it refuses more than limit elements. It also refuses a
// length for which too few bytes are left. least is the smallest size of an element, in bytes.
func (w *wire) length(n, limit, least int) int {
	if w.reading {
		return w.c.count(limit, least)
	}
	return int(w.uint(uint64(n)))
}

// index writes or reads an index into a list of n elements.
func (w *wire) index(i, n int) int {
	if w.reading {
		return w.c.below(n)
	}
	return int(w.uint(uint64(i)))
}

// text writes or reads a string as its number in the block. When a string is used for the first time, the string itself
// follows.
func (w *wire) text(s string) string {
	if w.reading {
		n := w.c.below(len(w.strings) + 1)
		if n == maxTexts {
			w.c.fail("too many strings")
		}
		if w.c.err == nil && n == len(w.strings) {
			w.strings = append(w.strings, w.c.text())
		}
		if w.c.err != nil {
			return ""
		}
		return w.strings[n]
	}
	n, known := w.texts[s]
	if !known {
		n = uint32(len(w.texts))
		w.texts[s] = n
	}
	w.uint(uint64(n))
	if !known {
		w.uint(uint64(len(s)))
		w.out[streamStructure] = append(w.out[streamStructure], s...)
	}
	return s
}

// name notes that the block mentions a thread. The block's table of threads must then have this thread.
func (w *wire) name(id sampler.ThreadID) {
	if w.named != nil && id != 0 {
		w.named[id] = struct{}{}
	}
}

// at returns element i of a list that is being written. When reading, the list has no such element, and at returns the
// zero value.
func at[T any](list []T, i int) (v T) {
	if i < len(list) {
		return list[i]
	}
	return v
}
