package native

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/ddtop/ddtop/attach"
)

const (
	// maxFrameTable bounds how many bytes of one file's .eh_frame are read. libruby has 400 KB, and Chromium 20 MB.
	maxFrameTable = 32 << 20
	// maxHeader bounds the size of the .eh_frame_hdr of one file, in bytes. This table has eight bytes for each
	// function.
	maxHeader = 8 << 20
	// maxRecord bounds the size of the description of one function, in bytes. This also bounds the time to compute a
	// row. The largest description in 1,000 libraries has 10 KB.
	maxRecord = 64 << 10
	// headerSize is the number of bytes in .eh_frame_hdr before its table.
	headerSize = 12
)

// table has the unwind information of a file. Addresses are as in the file, without the load bias.
type table struct {
	// index is the header's list of functions in the order of their addresses. For each function, it has two offsets
	// from indexBase. One leads to the function, and the other to its entry in frames.
	index     []byte
	indexBase uint64
	// frames is the content of .eh_frame, and framesAt its address.
	frames   []byte
	framesAt uint64
	// executed is the size of all CFA programs that were executed so far to compute rows, in bytes.
	executed int
}

// content reads the bytes that a file maps at an address. The parameter most limits the number of bytes
// (attach.Module.Content).
type content func(addr uint64, most int) ([]byte, error)

// readTable reads the tables of a module.
func readTable(m *attach.Module, mem attach.Memory) (*table, error) {
	span := m.UnwindHeader()
	return newTable(span.Addr, span.Size, func(addr uint64, most int) ([]byte, error) {
		return m.Content(mem, addr, most)
	})
}

// newTable reads a header (.eh_frame_hdr) and the frames (.eh_frame) to which it points. It accepts only the form of
// header that linkers write (LSB, "The .eh_frame_hdr Section").
func newTable(at, size uint64, read content) (*table, error) {
	if size < headerSize || size > maxHeader {
		return nil, fmt.Errorf("%w: its header has %d bytes", errTable, size)
	}
	header, err := read(at, int(size))
	if err != nil {
		return nil, err
	}
	const version, framesAs, countAs, indexAs = 1, encodeRelative | encodeS4, encodeU4, 0x30 | encodeS4
	if len(header) < headerSize || header[0] != version || header[1] != framesAs || header[2] != countAs ||
		header[3] != indexAs {
		return nil, fmt.Errorf("%w: its header is of another kind", errTable)
	}
	count := uint64(binary.LittleEndian.Uint32(header[8:]))
	if count*8 > uint64(len(header)-headerSize) {
		return nil, fmt.Errorf("%w: its header has no room for %d functions", errTable, count)
	}
	t := &table{index: header[headerSize:][:count*8], indexBase: at}
	t.framesAt = at + 4 + uint64(int32(binary.LittleEndian.Uint32(header[4:])))
	if t.frames, err = read(t.framesAt, maxFrameTable); err != nil {
		return nil, err
	}
	return t, nil
}

// entry returns the address of the i-th function in the index, and the function's place in frames.
func (t *table) entry(i int) (function, place uint64) {
	e := t.index[i*8:]
	distance := func(b []byte) uint64 { return t.indexBase + uint64(int32(binary.LittleEndian.Uint32(b))) }
	return distance(e), distance(e[4:]) - t.framesAt
}

// functions returns the number of functions in the table.
func (t *table) functions() int { return len(t.index) / 8 }

// before returns how many functions begin at or before an address.
func (t *table) before(addr uint64) int {
	return sort.Search(t.functions(), func(i int) bool {
		function, _ := t.entry(i)
		return function > addr
	})
}

// find returns the description of the function that holds an address.
func (t *table) find(addr uint64) (description, error) {
	i := t.before(addr)
	if i == 0 {
		return description{}, fmt.Errorf("%w: no function at %#x", errTable, addr)
	}
	function, place := t.entry(i - 1)
	d, err := t.describe(place)
	switch {
	case err != nil:
		return d, err
	case d.start != function || addr-d.start >= d.size:
		return d, fmt.Errorf("%w: no function at %#x", errTable, addr)
	}
	return d, nil
}

