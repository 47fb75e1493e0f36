package ruby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ddtop/ddtop/attach"
)

const (
	// viewBlock is the unit in which a view fetches, in bytes: small enough that the neighbours of a 40-byte object cost
	// nothing, large enough that an iseq body is two blocks. It divides the page, so a block is readable or not as a whole.
	viewBlock = 256
	// maxViewBlocks bounds what one view holds: 16 MiB.
	maxViewBlocks = 1 << 16
	// maxViewRead bounds one piece read through a view, in bytes.
	maxViewRead = 4 << 20
	// maxViewWork bounds what is done with one view, in pieces read plus blocks copied: some tenth of a second. A stack of a
	// thousand methods that were never met before takes a tenth of it.
	maxViewWork = 4 << 20
	// maxRounds bounds the depth of a chain of pointers followed through a view. The longest legal one, a block nested in
	// blocks whose method is yet unknown, needs two for each level and a dozen for names.
	maxRounds = 600
)

// errMissing says that a view does not hold some memory yet and has noted it: fetch and do it all again. It never leaves
// this package.
var errMissing = errors.New("memory not fetched yet")

// view reads linked structures of a target in few system calls. Code reads through it as if all memory were there; what
// isn't is noted and reads as errMissing. The reader goes on to whatever does not depend on it, then gives up, everything
// noted is fetched in one batch, and the reader starts over. So a hundred strings cost as many calls as one, and code that
// follows pointers needs no notion of batches.
//
// A view is for one question at one moment: reset drops what it holds.
type view struct {
	// stopped, when it is set, ends what is settled; nil: nothing does.
	stopped *atomic.Bool
	mem     attach.Memory
	blocks  map[attach.Address]block
	wanted  []attach.Address
	ranges  []attach.Range
	// calls counts system calls, work what maxViewWork bounds.
	calls, work int
}

// block is one fetched block; nil data: it can't be read.
type block struct{ data []byte }

func newView(mem attach.Memory) *view {
	return &view{mem: mem, blocks: make(map[attach.Address]block)}
}

// reset forgets everything.
func (v *view) reset() {
	if len(v.blocks) > 0 {
		clear(v.blocks)
	}
	v.wanted = v.wanted[:0]
	v.work = 0
}

// unreadableError says that a structure led to memory that can't be read, or that can't be memory at all.
type unreadableError struct {
	Addr attach.Address
	Want int
}

// Error names the place.
func (e *unreadableError) Error() string {
	return fmt.Sprintf("%d bytes at %s can't be read", e.Want, e.Addr)
}

// bytes returns n bytes at addr. They are the view's own and must not be changed.
func (v *view) bytes(addr attach.Address, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	// The lowest page is never mapped, and user space ends below 2^56 on both machines.
	if addr < 4096 || addr >= 1<<56 || n < 0 || n > maxViewRead {
		return nil, &unreadableError{addr, n}
	}
	if v.work += 1 + n/viewBlock; v.work > maxViewWork {
		return nil, fmt.Errorf("structures around %s lead on and on", addr)
	}
	first := addr &^ (viewBlock - 1)
	last := (addr + attach.Address(n) - 1) &^ (viewBlock - 1)
	if first == last {
		b, ok := v.blocks[first]
		if !ok {
			return nil, v.want(first)
		}
		if b.data == nil {
			return nil, &unreadableError{addr, n}
		}
		off := int(addr - first)
		return b.data[off : off+n : off+n], nil
	}
	missing := false
	for a := first; a <= last; a += viewBlock {
		b, ok := v.blocks[a]
		if !ok {
			if err := v.want(a); err != errMissing {
				return nil, err
			}
			missing = true
		} else if b.data == nil {
			return nil, &unreadableError{addr, n}
		}
	}
	if missing {
		return nil, errMissing
	}
	out := make([]byte, 0, n+2*viewBlock)
	for a := first; a <= last; a += viewBlock {
		out = append(out, v.blocks[a].data...)
	}
	off := int(addr - first)
	return out[off : off+n : off+n], nil
}

func (v *view) want(a attach.Address) error {
	if len(v.blocks)+len(v.wanted) >= maxViewBlocks {
		return fmt.Errorf("a structure at %s leads to more than %d MiB", a, maxViewBlocks*viewBlock>>20)
	}
	v.wanted = append(v.wanted, a)
	return errMissing
}

// word returns the 8 bytes at addr.
func (v *view) word(addr attach.Address) (uint64, error) {
	b, err := v.bytes(addr, 8)
	if err != nil {
		return 0, err
	}
	return le64(b), nil
}

// fetch reads everything noted. Its error means that the target can't be read any more at all.
func (v *view) fetch() error {
	slices.Sort(v.wanted)
	v.wanted = slices.Compact(v.wanted)
	arena := make([]byte, len(v.wanted)*viewBlock)
	v.ranges = v.ranges[:0]
	for i, a := range v.wanted {
		buf := arena[i*viewBlock : (i+1)*viewBlock]
		// Neighbours within a page become one range: ranges cost more than bytes.
		if n := len(v.ranges); n > 0 {
			r := &v.ranges[n-1]
			if r.Addr+attach.Address(len(r.Buf)) == a && a&4095 != 0 {
				r.Buf = r.Buf[:len(r.Buf)+viewBlock]
				continue
			}
		}
		v.ranges = append(v.ranges, attach.Range{Addr: a, Buf: buf[: viewBlock : len(arena)-i*viewBlock]})
	}
	v.wanted = v.wanted[:0]
	calls, err := v.mem.ReadBatch(v.ranges)
	v.calls += calls
	if err != nil {
		return err
	}
	for i := range v.ranges {
		r := &v.ranges[i]
		for off := 0; off < len(r.Buf); off += viewBlock {
			b := block{}
			if !r.Failed {
				b.data = r.Buf[off : off+viewBlock : off+viewBlock]
			}
			v.blocks[r.Addr+attach.Address(off)] = b
		}
	}
	return nil
}

// settle calls f until it no longer lacks memory, fetching in between.
func (v *view) settle(f func() error) error {
	for range maxRounds {
		if v.stopped != nil && v.stopped.Load() {
			return errStopped
		}
		err := f()
		if !errors.Is(err, errMissing) {
			return err
		}
		if err := v.fetch(); err != nil {
			return err
		}
	}
	return fmt.Errorf("a chain of pointers longer than %d", maxRounds)
}

// worst returns the error that decides: a real one before errMissing, so that nothing is fetched in vain.
func worst(errs ...error) error {
	var missing error
	for _, err := range errs {
		switch {
		case err == nil:
		case err == errMissing:
			missing = err
		default:
			return err
		}
	}
	return missing
}

// le32 and le64 read the little-endian number that b starts with; the caller has checked the length. Both machines that
// ddtop knows are little endian.
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
