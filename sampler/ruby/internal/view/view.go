// Package view reads linked structures of another process's memory in few system calls.
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
	// Block is the unit in which a view fetches, in bytes. It is small enough that the neighbours of a 40-byte object
	// cost nothing, and large enough that an iseq body is two blocks. It divides the size of a page, so all of a block
	// is readable or nothing.
	Block = 256
	// maxBlocks limits the blocks that one view holds, to 16 MiB.
	maxBlocks = 1 << 16
	// minArena is the least memory allocated for blocks at once, and maxKept the most that Reset keeps, in bytes. A
	// reading of stacks seldom needs more. A search of all classes does, and each followed process has a few views.
	minArena, maxKept = 1 << 14, 1 << 17
	// maxRead limits the number of bytes that one call of Bytes can read.
	maxRead = 4 << 20
	// maxWork limits the work with one view, in ranges read plus blocks copied. It takes about a tenth of a second. A
	// stack of a thousand new methods takes a tenth of that.
	maxWork = 4 << 20
	// MaxRounds limits the depth of a chain of pointers followed through a view. The longest legal one, a block nested
	// in blocks whose method is yet unknown, needs two for each level and a dozen for names.
	MaxRounds = 600
)

// ErrMissing means that a view does not hold some memory yet and has noted it. Settle fetches the memory and calls the
// reader again.
var ErrMissing = errors.New("memory not fetched yet")

// ErrStopped means that the reading was ended early (View.Stopped).
var ErrStopped = errors.New("the reading was ended")

// ErrTooMuch means that a structure needs more memory than a view holds, or more work than one view may do.
var ErrTooMuch = errors.New("too much for one view")

// View reads linked structures of a target in few system calls. Code reads through it as if all memory were there.
// Missing memory is noted and reads as ErrMissing. The code goes on with all parts that do not need this memory, and
// then returns. Then everything noted is fetched in one batch, and the code starts over. So a hundred strings cost as
// many calls as one, and the code need not plan batches.
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

// block is one fetched block. Its data is nil if it cannot be read. The capacity of data reaches to the end of the
// range that was fetched with it, so that adjacent blocks need no copy (inOne).
type block struct{ data []byte }

// New returns a View of a target's memory, which holds nothing yet.
func New(mem attach.Memory) *View {
	return &View{mem: mem, blocks: make(map[attach.Address]block)}
}

// Reset forgets everything.
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

// Anew forgets the memory that the view holds, and makes the next batch fetch the same memory again. Callers compare
// both readings.
func (v *View) Anew() {
	wanted := v.wanted[:0]
	for a := range v.blocks {
		wanted = append(wanted, a)
	}
	v.Reset()
	v.wanted = wanted
}

// Unreadable returns the error for a structure that led to n bytes that cannot be read, or cannot be memory at all.
func Unreadable(addr attach.Address, n int) error { return &unreadableError{addr, n} }

// IsUnreadable reports whether an error is or wraps one of Unreadable.
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

// CantTell reports whether an error leaves the answer open: memory could not be read, or the view reached a limit.
func CantTell(err error) bool { return IsUnreadable(err) || errors.Is(err, ErrTooMuch) }

// Bytes returns n bytes at addr. The caller must not change them. They are valid until Reset.
func (v *View) Bytes(addr attach.Address, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	// The lowest page is never mapped, and user space ends below 2^56 on both machines.
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

// inOne returns size bytes of fetched blocks without copying them, beginning at the address in the parameter first. It
// returns nil if the blocks were not fetched together.
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
		// Neighbours within a page become one range: ranges cost more than bytes.
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

// Settle calls f until f lacks no memory. Between two calls it fetches the missing memory.
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

// Worst returns the error that counts most. A real error comes before ErrMissing, so that nothing is fetched in vain.
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
