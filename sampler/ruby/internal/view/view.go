// Package view reads structures that are linked by pointers from another process's memory, in few system calls.
package view

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ddtop/ddtop/attach"
)

const (
	// Block is the size of the blocks in which a view fetches memory, in bytes. It is so small that the neighbours of a
	// 40-byte object, which are fetched with it, cost nothing. It is so large that an iseq body needs only two blocks.
	// A page's size is a multiple of Block, so a block can be read as a whole or not at all.
	Block = 256
	// maxBlocks limits how many blocks one view holds. This many blocks have 16 MiB.
	maxBlocks = 1 << 16
	// minArena is the least memory that is allocated for blocks at once, in bytes. maxKept is the most memory that
	// Reset keeps, in bytes. Reading stacks seldom needs more. Searching all classes needs more. Reset does not keep
	// this memory, because each followed process has a few views.
	minArena, maxKept = 1 << 14, 1 << 17
	// maxRead limits the number of bytes that one call of Bytes can read.
	maxRead = 4 << 20
	// maxWork limits the work with one view, as the number of ranges read plus blocks copied. Work up to this limit
	// takes about a tenth of a second. A stack of a thousand new methods needs a tenth of the limit.
	maxWork = 4 << 20
	// MaxRounds limits how often a view fetches memory to follow a chain of pointers. The longest valid chain leads
	// outward from a block nested in blocks, whose method is not known yet. It needs two rounds for each level, and a
	// dozen for names.
	MaxRounds = 600
)

// ErrMissing means that a view does not have some memory yet. The view has noted what is missing. Settle fetches it and
// calls the reading function again.
var ErrMissing = errors.New("memory not fetched yet")

// ErrStopped means that the reading was ended early (View.Stopped).
var ErrStopped = errors.New("the reading was ended")

// ErrTooMuch means that a structure exceeds a limit: it needs more memory than a view holds, or more work than a view
// may do.
var ErrTooMuch = errors.New("too much for one view")

// View reads structures of a target that are linked by pointers, in few system calls. Code reads through a View as if
// it had all memory. If memory is missing, the View notes it and returns ErrMissing. The code continues with everything
// that does not need this memory, and then returns. Settle fetches all noted memory in one batch, and calls the code
// again. So reading a hundred strings takes as many system calls as reading one, and the code need not plan batches.
//
// A View keeps what it has read. Call Reset before reading the memory of a later moment.
type View struct {
	// Stopped ends Settle when it is set. It may be nil.
	Stopped *atomic.Bool
	mem     attach.Memory
	blocks  map[attach.Address]block
	wanted  []attach.Address
	ranges  []attach.Range
	// Calls counts system calls, Fetched the bytes that were read with them.
	Calls   int
	Fetched uint64
	work    int // the work so far, which maxWork limits
	// arena holds the blocks. Reset reuses it.
	arena []byte
}

// block is one fetched block of memory. data is nil if the block cannot be read. The capacity of data extends to the
// end of the range that was fetched with the block. So adjacent blocks can be returned without a copy (inOne).
type block struct{ data []byte }

// New returns a View of a target's memory, which holds nothing yet.
func New(mem attach.Memory) *View {
	return &View{mem: mem, blocks: make(map[attach.Address]block)}
}

// Reset forgets all memory that the view has read or noted.
func (v *View) Reset() {
	switch n := len(v.blocks); {
	case n > maxKept/Block:
		v.blocks = make(map[attach.Address]block)
	case n > 0:
		clear(v.blocks)
	}
	if v.wanted = v.wanted[:0]; cap(v.wanted) > maxKept/Block {
		v.wanted = nil
	}
	v.work = 0
	if v.arena = v.arena[:0]; cap(v.arena) > maxKept {
		v.arena, v.ranges = nil, nil // the ranges point into the arena
	}
}

// Anew forgets the memory that the view has read, and makes the next fetch read the same memory again. Callers use it
// to compare two readings.
func (v *View) Anew() {
	wanted := v.wanted[:0]
	for a := range v.blocks {
		wanted = append(wanted, a)
	}
	v.Reset()
	v.wanted = wanted
}

// Unreadable returns the error for an address to which a structure has led: the n bytes there cannot be read, or cannot
// be memory at all.
func Unreadable(addr attach.Address, n int) error { return &unreadableError{addr, n} }

// IsUnreadable reports whether an error comes from Unreadable, or wraps such an error.
func IsUnreadable(err error) bool {
	var u *unreadableError
	return errors.As(err, &u)
}

type unreadableError struct {
	addr attach.Address
	want int
}

// Error names the address.
func (e *unreadableError) Error() string {
	return fmt.Sprintf("%d bytes at %s can't be read", e.want, e.addr)
}

// CantTell reports whether an error means that the answer is unknown, because memory could not be read or the view
// reached a limit.
func CantTell(err error) bool { return IsUnreadable(err) || errors.Is(err, ErrTooMuch) }

