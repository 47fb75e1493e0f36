package attach

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// These limits apply when the target's memory is copied.
const (
	// stillRange limits the size of one range in bytes. stillBatch limits the number of ranges in one call. Together
	// they limit a call to 32 MB, which takes about 15 ms. Copy checks its time limit only between calls.
	stillRange, stillBatch = 1 << 20, 32
	// maxStillSpace limits the size of the address space that is searched for resident pages, in bytes. pagemap has
	// eight bytes for each page, so for 64 GiB Copy reads 128 MB while the process is stopped.
	maxStillSpace = 64 << 30
	// stillWords is the number of pages whose pagemap entries one call reads.
	stillWords = 1 << 16
)

// errStillLate means that Still.Copy has reached its time limit.
var errStillLate = errors.New("the copy took longer than the process may stand still")

// Still is a Memory that shows a process at one instant. Copy copies all private writable memory, and later reads of
// this memory use the copy. All other memory is always read from the process. It is read-only, or other processes share
// it and can write to it even while the target is stopped. Before Copy all reads go to the process. One goroutine uses
// a Still at a time.
type Still struct {
	p    *Process
	page uint64
	// areas are the mappings that Copy has copied. runs are the ranges of pages in areas that were resident. Both are
	// in order of their addresses.
	areas []Mapping
	runs  []Range
	words []byte
	buf   []byte
	taken bool
}

// NewStill returns a Still of a process. It copies nothing yet.
func NewStill(p *Process) *Still {
	return &Still{p: p, page: uint64(os.Getpagesize()), words: make([]byte, 8*stillWords)}
}

// Measure returns how many bytes Copy would copy now. took is how long it took to find these bytes. The process need
// not be stopped.
func (s *Still) Measure() (bytes uint64, took time.Duration, err error) {
	began := time.Now()
	bytes, err = s.find()
	return bytes, time.Since(began), err
}

// Reserve allocates memory for a copy of n bytes. It touches all pages of this memory, so that Copy takes no page
// fault. Release frees the memory.
func (s *Still) Reserve(n uint64) error {
	s.Release()
	buf, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("ddtop has no room for a copy of %d MB of process %d: %w. The process was not stopped", n/1e6, s.p.PID(), err)
	}
	s.buf = buf
	return nil
}

// Release forgets the copy. Reads go to the process again.
func (s *Still) Release() {
	if s.buf != nil {
		_ = unix.Munmap(s.buf) // cannot fail, because Reserve has made this mapping
	}
	s.buf, s.taken, s.areas, s.runs = nil, false, nil, nil
}

// Copy copies the memory of the process, which the caller has stopped. It returns errStillLate if it takes longer than
// limit, and ErrStillGrown if the memory does not fit into the buffer that Reserve has allocated. bytes is the size of
// the copy.
func (s *Still) Copy(limit time.Duration) (bytes uint64, err error) {
	began := time.Now()
	if bytes, err = s.find(); err != nil {
		return 0, err
	}
	if bytes > uint64(len(s.buf)) {
		return 0, ErrStillGrown
	}
	left := s.buf
	for i := range s.runs {
		n := len(s.runs[i].Buf)
		s.runs[i].Buf, left = left[:n:n], left[n:]
	}
	for chunk := range slices.Chunk(s.runs, stillBatch) {
		if time.Since(began) > limit {
			return 0, errStillLate
		}
		if _, err := s.p.ReadBatch(chunk); err != nil {
			return 0, err
		}
	}
	s.taken = true
	return bytes, nil
}

// find sets areas and runs to the memory that Copy would copy now. The Buf of each run is a part of the shared array
// lengths. So the Buf has the right length, but no memory of its own. Copy replaces it by memory for the data.
func (s *Still) find() (bytes uint64, err error) {
	maps, err := s.p.Maps()
	if err != nil {
		return 0, err
	}
	pagemap, err := s.p.openProc("pagemap")
	if err != nil {
		return 0, s.p.lost(err)
	}
	defer pagemap.Close()
	s.areas, s.runs, s.taken = s.areas[:0], s.runs[:0], false
	var space uint64
	for _, m := range maps {
		if !m.Read || !m.Write || m.Shared {
			continue
		}
		if space += uint64(m.End - m.Start); space > maxStillSpace {
			return 0, fmt.Errorf("process %d has more than %d GB of address space that is writable: a stop would take too long", s.p.PID(), uint64(maxStillSpace)/1e9)
		}
		n, err := s.residentIn(pagemap, m)
		if err != nil {
			return 0, err
		}
		if bytes += n; n > 0 || !m.IsFile() {
			s.areas = append(s.areas, m)
		}
	}
	return bytes, nil
}

