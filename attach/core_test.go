package attach

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach/mapped"
)

// piece is a segment of a made-up core. content is the part of the segment's memory that the core holds.
type piece struct {
	addr    uint64
	size    uint64
	content []byte
}

// mappedFileOf is a mapped file in the note NT_FILE of a made-up core. page is the mapping's offset in the file, in
// pages.
type mappedFileOf struct {
	start, end, page uint64
	path             string
}

// note returns one note of a core.
func note(kind uint32, desc []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 5)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = append(b, "CORE\x00\x00\x00\x00"...)
	b = append(b, desc...)
	return append(b, make([]byte, -len(desc)&3)...)
}

// testRegister returns the value of the register word i that makeCore gives to a thread.
func testRegister(tid uint32, i int) uint64 { return uint64(tid)<<40 | uint64(i) }

// testVDSO is the address of the vDSO in a made-up core.
const testVDSO = 0x13000

// makeCore returns a core file as the kernel writes it. A piece without content becomes a segment with the rights of
// code (readable and executable).
func makeCore(pieces []piece, files []mappedFileOf, entry uint64, tids ...uint32) []byte {
	var notes []byte
	for _, tid := range tids {
		status := make([]byte, 336)
		binary.LittleEndian.PutUint32(status[32:], tid)
		for i := range NumUserRegisters {
			binary.LittleEndian.PutUint64(status[112+i*8:], testRegister(tid, i))
		}
		notes = append(notes, note(ntPRStatus, status)...)
	}
	info := make([]byte, 136)
	binary.LittleEndian.PutUint32(info[16:], 1000)
	binary.LittleEndian.PutUint32(info[24:], 77)
	copy(info[40:], "ruby")
	copy(info[56:], "ruby -W0 /srv/app.rb x")
	notes = append(notes, note(ntPRPSInfo, info)...)
	auxv := binary.LittleEndian.AppendUint64(nil, 9)
	auxv = binary.LittleEndian.AppendUint64(auxv, entry)
	auxv = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(auxv, 33), testVDSO)
	notes = append(notes, note(ntAuxv, append(auxv, make([]byte, 16)...))...)
	list := binary.LittleEndian.AppendUint64(nil, uint64(len(files)))
	list = binary.LittleEndian.AppendUint64(list, 4096)
	for _, f := range files {
		for _, w := range []uint64{f.start, f.end, f.page} {
			list = binary.LittleEndian.AppendUint64(list, w)
		}
	}
	for _, f := range files {
		list = append(list, f.path+"\x00"...)
	}
	notes = append(notes, note(ntFile, list)...)

	count := len(pieces) + 1
	out := make([]byte, 64, 64+count*programHeaderSize)
	copy(out, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(out[16:], uint16(elf.ET_CORE))
	binary.LittleEndian.PutUint16(out[18:], uint16(elf.EM_X86_64))
	binary.LittleEndian.PutUint64(out[32:], 64)
	binary.LittleEndian.PutUint16(out[54:], programHeaderSize)
	binary.LittleEndian.PutUint16(out[56:], uint16(count))
	offset := uint64(64 + count*programHeaderSize)
	header := func(kind elf.ProgType, addr, kept, size uint64) {
		h := make([]byte, programHeaderSize)
		binary.LittleEndian.PutUint32(h, uint32(kind))
		if rights := elf.PF_R; kept == 0 {
			binary.LittleEndian.PutUint32(h[4:], uint32(rights|elf.PF_X))
		} else {
			binary.LittleEndian.PutUint32(h[4:], uint32(rights|elf.PF_W))
		}
		binary.LittleEndian.PutUint64(h[8:], offset)
		binary.LittleEndian.PutUint64(h[16:], addr)
		binary.LittleEndian.PutUint64(h[32:], kept)
		binary.LittleEndian.PutUint64(h[40:], size)
		out = append(out, h...)
		offset += kept
	}
	header(elf.PT_NOTE, 0, uint64(len(notes)), 0)
	for _, p := range pieces {
		header(elf.PT_LOAD, p.addr, uint64(len(p.content)), p.size)
	}
	out = append(out, notes...)
	for _, p := range pieces {
		out = append(out, p.content...)
	}
	return out
}

func content(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
	return b
}