// Bytes returns n bytes at addr. The caller must not change them. They are valid until Reset.
func (v *View) Bytes(addr attach.Address, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	// The lowest page is never mapped. On both machines, user space ends below 2^56.
	if addr < 4096 || addr >= 1<<56 || n < 0 || n > maxRead {
		return nil, Unreadable(addr, n)
	}
	if v.work += 1 + n/Block; v.work > maxWork {
		return nil, fmt.Errorf("structures around %s lead on and on: %w", addr, ErrTooMuch)
	}
	first := addr &^ (Block - 1)
	last := (addr + attach.Address(n) - 1) &^ (Block - 1)
	if first == last {
		b, ok := v.blocks[first]
		if !ok {
			return nil, v.want(first)
		}
		if b.data == nil {
			return nil, Unreadable(addr, n)
		}
		off := int(addr - first)
		return b.data[off : off+n : off+n], nil
	}
	missing := false
	for a := first; a <= last; a += Block {
		b, ok := v.blocks[a]
		if !ok {
			if err := v.want(a); err != ErrMissing {
				return nil, err
			}
			missing = true
		} else if b.data == nil {
			return nil, Unreadable(addr, n)
		}
	}
	if missing {
		return nil, ErrMissing
	}
	if all := v.inOne(first, int(last-first)+Block); all != nil {
		off := int(addr - first)
		return all[off : off+n : off+n], nil
	}
	out := make([]byte, 0, n+2*Block)
	for a := first; a <= last; a += Block {
		out = append(out, v.blocks[a].data...)
	}
	off := int(addr - first)
	return out[off : off+n : off+n], nil
}

// inOne returns size bytes, which begin with the block at the address first, without copying them. This is possible if
// the blocks were fetched as one range. Otherwise it returns nil.
func (v *View) inOne(first attach.Address, size int) []byte {
	all := v.blocks[first].data
	if cap(all) < size {
		return nil
	}
	all = all[:size]
	for off := Block; off < size; off += Block {
		if &all[off] != &v.blocks[first+attach.Address(off)].data[0] {
			return nil
		}
	}
	return all
}

// Want adds n bytes at addr to the next fetch. Call it for memory that is likely to be needed.
func (v *View) Want(addr attach.Address, n int) { _, _ = v.Bytes(addr, n) }

func (v *View) want(a attach.Address) error {
	if len(v.blocks)+len(v.wanted) >= maxBlocks {
		return fmt.Errorf("a structure at %s leads to more than %d MiB: %w", a, maxBlocks*Block>>20, ErrTooMuch)
	}
	v.wanted = append(v.wanted, a)
	return ErrMissing
}

// Word returns the 8 bytes at addr.
func (v *View) Word(addr attach.Address) (uint64, error) {
	b, err := v.Bytes(addr, 8)
	if err != nil {
		return 0, err
	}
	return U64(b), nil
}

// fetch reads all memory that was noted as missing. Its error means that the target cannot be read at all.
func (v *View) fetch() error {
	slices.Sort(v.wanted)
	v.wanted = slices.Compact(v.wanted)
	arena := v.take(len(v.wanted) * Block)
	v.ranges = v.ranges[:0]
	for i, a := range v.wanted {
		buf := arena[i*Block : (i+1)*Block]
		// Combine neighbouring blocks on a page into one range, because a further range costs more time than further
		// bytes.
		if n := len(v.ranges); n > 0 {
			r := &v.ranges[n-1]
			if r.Addr+attach.Address(len(r.Buf)) == a && a&4095 != 0 {
				r.Buf = r.Buf[:len(r.Buf)+Block]
				continue
			}
		}
		v.ranges = append(v.ranges, attach.Range{Addr: a, Buf: buf[: Block : len(arena)-i*Block]})
	}
	v.Fetched += uint64(len(v.wanted)) * Block
	v.wanted = v.wanted[:0]
	calls, err := v.mem.ReadBatch(v.ranges)
	v.Calls += calls
	if err != nil {
		return err
	}
	for i := range v.ranges {
		r := &v.ranges[i]
		for off := 0; off < len(r.Buf); off += Block {
			b := block{}
			if !r.Failed {
				b.data = arena[off : off+Block]
			}
			v.blocks[r.Addr+attach.Address(off)] = b
		}
		arena = arena[len(r.Buf):]
	}
	return nil
}

func (v *View) take(n int) []byte {
	if cap(v.arena)-len(v.arena) < n { // earlier blocks stay in the old arena
		v.arena = make([]byte, 0, max(2*cap(v.arena), n, minArena))
	}
	used := len(v.arena)
	v.arena = v.arena[:used+n]
	return v.arena[used : used+n : used+n]
}

// Settle calls f again and again until the view has all memory that f needs. Between two calls it fetches the missing
// memory.
func (v *View) Settle(f func() error) error {
	for range MaxRounds {
		if v.Stopped != nil && v.Stopped.Load() {
			return ErrStopped
		}
		err := f()
		if !errors.Is(err, ErrMissing) {
			return err
		}
		if err := v.fetch(); err != nil {
			return err
		}
	}
	return fmt.Errorf("a chain of pointers longer than %d", MaxRounds)
}

// Worst returns the most important of several errors. Any other error is more important than ErrMissing, because it
// makes fetching memory useless.
func Worst(errs ...error) error {
	var missing error
	for _, err := range errs {
		switch {
		case err == nil:
		case err == ErrMissing:
			missing = err
		default:
			return err
		}
	}
	return missing
}

// U32 and U64 read the little-endian number at the start of b. The caller must check the length of b. x86_64 and
// aarch64 are both little endian.
func U32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func U64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