// lengths is the array that the Bufs of all runs share before Copy. Until then, only the length of a Buf is used, so
// the array is never written.
var lengths = make([]byte, stillRange)

// residentIn appends to s.runs the pages of a mapping that are resident or swapped out, and returns their size in
// bytes (Documentation/admin-guide/mm/pagemap.rst: bits 63 and 62). All other pages need no copy, because they hold
// zeros or equal the mapped file.
func (s *Still) residentIn(pagemap *os.File, m Mapping) (bytes uint64, err error) {
	for at := uint64(m.Start); at < uint64(m.End); {
		words := s.words[:8*min(stillWords, (uint64(m.End)-at)/s.page)]
		n, err := pagemap.ReadAt(words, int64(at/s.page*8))
		if n < 8 {
			return 0, fmt.Errorf("reading /proc/%d/pagemap: %w", s.p.PID(), cmp.Or(err, os.ErrInvalid))
		}
		for ; n >= 8; words, n, at = words[8:], n-8, at+s.page {
			if binary.LittleEndian.Uint64(words)>>62 == 0 {
				continue
			}
			bytes += s.page
			if last := len(s.runs) - 1; last >= 0 && s.runs[last].Addr+Address(len(s.runs[last].Buf)) == Address(at) && len(s.runs[last].Buf)+int(s.page) <= stillRange {
				s.runs[last].Buf = lengths[:len(s.runs[last].Buf)+int(s.page)]
				continue
			}
			s.runs = append(s.runs, Range{Addr: Address(at), Buf: lengths[:s.page]})
		}
	}
	return bytes, nil
}

// Read fills buf from addr.
func (s *Still) Read(addr Address, buf []byte) error {
	if !s.taken {
		return s.p.Read(addr, buf)
	}
	for len(buf) > 0 {
		n, err := s.piece(addr, buf)
		if err != nil {
			return err
		}
		addr, buf = addr+Address(n), buf[n:]
	}
	return nil
}

// piece fills the beginning of buf from one source, and returns the number of bytes that it filled. The source is the
// copy, the process, or zeros for a page that was never written.
func (s *Still) piece(addr Address, buf []byte) (n int, err error) {
	i, _ := slices.BinarySearchFunc(s.runs, addr, func(r Range, at Address) int { return cmp.Compare(r.Addr+Address(len(r.Buf)), at+1) })
	n = len(buf)
	if i < len(s.runs) {
		r := &s.runs[i]
		switch {
		case r.Addr > addr:
			n = min(n, int(r.Addr-addr))
		case r.Failed:
			return 0, &ReadError{PID: s.p.PID(), Addr: addr, Want: len(buf), Err: ErrUnmapped}
		default:
			return copy(buf, r.Buf[addr-r.Addr:]), nil
		}
	}
	i, _ = slices.BinarySearchFunc(s.areas, addr, func(m Mapping, at Address) int { return cmp.Compare(m.End, at+1) })
	if i < len(s.areas) {
		m := &s.areas[i]
		switch {
		case m.Start > addr:
			n = min(n, int(m.Start-addr))
		case !m.IsFile(): // a page that was never written reads as zeros
			n = min(n, int(m.End-addr))
			clear(buf[:n])
			return n, nil
		default:
			n = min(n, int(m.End-addr))
		}
	}
	return n, s.p.Read(addr, buf[:n])
}

// ReadBatch fills the ranges. After Copy it returns no error: a range that could not be read is marked as Failed. The
// copy can be read even after the process has ended.
func (s *Still) ReadBatch(ranges []Range) (calls int, err error) {
	if !s.taken {
		return s.p.ReadBatch(ranges)
	}
	for i := range ranges {
		r := &ranges[i]
		r.Failed = s.Read(r.Addr, r.Buf) != nil
	}
	return len(ranges), nil
}
