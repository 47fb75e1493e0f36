// Package memtest imitates the memory of a process, for tests of code that reads processes. A test makes this memory
// itself, or loads it from a file in which the memory of a real process was captured.
package memtest

import (
	"encoding/binary"
	"sync"

	"github.com/ddtop/ddtop/attach"
)

// pageSize is the unit in which memory is captured, in bytes. No machine that ddtop can read has smaller pages.
const pageSize = 4096

// page is one page of captured memory. The field have has a bit for each byte: the bit is set if the byte is known.
// have is nil if all bytes are known.
type page struct {
	data [pageSize]byte
	have *[pageSize / 64]uint64
}

// Pages is an attach.Memory whose bytes a test has set, or captured from a process. The zero value is empty and ready
// for use. Any goroutine may use it.
type Pages struct {
	// PID is named in errors.
	PID int

	mu    sync.RWMutex
	pages map[attach.Address]*page
}

// Set stores bytes at an address. They replace older bytes at this place.
func (p *Pages) Set(addr attach.Address, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pages == nil {
		p.pages = make(map[attach.Address]*page)
	}
	for len(data) > 0 {
		base, at := addr&^(pageSize-1), int(addr&(pageSize-1))
		n := min(len(data), pageSize-at)
		pg := p.pages[base]
		if pg == nil {
			pg = &page{have: new([pageSize / 64]uint64)}
			p.pages[base] = pg
		}
		copy(pg.data[at:], data[:n])
		pg.mark(at, n)
		addr += attach.Address(n)
		data = data[n:]
	}
}

// SetWord stores a little-endian 64-bit word.
func (p *Pages) SetWord(addr attach.Address, word uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], word)
	p.Set(addr, b[:])
}

// Read fills buf with the bytes from addr on. It returns a *ReadError with ErrUnmapped if one of the bytes is not
// known.
func (p *Pages) Read(addr attach.Address, buf []byte) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.read(addr, buf) {
		return &attach.ReadError{PID: p.PID, Addr: addr, Want: len(buf), Err: attach.ErrUnmapped}
	}
	return nil
}

// ReadBatch fills the ranges. calls is the number of system calls that reading a live process would have needed if no
// read failed.
func (p *Pages) ReadBatch(ranges []attach.Range) (calls int, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i := range ranges {
		r := &ranges[i]
		r.Failed = !p.read(r.Addr, r.Buf)
	}
	const perCall = 1024
	return (len(ranges) + perCall - 1) / perCall, nil
}

func (p *Pages) read(addr attach.Address, buf []byte) bool {
	for len(buf) > 0 {
		base, at := addr&^(pageSize-1), int(addr&(pageSize-1))
		n := min(len(buf), pageSize-at)
		pg := p.pages[base]
		if pg == nil || !pg.has(at, n) {
			return false
		}
		copy(buf[:n], pg.data[at:])
		addr += attach.Address(n)
		buf = buf[n:]
	}
	return true
}

// Spans lists the parts of memory whose bytes are known, lowest address first.
func (p *Pages) Spans() []attach.Span {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []attach.Span
	for _, base := range p.sorted() {
		pg := p.pages[base]
		for at := 0; at < pageSize; {
			if !pg.has(at, 1) {
				at++
				continue
			}
			end := at + 1
			for end < pageSize && pg.has(end, 1) {
				end++
			}
			if n := len(out); n > 0 && out[n-1].End == base+attach.Address(at) {
				out[n-1].End = base + attach.Address(end)
			} else {
				out = append(out, attach.Span{Start: base + attach.Address(at), End: base + attach.Address(end)})
			}
			at = end
		}
	}
	return out
}

func (pg *page) mark(at, n int) {
	if pg.have == nil {
		return
	}
	for i := at; i < at+n; i++ {
		pg.have[i/64] |= 1 << (i % 64)
	}
	for _, w := range pg.have {
		if w != ^uint64(0) {
			return
		}
	}
	pg.have = nil
}

func (pg *page) has(at, n int) bool {
	if pg.have == nil {
		return true
	}
	for i := at; i < at+n; i++ {
		if pg.have[i/64]&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}
