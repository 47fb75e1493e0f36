package mapped

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"github.com/ddtop/ddtop/internal/safefile"
)

// DebugFolder is where systems install separate debug files (gdb's "Debugging Information in Separate Files").
const DebugFolder = "/usr/lib/debug"

// MaxMappedFile limits the size of a program or library that ddtop opens, in bytes. It can be large, because ddtop
// reads only parts of the file, and each part has its own limit.
const MaxMappedFile = 1 << 40

// MaxDebugFile limits the size of a separate debug file, in bytes. Ruby's debug files have up to 60 MB. To compute
// checksums, ddtop reads each file that may be the debug file. MaxDebugFile also limits the sum of their sizes.
const MaxDebugFile = 512 << 20

// ErrNoDebugFile is returned if neither a module nor a separate file has its debug information.
var ErrNoDebugFile = errors.New("no debug information")

// DebugFile is the ELF file with a module's debug information: the module's own file, or a separate one.
type DebugFile struct {
	ELF *elf.File
	// Path is the file's path. Separate is set if the file is not the module's own file.
	Path     string
	Separate bool
	symbols  *symbolTable
}

// DebugFile returns the file with the module's DWARF: the module's own file, or a separate one that its build id or
// .gnu_debuglink names. Separate files are below the target's root or ddtop's root. The first call opens the separate
// file, and closing the module closes it. If no file has the DWARF, the error is ErrNoDebugFile.
func (m *Module) DebugFile() (*DebugFile, error) {
	if m.HasDWARF() {
		return &DebugFile{ELF: m.File, Path: m.Path}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.separate()
	if err != nil {
		return nil, err
	}
	if f.ELF.Section(".debug_info") == nil {
		return nil, fmt.Errorf("%w: %s has none", ErrNoDebugFile, f.Path)
	}
	return f, nil
}

// separate returns the module's separate debug file. It searches only once, and later calls return the same result. The
// caller holds m.mu.
func (m *Module) separate() (*DebugFile, error) {
	if m.debug != nil || m.debugErr != nil {
		return m.debug, m.debugErr
	}
	m.debug, m.debugErr = m.findSeparate()
	return m.debug, m.debugErr
}

// LacksSymbols reports whether a separate debug file would help to name functions. The result is true if the module's
// file has a build id, it has no .symtab, and no debug file was found.
func LacksSymbols(m *Module) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.File == nil || m.BuildID == "" || m.static != nil {
		return false
	}
	_, err := m.separate()
	return err != nil
}