// description says how to unwind a function. It joins two records of .eh_frame: the function's own entry (FDE), and the
// part that it shares with other functions (CIE).
type description struct {
	start, size uint64
	common
	program []byte
}

// common is the part that several descriptions share (CIE).
type common struct {
	codeAlign, returns uint64
	dataAlign          int64
	encoding           uint8
	augmented, signal  bool
	// The field first is the CFA program that all functions with this common part share. It runs before each function's
	// own program.
	first []byte
}

// record returns a reader of one record of frames. The reader begins after the record's length.
func (t *table) record(place uint64) (*reader, error) {
	if place > uint64(len(t.frames)) {
		return nil, fmt.Errorf("%w: a record at %#x", errTable, place)
	}
	r := reader{b: t.frames, at: int(place)}
	length := r.number(4, false)
	// A length of 0xffffffff would mean the 64-bit form of a record, which compilers do not write here. Such a record
	// is refused, because its length exceeds maxRecord.
	if r.failed || length == 0 || length > min(uint64(r.left()), maxRecord) {
		return nil, fmt.Errorf("%w: a record of %d bytes", errTable, length)
	}
	return &reader{b: t.frames[:r.at+int(length)], at: r.at}, nil
}

func (t *table) describe(place uint64) (d description, err error) {
	r, err := t.record(place)
	if err != nil {
		return d, err
	}
	at := uint64(r.at)
	back := r.number(4, false)
	if r.failed || back == 0 || back > at {
		return d, fmt.Errorf("%w: a record that belongs to none", errTable)
	}
	if d.common, err = t.common(at - back); err != nil {
		return d, err
	}
	d.start = r.pointer(d.encoding, t.framesAt)
	d.size = r.pointer(d.encoding&0xf, 0)
	if d.augmented {
		r.take(r.uleb())
	}
	if r.failed || d.start+d.size < d.start {
		return d, fmt.Errorf("%w: a function at %#x", errTable, d.start)
	}
	d.program = r.b[r.at:]
	return d, nil
}

func (t *table) common(place uint64) (c common, err error) {
	r, err := t.record(place)
	if err != nil {
		return c, err
	}
	if id, version := r.number(4, false), r.u8(); r.failed || id != 0 || version != 1 && version != 3 {
		return c, fmt.Errorf("%w: a common record of version %d", errTable, version)
	}
	var letters []byte
	for c := r.u8(); c != 0; c = r.u8() {
		letters = append(letters, c)
	}
	c.codeAlign, c.dataAlign, c.returns = r.uleb(), r.sleb(), r.uleb()
	data := &reader{}
	if len(letters) > 0 {
		if letters[0] != 'z' {
			return c, fmt.Errorf("%w: augmentation %.16q", errTable, letters)
		}
		c.augmented = true
		size := r.uleb()
		at := r.at
		if data.b = r.take(size); data.b != nil {
			data = &reader{b: r.b[:at+int(size)], at: at}
		}
		letters = letters[1:]
	}
	for _, letter := range letters {
		switch letter {
		case 'R':
			c.encoding = data.u8()
		case 'P': // the pointer to the personality routine, which may be indirect
			data.pointer(data.u8()&0x7f, t.framesAt)
		case 'L':
			data.u8()
		case 'S':
			c.signal = true
		default:
			return c, fmt.Errorf("%w: augmentation %q", errTable, letter)
		}
	}
	if r.failed || data.failed || c.returns != regReturn {
		return c, fmt.Errorf("%w: a common record", errTable)
	}
	c.first = r.b[r.at:]
	return c, nil
}

// Functions is the list of the addresses at which the functions of a module begin.
type Functions struct{ table *table }

// FunctionsOf reads the beginnings of functions from the unwind tables of a module. Stripped files have these tables,
// too.
func FunctionsOf(m *attach.Module, mem attach.Memory) (Functions, error) {
	t, err := readTable(m, mem)
	return Functions{t}, err
}

// Before returns the beginning of the last function that begins at or before an address of the file. It returns false
// if there is none.
func (f Functions) Before(addr uint64) (start uint64, ok bool) { return f.table.start(addr) }