// program returns the content of a file that begins like a program or a library.
func program(n int, seed byte) []byte {
	b := content(n, seed)
	copy(b, elf.ELFMAG)
	return b
}

// coreWith writes a core, and the file library of three pages, which the core has mapped at 0x10000. The core holds the
// first page of library. For the second page it has a segment without content, and for the third no segment. The core
// also has two pages of other memory before library and one page after it.
func coreWith(t *testing.T, library []byte) (core, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "library.so")
	if err := os.WriteFile(path, library, 0o600); err != nil {
		t.Fatal(err)
	}
	b := makeCore([]piece{
		{0x13000, 0x1000, content(0x1000, 9)},
		{0xe000, 0x2000, content(0x2000, 1)},
		{0x10000, 0x1000, program(0x1000, 5)},
		{0x11000, 0x1000, nil},
	}, []mappedFileOf{{0x10000, 0x12000, 0, path}, {0x12000, 0x13000, 2, path}, {0x40000, 0x41000, 0, "/gone/program"}}, 0x40010, 91, 77, 80)
	core = filepath.Join(dir, "core")
	if err := os.WriteFile(core, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return core, path
}

// TestCoreReads: reads that cross the borders between the core's content and the mapped file return the right bytes. A
// read of unmapped memory, or of a missing file, returns an error.
func TestCoreReads(t *testing.T) {
	library := append(program(0x1000, 5), content(0x2000, 77)...)
	path, _ := coreWith(t, library)
	c, err := OpenCore(path, CoreFiles{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := append(append(content(0x2000, 1), library...), content(0x1000, 9)...)
	got := make([]byte, len(want))
	if err := c.Read(0xe000, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the whole: %v, equal %t", err, bytes.Equal(got, want))
	}
	for at := 0; at+24 < len(want); at += 501 {
		ranges := []Range{{Addr: 0x100, Buf: make([]byte, 8)}, {Addr: Address(0xe000 + at), Buf: make([]byte, 24)}}
		if calls, err := c.ReadBatch(ranges); calls != 1 || err != nil || !ranges[0].Failed || ranges[1].Failed || !bytes.Equal(ranges[1].Buf, want[at:at+24]) {
			t.Fatalf("at %#x: %d calls, %v, %+v", at, calls, err, ranges)
		}
	}
	for _, at := range []Address{0, 0xdfff, 0x13ffd, ^Address(0) - 3} {
		var read *ReadError
		if err := c.Read(at, make([]byte, 8)); !errors.As(err, &read) || !errors.Is(err, ErrUnmapped) || read.PID != 77 {
			t.Errorf("at %s: %v", at, err)
		}
	}
	if err := c.Read(0x40000, make([]byte, 8)); !errors.Is(err, errFileUnusable) || !strings.Contains(err.Error(), "/gone/program") {
		t.Errorf("a file that is gone: %v", err)
	}
	if c.PID() != 77 || c.UID() != 1000 || c.Title() != "app.rb" || c.Machine() != "x86_64" || c.Exe() != "/gone/program" || c.Missing() != 0 ||
		len(c.TIDs()) != 3 || c.TIDs()[0] != 77 || time.Since(c.WrittenAt()) > time.Minute {
		t.Errorf("it says %d, %d, %q, %s, %q, %d, %v", c.PID(), c.UID(), c.Title(), c.Machine(), c.Exe(), c.Missing(), c.TIDs())
	}
}

// TestCoreMaps: Maps lists all memory of the process once, with the rights of its segment. If a part of a mapped file
// has no segment, Maps marks it as executable.
func TestCoreMaps(t *testing.T) {
	core, path := coreWith(t, program(0x1000, 5))
	c, err := OpenCore(core, CoreFiles{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	maps, err := c.Maps()
	want := []Mapping{
		{Start: 0xe000, End: 0x10000, Read: true, Write: true, Device: "core"},
		{Start: 0x10000, End: 0x12000, Read: true, Write: true, Device: "core", Inode: 1, Path: path},
		{Start: 0x12000, End: 0x13000, Read: true, Exec: true, Offset: 0x2000, Device: "core", Inode: 1, Path: path},
		{Start: 0x13000, End: 0x14000, Read: true, Write: true, Device: "core", Path: "[vdso]"},
		{Start: 0x40000, End: 0x41000, Read: true, Exec: true, Device: "core", Inode: 2, Path: "/gone/program"},
	}
	if err != nil || !slices.Equal(maps, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, maps, want)
	}
}

// TestCoreRegisters: each thread has the registers in its own note. If the note is cut short, the thread has no
// registers.
func TestCoreRegisters(t *testing.T) {
	b := makeCore(nil, nil, 0, 7, 8)
	c, err := newCore("core", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range []uint32{7, 8} {
		regs, ok := c.UserRegisters(int32(tid))
		for i, word := range regs {
			if !ok || word != testRegister(tid, i) {
				t.Fatalf("thread %d: %v, %#x", tid, ok, regs)
			}
		}
	}
	if _, ok := c.UserRegisters(9); ok {
		t.Error("a thread that is not in the core has registers")
	}
	cut := bytes.Index(b, note(ntPRStatus, make([]byte, 336))[:12])
	binary.LittleEndian.PutUint32(b[cut+4:], 112+NumUserRegisters*8-1)
	b[cut+12+8+112+NumUserRegisters*8-1] = 0 // notes are padded to 4 bytes, so the cut byte is padding now
	n, err := parseCoreNotes(b[cut : cut+12+8+112+NumUserRegisters*8])
	if _, ok := n.registers[7]; ok || err != nil || len(n.tids) != 1 {
		t.Errorf("of a note that is cut short: %v, %+v", err, n)
	}
}

// TestCoreModule: ddtop uses a mapped file only if the core holds a part of it to compare. Without the comparison, the
// file at the same path could be another file, with different code.
func TestCoreModule(t *testing.T) {
	ours, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, mapped.PageSize)
	f, err := os.Open(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kept []byte
		ok   bool
	}{{head, true}, {nil, false}} {
		b := makeCore([]piece{{0x10000, mapped.PageSize, test.kept}}, []mappedFileOf{{0x10000, 0x11000, 0, ours}}, 0, 7)
		c, err := newCore("core", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		maps, _ := c.Maps()
		m, err := c.Module(ours, maps)
		if (err == nil) != test.ok || !test.ok && (!errors.Is(err, errFileUnusable) || !strings.Contains(err.Error(), "compare")) {
			t.Errorf("with %d bytes of it: %v", len(test.kept), err)
		}
		if m != nil {
			m.Close()
		}
		c.Close()
	}
}

// TestCoreFiles: ddtop refuses the file at the path of a mapped file if it is not the one that was mapped. Instead of
// it, ddtop uses the files and folders that the user names.
func TestCoreFiles(t *testing.T) {
	library := append(program(0x1000, 5), content(0x2000, 77)...)
	path, mappedPath := coreWith(t, program(0x3000, 6))
	at := Address(0x11000)
	read := func(files CoreFiles) error {
		c, err := OpenCore(path, files)
		if err != nil {
			return err
		}
		defer c.Close()
		b := make([]byte, 16)
		if err := c.Read(at, b); err != nil {
			return err
		}
		if !bytes.Equal(b, library[0x1000:0x1010]) {
			t.Errorf("%+v: read %x", files, b)
		}
		return nil
	}
	if err := read(CoreFiles{}); !errors.Is(err, errFileUnusable) || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("a replaced file: %v", err)
	}
	moved := filepath.Join(t.TempDir(), "library.so")
	if err := os.WriteFile(moved, library, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(CoreFiles{Files: []string{moved}}); err != nil {
		t.Errorf("the file that is named: %v", err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(mappedPath)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(moved, filepath.Join(root, mappedPath)); err != nil {
		t.Fatal(err)
	}
	if err := read(CoreFiles{Root: root}); err != nil {
		t.Errorf("below the root that is named: %v", err)
	}
	// The file at mappedPath is now neither a program nor a library, and ddtop must refuse it. A hostile core may claim
	// that any file was mapped, such as a file with secrets. ddtop would then show its content as a method's name.
	if err := os.WriteFile(mappedPath, content(0x3000, 6), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(CoreFiles{}); !errors.Is(err, errFileUnusable) || !strings.Contains(err.Error(), "not a program or library") {
		t.Errorf("a file that is not a program: %v", err)
	}
	if err := read(CoreFiles{Root: t.TempDir()}); !errors.Is(err, errFileUnusable) {
		t.Errorf("below an empty root: %v", err)
	}
	if err := read(CoreFiles{Files: []string{"/x/one", "/x/two"}}); err == nil || !strings.Contains(err.Error(), "/x/two") {
		t.Errorf("a file that stands for none: %v", err)
	}
}

// TestCoreErrors: if a file is not a core, the error says what it is.
func TestCoreErrors(t *testing.T) {
	good := makeCore([]piece{{0x1000, 0x1000, content(0x1000, 1)}}, nil, 0, 7)
	change := func(at int, to ...byte) []byte { b := bytes.Clone(good); copy(b[at:], to); return b }
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"empty":         {nil, "shorter"},
		"text":          {bytes.Repeat([]byte("hello "), 20), "not an ELF file"},
		"zstd":          {append([]byte("\x28\xb5\x2f\xfd"), make([]byte, 80)...), "zstd -d"},
		"gzip":          {append([]byte("\x1f\x8b"), make([]byte, 80)...), "gunzip"},
		"a program":     {change(16, 2), "ET_EXEC"},
		"32 bits":       {change(4, 1), "32-bit"},
		"no headers":    {change(56, 0, 0), "0 program headers"},
		"cut in them":   {good[:100], "beyond its end"},
		"cut in notes":  {good[:300], "beyond its end"},
		"no thread":     {makeCore(nil, nil, 0), "no thread"},
		"many headers":  {change(56, 0xff, 0xff), "program headers"},
		"a wild header": {change(64+programHeaderSize+16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "can't be"},
	} {
		path := filepath.Join(t.TempDir(), "core")
		if err := os.WriteFile(path, test.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenCore(path, CoreFiles{}); !errors.Is(err, errNotCore) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := OpenCore(t.TempDir(), CoreFiles{}); err == nil {
		t.Error("a folder is a core")
	}
	c, err := newCore("cut", bytes.NewReader(good), int64(len(good)-10))
	if err != nil || c.Missing() != 10 {
		t.Fatalf("cut at its end: %v", err)
	}
	if err := c.Read(0x1ff0, make([]byte, 16)); err == nil {
		t.Error("what was cut off can be read")
	}
	if _, err := c.Ruby(); !errors.Is(err, errNotCore) {
		t.Errorf("without a list of files: %v", err)
	}
}

// FuzzCore: reading a damaged core returns an error, or memory from within the file. It neither panics nor loops
// forever.
func FuzzCore(f *testing.F) {
	whole := makeCore([]piece{{0x1000, 0x2000, content(0x1800, 1)}, {0x8000, 0x1000, nil}}, []mappedFileOf{{0x8000, 0x9000, 0, "/nowhere/libruby.so.3.4"}}, 0x8010, 7, 8)
	f.Add(whole)
	for at := 0; at < len(whole); at += 37 {
		b := bytes.Clone(whole)
		b[at] ^= 0xff
		f.Add(b)
		f.Add(whole[:at])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := newCore("fuzzed", bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		defer c.Close()
		for _, s := range c.segments {
			if s.kept > uint64(len(file)) {
				t.Errorf("a segment keeps %d bytes of a file of %d", s.kept, len(file))
			}
		}
		buf := make([]byte, 64)
		for _, a := range []Address{0, 0x1000, 0x27f0, 0x8000, 1 << 60, ^Address(0) - 8} {
			_ = c.Read(a, buf)
		}
		if _, err := c.Ruby(); err == nil {
			t.Error("a Ruby from nowhere")
		}
		maps, _ := c.Maps()
		if len(maps) > len(c.notes.mappings)+len(c.segments)+len(c.notes.mappings) {
			t.Errorf("%d mappings of %d segments and %d files", len(maps), len(c.segments), len(c.notes.mappings))
		}
		for i, m := range maps {
			if m.End <= m.Start || i > 0 && maps[i-1].Start > m.Start {
				t.Errorf("mappings that are empty or not in order: %+v", maps)
			}
			if m.IsFile() {
				if _, err := c.Module(m.Path, maps); err == nil {
					t.Errorf("a module from nowhere: %s", m.Path)
				}
			}
		}
		for _, tid := range c.TIDs() {
			_, _ = c.UserRegisters(tid)
		}
	})
}