// UseDebugFile makes f the module's separate debug file. The file must have the module's build id. The module closes
// f, also after an error.
func UseDebugFile(m *Module, f *safefile.File) error {
	e, err := OpenELF(f)
	if err == nil && (m.BuildID == "" || BuildIDOfSections(e) != m.BuildID || e.Machine != machineNumber(m.Machine)) {
		err = fmt.Errorf("%w: %s is of another build", ErrNoDebugFile, f.Name())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || m.debug != nil {
		return errors.Join(err, f.Close())
	}
	m.debug, m.debugErr, m.debugCloser = separateFile(e, f.Name()), nil, f
	return nil
}

func separateFile(e *elf.File, path string) *DebugFile {
	return &DebugFile{ELF: e, Path: path, Separate: true, symbols: symbolsOf(e, elf.SHT_SYMTAB)}
}

// DebugRoot is a root folder below which separate debug files are searched.
type DebugRoot struct {
	Name string
	Open func() (*safefile.Root, error)
}

// OwnRoot returns a DebugRoot for a folder of ddtop's own file system, which is read with ddtop's rights.
func OwnRoot(name string) DebugRoot {
	return DebugRoot{name, func() (*safefile.Root, error) { return safefile.OpenRoot(name, nil, new(safefile.Gate)) }}
}

func (m *Module) findSeparate() (*DebugFile, error) {
	link, crc, hasLink := m.DebugLink()
	paths := m.debugPaths(link)
	budget := int64(MaxDebugFile)
	var names []string
	for _, root := range m.rootsOr() {
		names = append(names, root.Name)
		dir, err := root.Open()
		if err != nil {
			continue
		}
		for _, path := range paths {
			f, err := dir.Open(path, MaxDebugFile)
			if err != nil {
				continue
			}
			e, err := OpenELF(f)
			if err == nil && e.Machine == machineNumber(m.Machine) &&
				(m.BuildID != "" && m.BuildID == BuildIDOfSections(e) || hasLink && sameChecksum(f, crc, &budget)) {
				m.debugCloser = f
				dir.Close()
				return separateFile(e, f.Name()), nil
			}
			f.Close()
		}
		dir.Close()
	}
	if m.BuildID == "" && !hasLink {
		return nil, fmt.Errorf("%w: %s has none, and neither a build id nor a link to a separate file", ErrNoDebugFile, m.Path)
	}
	return nil, fmt.Errorf("%w: %s has none, and no separate file for it was found (build id %q) below %s%s",
		ErrNoDebugFile, m.Path, m.BuildID, strings.Join(names, ", "), DebugFolder)
}

func (m *Module) rootsOr() []DebugRoot {
	if len(m.Roots) == 0 {
		return []DebugRoot{OwnRoot("/")}
	}
	return m.Roots
}

// debugPaths returns the possible paths of a separate debug file below a root. link is the name in .gnu_debuglink.
func (m *Module) debugPaths(link string) []string {
	var out []string
	if len(m.BuildID) > 2 {
		out = append(out, filepath.Join(DebugFolder, ".build-id", m.BuildID[:2], m.BuildID[2:]+".debug"))
	}
	if link == "" || link != filepath.Base(link) {
		return out
	}
	dirs := []string{filepath.Dir(m.Path)}
	if inner, ok := strings.CutPrefix(m.Path, m.Chroot+"/"); ok && m.Chroot != "" {
		dirs = append(dirs, filepath.Dir("/"+inner))
	}
	for _, dir := range dirs {
		out = append(out, filepath.Join(dir, link), filepath.Join(dir, ".debug", link), filepath.Join(DebugFolder, dir, link))
	}
	return out
}

// DebugLink returns the content of .gnu_debuglink, the name and the CRC-32 of the separate debug file. The section has
// the name, a zero byte, padding to four bytes, and the CRC.
func (m *Module) DebugLink() (name string, crc uint32, ok bool) {
	const maxLink = 4096
	if m.File == nil {
		return "", 0, false
	}
	s := m.File.Section(".gnu_debuglink")
	if s == nil {
		return "", 0, false
	}
	b, err := sectionData(s, maxLink)
	if err != nil {
		return "", 0, false
	}
	name, _, ok = strings.Cut(string(b), "\x00")
	at := (len(name) + 1 + 3) &^ 3
	if !ok || name == "" || at+4 > len(b) {
		return "", 0, false
	}
	return name, binary.LittleEndian.Uint32(b[at:]), true
}

// sameChecksum reports whether a file has the wanted CRC-32. budget is the number of bytes that may still be read.
// sameChecksum subtracts the file's size from it. If the file is larger than the budget, sameChecksum returns false
// without reading the file.
func sameChecksum(f *safefile.File, want uint32, budget *int64) bool {
	size := f.Info().Size()
	if *budget -= size; *budget < 0 {
		return false
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return false
	}
	return sum.Sum32() == want
}

// BuildIDOfSections reads the build id from the note sections of a file. It is for files whose program headers do not
// lead to the notes, such as debug files.
func BuildIDOfSections(f *elf.File) string {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOTE {
			continue
		}
		if b, err := sectionData(s, maxNotes); err == nil {
			if id := buildIDOf(b); id != "" {
				return id
			}
		}
	}
	return ""
}

func machineNumber(name string) elf.Machine {
	switch name {
	case "x86_64":
		return elf.EM_X86_64
	case "aarch64":
		return elf.EM_AARCH64
	}
	return elf.EM_NONE
}

// OpenFile opens an ELF file that no process has mapped: a libruby, a ruby, or a debug file. Its Bias is 0.
func OpenFile(path string) (*Module, error) {
	f, err := safefile.Open(path, MaxMappedFile)
	if err != nil {
		return nil, err
	}
	m, err := NewModule(path, f, 0, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if m.BuildID == "" {
		m.BuildID = BuildIDOfSections(m.File)
	}
	return m, nil
}

// ReadFile fills buf from the file's content at a symbol. The file need not be mapped by a process.
func (m *Module) ReadFile(s Symbol, buf []byte) error {
	if m.File == nil {
		return fmt.Errorf("%s: %w", m.Path, ErrNoModule)
	}
	at := uint64(s.Addr - m.Bias)
	for _, p := range m.File.Progs {
		if p.Type == elf.PT_LOAD && at >= p.Vaddr && at-p.Vaddr+uint64(len(buf)) <= p.Filesz {
			_, err := p.ReadAt(buf, int64(at-p.Vaddr))
			return err
		}
	}
	return fmt.Errorf("%s: the file has no content for %s at %#x: a debug file holds descriptions only", m.Path, s.Name, at)
}
