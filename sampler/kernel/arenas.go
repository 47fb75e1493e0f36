package kernel

import (
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
)

const glibc = "glibc"

// These are sizes in glibc's malloc (malloc/malloc.c, malloc/arena.c, glibc 2.31 to 2.42), and limits for reading.
const (
	// heapMax is the size and the alignment of an arena's areas (HEAP_MAX_SIZE on 64-bit machines).
	heapMax = 64 << 20
	// heapInfo is how many bytes of an area's heap_info are read: the address of its malloc_state, the previous area,
	// and the area's present and greatest size. maxHeapInfo is the largest size of a heap_info that ddtop accepts, in
	// bytes.
	heapInfo, maxHeapInfo = 32, 0x100
	// stateLeast and stateMost bound the size of a malloc_state, in bytes. From glibc 2.31 to 2.42 the size is 2,160 to
	// 2,200.
	stateLeast, stateMost = 0x800, 0xa00
	// chunkLeast is the size of the smallest block, in bytes. Sizes are multiples of chunkAlign. The bit chunkInUse of
	// a block's size is set if the block before it in memory is in use.
	chunkLeast, chunkAlign, chunkInUse = 32, 16, 1
	// fencepost is the size of the last block in an area that is not the newest area of its arena.
	fencepost = 16
	// maxArenaBytes limits how many bytes are read from all arenas together.
	maxArenaBytes = 512 << 20
	// arenaPiece is how many bytes of an arena are read at once.
	arenaPiece = 2 << 20
	// arenaTries is how many times, at most, ddtop reads an arena that changes during the reading.
	arenaTries = 3
)

// arena is memory that malloc divides into blocks: [heap], or one of the areas of another arena.
type arena struct {
	start, end uint64
	// firsts are the addresses at which the first block may begin. There can be several candidates.
	firsts []uint64
}

// arenasIn finds at most limit arenas in the area a. If the area is [heap], all of it is one arena. Otherwise each 64
// MiB with a valid heap_info is an arena.
func (m *procMemory) arenasIn(pagemap int, a *area, limit int) (list []arena, err error) {
	if a.name == heapName {
		return []arena{{start: a.start, end: a.end, firsts: []uint64{a.start}}}, nil
	}
	var buf [heapInfo]byte
	for at := (a.start + heapMax - 1) &^ (heapMax - 1); at < a.end && len(list) < limit; at += heapMax {
		if r, err := readResidency(pagemap, at, at+m.page, m.page, m.rest); err != nil || r.pages[0] != pageResident {
			continue
		}
		ranges := []attach.Range{{Addr: attach.Address(at), Buf: buf[:]}}
		if _, err := m.mem.ReadBatch(ranges); err != nil {
			return nil, err
		}
		if ranges[0].Failed {
			continue
		}
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(buf[8*i:]) }
		state, size, writable := word(0), word(2), word(3)
		offset := state & (heapMax - 1)
		if offset < heapInfo || offset > maxHeapInfo || offset%chunkAlign != 0 || size == 0 || size > writable || writable > heapMax ||
			size%m.page != 0 || writable%m.page != 0 || at+size > a.end {
			continue
		}
		x := arena{start: at, end: at + size}
		if state-offset == at { // the arena's first area
			if x.firsts, err = m.firstsBehind(at+offset, size); err != nil {
				return nil, err
			}
		} else {
			x.firsts = []uint64{at + offset}
		}
		list = append(list, x)
	}
	return list, nil
}

// firstsBehind returns the addresses at which the first block after an arena's malloc_state can begin. The last words
// of a malloc_state are the arena's present and greatest size. Other words can look like these two, so there can be
// several addresses. size is the number of bytes of the arena's first area.
func (m *procMemory) firstsBehind(state, size uint64) (firsts []uint64, err error) {
	const before = 24 // the two sizes, and a word that aligns the block
	var buf [stateMost - stateLeast + before]byte
	ranges := []attach.Range{{Addr: attach.Address(state + stateLeast - before), Buf: buf[:]}}
	if _, err := m.mem.ReadBatch(ranges); err != nil || ranges[0].Failed {
		return nil, err
	}
	ends := func(at int) bool {
		now, most := binary.LittleEndian.Uint64(buf[at:]), binary.LittleEndian.Uint64(buf[at+8:])
		return now >= size && now <= most && now%m.page == 0 && most%m.page == 0 && most < 1<<47
	}
	for i := 0; i <= stateMost-stateLeast; i += chunkAlign {
		if ends(i) || ends(i+8) {
			firsts = append(firsts, state+stateLeast+uint64(i))
		}
	}
	return firsts, nil
}

// freeIn adds up the resident bytes of an arena that are in free blocks. The sizes of the blocks must lead from the
// arena's beginning to its end. Otherwise ok is false, because the arena changed during the reading, or the memory is
// no arena.
func (m *procMemory) freeIn(x arena, pages *residency) (free uint64, ok bool, err error) {
	for range arenaTries {
		w := arenaWalk{m: m, arena: x, pages: pages}
		for _, first := range x.firsts {
			if free, ok, err = w.walk(first); ok || err != nil {
				return free, ok, err
			}
		}
	}
	return 0, false, nil
}

// arenaWalk follows the blocks of an arena in memory. Each block begins with its size, which leads to the next block.
type arenaWalk struct {
	m     *procMemory
	arena arena
	pages *residency
	buf   []byte
	from  uint64 // target address of buf
}

// size reads the size of the block at an address, with its flag bits. ok is false if too much was read, or if the
// block's page is not resident. Reading such a page would change the process's memory.
func (w *arenaWalk) size(at uint64) (size uint64, ok bool, err error) {
	at += 8
	if at < w.from || at+8 > w.from+uint64(len(w.buf)) {
		page := w.m.page
		r := w.pages
		w.from = at &^ (page - 1)
		n := uint64(0)
		for n < arenaPiece && w.from+n < w.arena.end && r.pages[(w.from+n-r.start)/page] == pageResident {
			n += page
		}
		if n == 0 || n > w.m.left {
			return 0, false, nil
		}
		w.m.left -= n
		if uint64(cap(w.buf)) < n {
			w.buf = make([]byte, n)
		}
		w.buf = w.buf[:n]
		ranges := []attach.Range{{Addr: attach.Address(w.from), Buf: w.buf}}
		if _, err := w.m.mem.ReadBatch(ranges); err != nil || ranges[0].Failed {
			w.buf = w.buf[:0]
			return 0, false, err
		}
	}
	return binary.LittleEndian.Uint64(w.buf[at-w.from:]), true, nil
}

// walk adds up the resident bytes of free blocks. The last block (top chunk) is free: malloc has not used it yet.
func (w *arenaWalk) walk(first uint64) (free uint64, ok bool, err error) {
	size, ok, err := w.size(first)
	for at := first; ok; {
		n := size &^ (chunkAlign - 1)
		next := at + n
		if n < chunkLeast || next < at || next > w.arena.end || size&2 != 0 { // bit 1 marks blocks outside arenas
			return free, n == fencepost && next+chunkAlign == w.arena.end, nil
		}
		if next == w.arena.end {
			return free + w.pages.bytes(at+chunkAlign, next), true, nil
		}
		if size, ok, err = w.size(next); ok && size&chunkInUse == 0 {
			free += w.pages.bytes(at+chunkAlign, next)
		}
		at = next
	}
	return 0, false, err
}
