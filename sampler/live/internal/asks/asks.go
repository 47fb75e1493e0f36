// Package asks keeps account of the memory that a process asks the kernel for. For each stack from which the process
// asked, it has two sums: how many bytes were requested, and how many of them are still mapped.
package asks

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxAreas is the largest number of areas of mapped memory in the Ledger. Each takes 24 bytes. The areas are in a
	// sorted list, and each change moves half of the list on average.
	maxAreas = 1 << 14
	// maxStacks is the largest number of stacks for which the Ledger keeps a sum. It leaves out the memory of further
	// stacks.
	maxStacks = 1 << 12
)

// Ledger has the areas of memory that a process has mapped since ddtop began to follow it. Any goroutine may use it.
type Ledger struct {
	mu     sync.Mutex
	areas  []area // by address, and without overlaps
	stacks map[sampler.StackID]*Owner
	// named is the number of calls for memory whose stack is known. cut is true if areas were dropped because of
	// maxAreas.
	named uint64
	cut   bool
}

type area struct {
	from, to uint64
	of       *Owner
}

// Owner says who asked for an area of memory. At first it is a single call. Once the call's stack is known, it is the
// common Owner of all calls with this stack.
type Owner struct {
	into         *Owner // the Owner that has replaced this one, or nil if there is none
	calls, bytes uint64
}

// More adds an area of memory that a call has asked the kernel for. The call's stack is not known yet. The method Name
// sets the stack later.
func (l *Ledger) More(from, bytes uint64) *Owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := &Owner{calls: 1, bytes: bytes}
	l.gone(from, from+bytes)
	l.put([]area{{from, from + bytes, of}})
	return of
}

// put inserts areas of memory that lie next to each other into the list. They must not overlap an area in the list.
func (l *Ledger) put(list []area) {
	if len(list) == 0 {
		return
	}
	if len(l.areas)+len(list) > maxAreas {
		l.cut = true
		return
	}
	l.areas = slices.Insert(l.areas, l.place(list[0].from), list...)
}

// place returns the index of the first area that ends after an address.
func (l *Ledger) place(at uint64) int {
	i, _ := slices.BinarySearchFunc(l.areas, at, func(a area, at uint64) int {
		if a.to <= at {
			return -1
		}
		return 1
	})
	return i
}

// Gone removes memory that was unmapped.
func (l *Ledger) Gone(from, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone(from, from+bytes)
}

// gone removes the areas between two addresses and returns them.
func (l *Ledger) gone(from, to uint64) (out []area) {
	first := l.place(from)
	var left []area
	i := first
	for ; i < len(l.areas) && l.areas[i].from < to; i++ {
		a := l.areas[i]
		if a.from < from {
			left = append(left, area{a.from, from, a.of})
		}
		if a.to > to {
			left = append(left, area{to, a.to, a.of})
		}
		out = append(out, area{max(a.from, from), min(a.to, to), a.of})
	}
	if i > first {
		l.areas = slices.Replace(l.areas, first, i, left...)
	}
	return out
}

// Moved moves areas of memory to another address (mremap). They keep their Owners. If the new place is smaller, the
// bytes at the end are dropped.
func (l *Ledger) Moved(from, fromBytes, to, toBytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	moved := l.gone(from, from+fromBytes)
	l.gone(to, to+toBytes)
	kept := moved[:0]
	for _, a := range moved {
		if a.to = min(a.to, from+toBytes); a.from < a.to {
			kept = append(kept, area{a.from - from + to, a.to - from + to, a.of})
		}
	}
	l.put(kept)
}

// Name sets the stack of a call for memory, when this stack has become known.
func (l *Ledger) Name(of *Owner, stack sampler.StackID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stacks == nil {
		l.stacks = make(map[sampler.StackID]*Owner)
	}
	x := l.stacks[stack]
	if x == nil {
		if len(l.stacks) >= maxStacks {
			return
		}
		x = new(Owner)
		l.stacks[stack] = x
	}
	x.calls, x.bytes = x.calls+of.calls, x.bytes+of.bytes
	of.into = x
	l.named += of.calls
}

// Forget drops all areas and stacks, because the IDs of the stacks are invalid.
func (l *Ledger) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.areas, l.stacks, l.named = nil, nil, 0
}

// Sum returns the sums of memory by stack. It sets only Copied, Sure and Stacks of the result.
func (l *Ledger) Sum() (out sampler.MemoryAsks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(map[*Owner]uint64)
	for _, a := range l.areas {
		if a.of.into != nil {
			held[a.of.into] += a.to - a.from
		}
	}
	for id, x := range l.stacks {
		out.Stacks = append(out.Stacks, sampler.MemoryAsk{Stack: id, Calls: x.calls, Bytes: x.bytes, Held: held[x]})
	}
	sorting.By(out.Stacks, func(x, y sampler.MemoryAsk) int {
		return cmp.Or(cmp.Compare(y.Held, x.Held), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Stack, y.Stack))
	})
	out.Copied, out.Sure = l.named, !l.cut
	return out
}
