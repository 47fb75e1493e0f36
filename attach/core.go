package attach

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/internal/sorting"
)

var (
	// errNotCore is returned for a file that is not an ELF core of a 64-bit little-endian process.
	errNotCore = errors.New("not a core file")
	// errFileUnusable is returned for memory, such as code, whose content is not in the core but in a mapped file that
	// cannot be used.
	errFileUnusable = errors.New("the mapped file can't be used")
)

// maxSegments limits the number of segments that are read from a core file. A core has at most one segment for each
// mapping.
const maxSegments = mapped.MaxMappings

// segment is a range of memory in a core file, of size bytes from the address addr on. The file holds only the first
// kept bytes of this memory, at the position offset of the file. If kept is 0, the core leaves the memory out.
type segment struct {
	addr       Address
	size, kept uint64
	offset     int64
	rights     elf.ProgFlag
}

// Core is a Memory over an ELF core file that the kernel or gcore wrote. A core leaves out memory whose content is in a
// mapped file (code and constants). Core reads such memory from the file, after it has checked that the file is the one
// that was mapped. A Core is safe for concurrent use.
type Core struct {
	path    string
	file    io.ReaderAt
	closer  io.Closer
	written time.Time
	// length is the size of the core file in bytes. missing is the number of bytes that the core's headers describe but
	// the file lacks, because the file was cut short.
	length, missing int64
	machine         string
	segments        []segment
	notes           coreNotes
	// mappings are what Maps returns: all memory of the process. The list of mappings in notes is shorter, because it
	// has only mapped files.
	mappings []Mapping
	// given maps the path of a mapped file to the path of the file that the user has named to replace it. root is the
	// root folder of the dumped process.
	given map[string]string
	root  string

	mu    sync.Mutex
	files map[string]*mappedFile
	// gate limits how long a system call on a mapped file can block ddtop. The file may be on a network drive that does
	// not answer.
	gate safefile.Gate
}

// CoreFiles says where to find the files that the dumped process had mapped. It is needed if the files are not at
// their own paths: the process ran in a container or on another machine, or the files were moved.
type CoreFiles struct {
	// Root is the folder that was the root folder of the dumped process. If it is empty, ddtop's own root is used.
	Root string
	// Files are paths of files to read instead of the mapped files with the same base names. A file whose name matches
	// no mapped file is read instead of the program file.
	Files []string
}

