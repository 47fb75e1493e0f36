package attach

import (
	"debug/elf"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// debugFolder is where distributions install separate debug files (gdb's "Debugging Information in Separate Files").
const debugFolder = "/usr/lib/debug"

// maxDebugFile bounds a separate debug file whose checksum is computed, in bytes.
const maxDebugFile = 4 << 30

// ErrNoDebugFile is returned for a module without debug information, in itself or in a file of its own.
var ErrNoDebugFile = errors.New("no debug information")

// DebugFile is the ELF file that holds a module's debug information: the module's own, or a separate one.
type DebugFile struct {
	ELF *elf.File
	// Path is where it was found; Separate tells that it is another file than the module's.
	Path     string
	Separate bool
}

// DebugFile finds the file with the module's DWARF: its own, else the separate one that its build id or .gnu_debuglink
// names, below the target's root and below ours. It is read at the first call and closed with the module. ErrNoDebugFile
// where there is none.
func (m *Module) DebugFile() (*DebugFile, error) {
	if m.HasDWARF() {
		return &DebugFile{ELF: m.file, Path: m.Path}, nil
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

// separate finds the separate debug file, once. The caller holds m.mu.
func (m *Module) separate() (*DebugFile, error) {
	if m.debug != nil || m.debugErr != nil {
		return m.debug, m.debugErr
	}
	m.debug, m.debugErr = m.findSeparate()
	return m.debug, m.debugErr
}

func (m *Module) findSeparate() (*DebugFile, error) {
	link, crc, hasLink := m.debugLink()
	for _, place := range m.debugPlaces(link) {
		f, err := openRegular(place)
		if err != nil {
			continue
		}
		e, err := elf.NewFile(f)
		if err == nil && e.Machine == machineNumber(m.Machine) &&
			(m.BuildID != "" && m.BuildID == buildIDOfSections(e) || hasLink && sameChecksum(f, crc)) {
			m.debugCloser = f
			return &DebugFile{ELF: e, Path: place, Separate: true}, nil
		}
		f.Close()
	}
	if m.BuildID == "" && !hasLink {
		return nil, fmt.Errorf("%w: %s has none, and neither a build id nor a link to a separate file", ErrNoDebugFile, m.Path)
	}
	return nil, fmt.Errorf("%w: %s has none, and no separate file for it was found (build id %q) below %s%s",
		ErrNoDebugFile, m.Path, m.BuildID, strings.Join(m.rootsOr(), ", "), debugFolder)
}

func (m *Module) rootsOr() []string {
	if len(m.roots) == 0 {
		return []string{"/"}
	}
	return m.roots
}

// debugPlaces lists where a separate debug file may stand.
func (m *Module) debugPlaces(link string) []string {
	var out []string
	add := func(elem ...string) {
		for _, root := range m.rootsOr() {
			out = append(out, filepath.Join(append([]string{root}, elem...)...))
		}
	}
	if len(m.BuildID) > 2 {
		add(debugFolder, ".build-id", m.BuildID[:2], m.BuildID[2:]+".debug")
	}
	if link == "" || link != filepath.Base(link) {
		return out
	}
	dirs := []string{filepath.Dir(m.Path)}
	if inner, ok := strings.CutPrefix(m.Path, m.chroot+"/"); ok && m.chroot != "" {
		dirs = append(dirs, filepath.Dir("/"+inner))
	}
	for _, dir := range dirs {
		add(dir, link)
		add(dir, ".debug", link)
		add(debugFolder, dir, link)
	}
	return out
}

// debugLink reads .gnu_debuglink: a name that a zero byte ends, padding to four bytes, and the file's CRC-32.
func (m *Module) debugLink() (name string, crc uint32, ok bool) {
	const maxLink = 4096
	if m.file == nil {
		return "", 0, false
	}
	s := m.file.Section(".gnu_debuglink")
	if s == nil || s.Size > maxLink {
		return "", 0, false
	}
	b, err := s.Data()
	if err != nil {
		return "", 0, false
	}
	name, _, ok = strings.Cut(string(b), "\x00")
	at := (len(name) + 1 + 3) &^ 3
	if !ok || name == "" || at+4 > len(b) {
		return "", 0, false
	}
	return name, binaryLE.Uint32(b[at:]), true
}

// openRegular opens a file that may stand in a target's root: only a regular one, without waiting for a pipe's writer.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func sameChecksum(f *os.File, want uint32) bool {
	info, err := f.Stat()
	if err != nil || info.Size() > maxDebugFile {
		return false
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return false
	}
	return sum.Sum32() == want
}

// buildIDOfSections reads the build id where program headers lead nowhere, as in a debug file.
func buildIDOfSections(f *elf.File) string {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOTE || s.Size > maxNotes {
			continue
		}
		if b, err := s.Data(); err == nil {
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

// OpenFile opens an ELF file that no process has mapped, as if at address 0: a libruby, a ruby, or their debug file.
func OpenFile(path string) (*Module, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	m, err := NewModule(path, f, 0, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if m.BuildID == "" {
		m.BuildID = buildIDOfSections(m.file)
	}
	return m, nil
}

// ReadFile reads bytes of the file's content at a symbol's place, for a module that no process need have mapped.
func (m *Module) ReadFile(s Symbol, buf []byte) error {
	if m.file == nil {
		return fmt.Errorf("%s: %w", m.Path, ErrNoModule)
	}
	at := uint64(s.Addr - m.Bias)
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && at >= p.Vaddr && at-p.Vaddr+uint64(len(buf)) <= p.Filesz {
			_, err := p.ReadAt(buf, int64(at-p.Vaddr))
			return err
		}
	}
	return fmt.Errorf("%s: the file has no content for %s at %#x: a debug file holds descriptions only", m.Path, s.Name, at)
}
