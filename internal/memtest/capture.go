package memtest

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/ddtop/ddtop/attach"
)

// Capture is an attach.Memory that reads another memory, and keeps a copy of each page that it reads. Tests later use
// the copies (Pages) to imitate the process. Capture reads each page only once, as a whole, and later uses the copy. So
// a reader sees each page in one consistent state. Any goroutine may use it.
type Capture struct {
	from attach.Memory
	mu   sync.Mutex
	got  *Pages
}

// NewCapture returns a Capture that reads another memory (from) and copies its pages.
func NewCapture(from attach.Memory) *Capture { return &Capture{from: from, got: new(Pages)} }

// Read fills buf from the copied pages. It first copies those pages that are not copied yet.
func (c *Capture) Read(addr attach.Address, buf []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for base := addr &^ (pageSize - 1); base < addr+attach.Address(len(buf)); base += pageSize {
		if c.got.holds(base) {
			continue
		}
		data := make([]byte, pageSize)
		if err := c.from.Read(base, data); err != nil {
			return err
		}
		c.got.Set(base, data)
	}
	return c.got.Read(addr, buf)
}

// ReadBatch fills the ranges one by one. calls is the number of system calls that reading a live process would have
// needed.
func (c *Capture) ReadBatch(ranges []attach.Range) (calls int, err error) {
	for i := range ranges {
		err := c.Read(ranges[i].Addr, ranges[i].Buf)
		ranges[i].Failed = err != nil
		if err != nil && !errors.Is(err, attach.ErrUnmapped) {
			return i + 1, err
		}
	}
	return (len(ranges) + 1023) / 1024, nil
}

// Pages returns the pages captured up to now.
func (c *Capture) Pages() *Pages { return c.got }

// These constants describe the format of a file of captured memory. The file is gzipped and begins with a magic line.
// Then come the spans of memory. Each has its address and length, in little-endian 64-bit words, and its bytes.
// maxCaptured limits the bytes that ReadPages accepts.
const (
	pagesMagic  = "ddtop pages 1\n"
	maxCaptured = 1 << 30
)

// Write writes the memory to a file.
func (p *Pages) Write(w io.Writer) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(z, pagesMagic); err != nil {
		return err
	}
	for _, s := range p.Spans() {
		head := binary.LittleEndian.AppendUint64(nil, uint64(s.Start))
		head = binary.LittleEndian.AppendUint64(head, uint64(s.Len()))
		data := make([]byte, s.Len())
		if err := p.Read(s.Start, data); err != nil {
			return err
		}
		if _, err := z.Write(append(head, data...)); err != nil {
			return err
		}
	}
	return z.Close()
}

// ReadPages reads a file that Pages.Write has made. It returns an error for any other file.
func ReadPages(r io.Reader) (*Pages, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("captured pages: %w", err)
	}
	in := bufio.NewReader(z)
	magic := make([]byte, len(pagesMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != pagesMagic {
		return nil, errors.New("captured pages: not a file of captured pages")
	}
	p := new(Pages)
	for total := uint64(0); ; {
		var head [16]byte
		_, err := io.ReadFull(in, head[:])
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, fmt.Errorf("captured pages: %w", err)
		}
		addr, n := binary.LittleEndian.Uint64(head[:]), binary.LittleEndian.Uint64(head[8:])
		if total += n; n > maxCaptured || total > maxCaptured || addr+n < addr {
			return nil, fmt.Errorf("captured pages: a span of %d bytes at 0x%x is beyond the limit", n, addr)
		}
		for n > 0 {
			data := make([]byte, min(n, pageSize))
			if _, err := io.ReadFull(in, data); err != nil {
				return nil, fmt.Errorf("captured pages: %w", err)
			}
			p.Set(attach.Address(addr), data)
			addr += uint64(len(data))
			n -= uint64(len(data))
		}
	}
}

// holds reports whether all bytes of the page at the address base are known.
func (p *Pages) holds(base attach.Address) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pg := p.pages[base]
	return pg != nil && pg.have == nil
}

// sorted returns the pages' addresses in ascending order.
func (p *Pages) sorted() []attach.Address { return slices.Sorted(maps.Keys(p.pages)) }