// OpenCore opens a core file. The error is errNotCore if the file is not a core file.
func OpenCore(path string, files CoreFiles) (*Core, error) {
	f, err := safefile.Open(path, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	c, err := newCore(path, f, f.Info().Size())
	if err == nil {
		c.closer, c.written, c.root = f, f.Info().ModTime(), files.Root
		err = c.give(files.Files)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

func newCore(path string, file io.ReaderAt, length int64) (*Core, error) {
	c := &Core{path: path, file: file, length: length, files: make(map[string]*mappedFile)}
	fail := func(format string, args ...any) (*Core, error) {
		return nil, fmt.Errorf("%s: %w: %s", path, errNotCore, fmt.Sprintf(format, args...))
	}
	var head [64]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return fail("it is shorter than an ELF header")
	}
	if string(head[:4]) != elf.ELFMAG {
		return fail("%s", packedAs(head[:]))
	}
	if elf.Class(head[4]) != elf.ELFCLASS64 || elf.Data(head[5]) != elf.ELFDATA2LSB {
		return fail("it is of a 32-bit or big-endian program")
	}
	if kind := elf.Type(binary.LittleEndian.Uint16(head[16:])); kind != elf.ET_CORE {
		return fail("it is an ELF file of type %v", kind)
	}
	c.machine = mapped.MachineName(elf.Machine(binary.LittleEndian.Uint16(head[18:])))
	table, err := c.programHeaders(head[:])
	if err != nil {
		return fail("%v", err)
	}
	var notes []byte
	for h := table; len(h) >= programHeaderSize; h = h[programHeaderSize:] {
		offset, addr := binary.LittleEndian.Uint64(h[8:]), binary.LittleEndian.Uint64(h[16:])
		kept, size := binary.LittleEndian.Uint64(h[32:]), binary.LittleEndian.Uint64(h[40:])
		switch elf.ProgType(binary.LittleEndian.Uint32(h)) {
		case elf.PT_NOTE:
			if notes, err = c.readNotes(notes, offset, kept); err != nil {
				return fail("%v", err)
			}
		case elf.PT_LOAD:
			s, ok := c.segment(offset, addr, kept, size)
			s.rights = elf.ProgFlag(binary.LittleEndian.Uint32(h[4:]))
			if !ok {
				return fail("a segment of %d bytes at %#x can't be", size, addr)
			}
			c.segments = append(c.segments, s)
		}
	}
	sorting.By(c.segments, func(a, b segment) int { return cmp.Compare(a.addr, b.addr) })
	if c.notes, err = parseCoreNotes(notes); err != nil {
		return fail("%v", err)
	}
	c.mappings = c.allMappings()
	return c, nil
}

const programHeaderSize = 56

// programHeaders reads the program headers. If there are 65,535 or more, their number is in the first section header
// (PN_XNUM, elf(5)).
func (c *Core) programHeaders(head []byte) ([]byte, error) {
	const xnum = 0xffff
	at, size, count := binary.LittleEndian.Uint64(head[32:]), binary.LittleEndian.Uint16(head[54:]), uint64(binary.LittleEndian.Uint16(head[56:]))
	if size != programHeaderSize {
		return nil, fmt.Errorf("its program headers have %d bytes", size)
	}
	if count == xnum {
		var section [64]byte
		if _, err := c.file.ReadAt(section[:], int64(binary.LittleEndian.Uint64(head[40:])&(1<<62-1))); err != nil {
			return nil, errors.New("its section header is missing")
		}
		count = uint64(binary.LittleEndian.Uint32(section[44:])) // the field sh_info of the first section header
	}
	if count == 0 || count > maxSegments {
		return nil, fmt.Errorf("%d program headers", count)
	}
	if at > uint64(c.length) || count*programHeaderSize > uint64(c.length)-at {
		return nil, errors.New("it was cut off: its program headers lie beyond its end")
	}
	table := make([]byte, count*programHeaderSize)
	if _, err := c.file.ReadAt(table, int64(at)); err != nil {
		return nil, err
	}
	return table, nil
}

// segment returns the segment of memory that a program header (PT_LOAD) describes. It returns false if the header's
// numbers make no sense. Bytes of the segment beyond the end of the file are added to c.missing.
func (c *Core) segment(offset, addr, kept, size uint64) (segment, bool) {
	kept = min(kept, size)
	if addr+size < addr || offset > 1<<62 {
		return segment{}, false
	}
	if left := max(0, c.length-int64(offset)); kept > uint64(left) {
		c.missing += int64(min(kept-uint64(left), 1<<40))
		kept = uint64(left)
	}
	return segment{addr: Address(addr), size: size, kept: kept, offset: int64(offset)}, true
}

// readNotes reads a segment of notes. It appends the notes that parseCoreNotes uses to the slice in the parameter to,
// and returns the slice. To save memory, it skips all other notes, most of which are floating-point registers.
func (c *Core) readNotes(to []byte, offset, size uint64) ([]byte, error) {
	if offset > uint64(c.length) || size > uint64(c.length)-offset {
		return nil, fmt.Errorf("it was cut off: %d bytes of notes, which say which files were mapped, lie beyond its end", size)
	}
	in := io.NewSectionReader(c.file, int64(offset), int64(size))
	for at := int64(0); at+noteHeader <= in.Size(); {
		var head [noteHeader + noteOwner]byte
		if _, err := in.ReadAt(head[:], at); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		length := noteSize(head[:])
		left := in.Size() - at
		if wantedNote(head[:]) {
			n := min(length, left) // the file can end within the note; parseCoreNotes reports this as an error
			if int64(len(to))+n > maxCoreNotes {
				return nil, fmt.Errorf("its notes of threads and mapped files have more than %d bytes", maxCoreNotes)
			}
			note := make([]byte, n)
			if _, err := in.ReadAt(note, at); err != nil {
				return nil, err
			}
			to = append(to, note...)
		}
		at += length
	}
	return to, nil
}

// packedAs returns the part of an error message that describes a file that is not ELF. If the file is compressed, the
// text names the command that unpacks it.
func packedAs(head []byte) string {
	for magic, how := range map[string]string{
		"\x28\xb5\x2f\xfd": "zstd -d", "\x04\x22\x4d\x18": "lz4 -d", "\xfd7zX": "xz -d", "\x1f\x8b": "gunzip",
	} {
		if string(head[:len(magic)]) == magic {
			return fmt.Sprintf("it is compressed: unpack it with `%s` first (or let `coredumpctl dump -o FILE` do it)", how)
		}
	}
	return "it is not an ELF file"
}

// Read fills buf from the core and the mapped files. An error is a *ReadError with ErrUnmapped or errFileUnusable.
func (c *Core) Read(addr Address, buf []byte) error {
	if err := c.read(addr, buf); err != nil {
		return &ReadError{PID: c.notes.pid, Addr: addr, Want: len(buf), Err: err}
	}
	return nil
}

// ReadBatch fills the ranges one by one. calls is the number of system calls that the same reads of a live process
// would take. A core needs no such calls. ReadBatch returns the number because the interface Memory requires it.
func (c *Core) ReadBatch(ranges []Range) (calls int, err error) {
	for i := range ranges {
		ranges[i].Failed = c.read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	const perCall = 1024
	return (len(ranges) + perCall - 1) / perCall, nil
}

func (c *Core) read(addr Address, buf []byte) error {
	for len(buf) > 0 {
		s, ok, next := c.find(addr)
		at := uint64(addr - s.addr)
		n := len(buf)
		if ok && at < s.kept {
			n = int(min(uint64(n), s.kept-at))
			if _, err := c.file.ReadAt(buf[:n], s.offset+int64(at)); err != nil {
				return fmt.Errorf("%s: %w", c.path, err)
			}
		} else {
			// The core lacks this memory, so read it from the mapped file. For such memory, the kernel writes a segment
			// without content, and gcore writes no segment at all.
			n = int(min(uint64(n), uint64(next-addr)))
			if err := c.readMapped(addr, buf[:n]); err != nil {
				return err
			}
		}
		addr += Address(n)
		buf = buf[n:]
	}
	return nil
}

// find returns the segment that holds addr. ok is false if there is none. The result next is the first address after
// addr at which a segment begins or ends. For all addresses before next, find returns the same segment.
func (c *Core) find(addr Address) (s segment, ok bool, next Address) {
	i := sort.Search(len(c.segments), func(i int) bool { return c.segments[i].addr > addr })
	next = ^Address(0)
	if i < len(c.segments) {
		next = c.segments[i].addr
	}
	if i == 0 {
		return segment{}, false, next
	}
	s = c.segments[i-1]
	if uint64(addr-s.addr) >= s.size {
		return segment{}, false, next
	}
	return s, true, min(next, s.addr+Address(s.size))
}

// PID returns the PID of the dumped process, in the PID namespace of the program that wrote the core.
func (c *Core) PID() int { return c.notes.pid }

// TIDs returns the IDs of the native threads in the core, in ascending order.
func (c *Core) TIDs() []int32 { return slices.Clone(c.notes.tids) }

// UserRegisters returns the registers of a thread of an x86_64 process, in the order of struct user_regs_struct
// (sys/user.h). ok is false if the core has none.
func (c *Core) UserRegisters(tid int32) (regs [NumUserRegisters]uint64, ok bool) {
	regs, ok = c.notes.registers[tid]
	return regs, ok && c.machine == "x86_64"
}

// Title is the program's name without its arguments, from the 80 bytes of arguments that the core keeps.
func (c *Core) Title() string { return titleOf(c.notes.args, c.notes.comm) }

// UID returns the ID of the user that the process ran as.
func (c *Core) UID() int { return c.notes.uid }

// WrittenAt returns when the file was last changed, which is about when the process was dumped.
func (c *Core) WrittenAt() time.Time { return c.written }

// Machine returns the name of the CPU architecture, such as "x86_64" or "aarch64".
func (c *Core) Machine() string { return c.machine }

// Missing returns the number of bytes that the core lacks because it was cut short (ulimit -c, a full disk).
func (c *Core) Missing() int64 { return c.missing }

// Close closes the core and the mapped files.
func (c *Core) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, f := range c.files {
		if f.file != nil {
			errs = append(errs, f.file.Close())
		}
	}
	clear(c.files)
	if c.closer != nil {
		errs = append(errs, c.closer.Close())
	}
	return errors.Join(errs...)
}
