package attach

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/safefile"
)

// Module opens the ELF file that is mapped at path. mappings are the process's mappings (the result of Maps), and path
// is one of their paths. If the file cannot be opened, Module reads it from the process's memory. Then only the
// exported symbols are known.
func (p *Process) Module(path string, mappings []Mapping) (*Module, error) {
	var own []Mapping
	for _, m := range mappings {
		if m.IsFile() && m.Path == path {
			own = append(own, m)
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("process %d has not mapped %s", p.pid, path)
	}
	// If a file is upgraded while the process runs, two files with the same path can be mapped: the old one and the new
	// one. Take the first.
	return p.moduleOf(mapped.MappedImages(own)[0])
}

func (p *Process) moduleOf(of mapped.Image) (*Module, error) {
	path, own, first := of.Path, of.Mappings, of.Mappings[0]
	file, err := p.openMapped(first)
	if err != nil {
		if first.Offset == 0 {
			if m, err := mapped.NewModuleFromMemory(path, p, first.Start); err == nil {
				m.Deleted = first.Deleted
				p.setRoots(m)
				return m, nil
			}
		}
		return nil, err
	}
	m, err := mapped.NewMappedModule(path, file, own, file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("process %d: %w", p.pid, err)
	}
	m.Deleted = first.Deleted
	p.setRoots(m)
	return m, nil
}

// setRoots sets the two folders below which a module's separate debug file may be: the process's root and ddtop's root.
// The process can choose the name of the debug file, for example the name of a secret file. So ddtop opens files below
// both roots with the process's rights.
func (p *Process) setRoots(m *Module) {
	m.Roots = []mapped.DebugRoot{{Name: p.LivingPath("root"), Open: p.openRoot}, {Name: "/", Open: p.openOurRoot}}
	if root, err := p.readlink("root"); err == nil && root != "/" {
		m.Chroot = root
	}
}

// openRoot opens the process's root folder. Files below it are opened with the process's rights.
func (p *Process) openRoot() (*safefile.Root, error) {
	rights, err := p.rights()
	if err != nil {
		return nil, err
	}
	dir, done := p.folder()
	defer done()
	return safefile.OpenRootAt(dir, "root", rights, &p.gate)
}

// openOurRoot opens ddtop's own root folder. Files below it are opened with the process's rights.
func (p *Process) openOurRoot() (*safefile.Root, error) {
	rights, err := p.rights()
	if err != nil {
		return nil, err
	}
	return safefile.OpenRoot("/", rights, &p.gate)
}

// rights returns which files the process may open at present. The rights can change, because servers start as root and
// then become another user.
func (p *Process) rights() (*safefile.Rights, error) {
	text, err := p.readProc("status")
	if err != nil {
		return nil, p.lost(err)
	}
	s := parseStatus(text)
	// index of the ID that decides about files; a Uid or Gid line has four IDs: real, effective, saved, and this one
	const files = 3
	if s.UID[files] < 0 || s.GID[files] < 0 {
		return nil, fmt.Errorf("/proc/%d/status does not say whose the process is", p.pid)
	}
	r := &safefile.Rights{UID: s.UID[files], GID: s.GID[files], Groups: s.Groups}
	own, err := os.Readlink("/proc/self/ns/user")
	if theirs, err2 := p.readlink("ns/user"); err == nil && err2 == nil && own == theirs {
		r.Capabilities = s.CapEffective
	}
	return r, nil
}

// ReadFile reads a file at a path as the process sees it: below its root and with its rights. It reads at most limit
// bytes. The error is ErrGone, ErrReplaced, an error of package safefile or an error of the kernel. If the file system
// does not answer, package safefile waits 5 s for each step. So ReadFile can take several times 5 s.
func (p *Process) ReadFile(path string, limit int64) (content []byte, modified time.Time, err error) {
	before, err := p.rights()
	if err != nil {
		return nil, modified, err
	}
	root, err := p.openRoot()
	if err != nil {
		return nil, modified, p.lost(err)
	}
	defer root.Close()
	f, err := root.Open(path, limit)
	if err != nil {
		return nil, modified, err
	}
	defer f.Close()
	// Since the file was opened, the process can have called exec with a program that has more rights, such as su. Then
	// the earlier program chose the path, but ddtop may have read the file with the rights of su. So check that the
	// program is still the same.
	if err := p.Check(); err != nil {
		return nil, modified, err
	}
	if after, err := p.rights(); err != nil || !reflect.DeepEqual(before, after) {
		return nil, modified, errors.Join(fmt.Errorf("process %d has changed its user while %s was opened: try again", p.pid, path), err)
	}
	content, err = f.ReadAll(limit)
	return content, f.Info().ModTime(), err
}

// openMapped opens the file behind a mapping. The kernel shows the file's path as seen from ddtop's root, so openMapped
// tries several paths:
//
// - If the process is in a container's mount namespace, the shown path is valid below /proc/PID/root.
// - If the process is in a chroot, the path is valid below /proc/PID/root without the chroot's folder at its front.
// - If the process changed its root after it had mapped the file, the shown path itself is valid.
//
// The inode number decides which path to use. If file systems hide this number (overlays), the file's first bytes are
// compared with memory. If a file is deleted, replaced or not readable for the process, root opens it through
// /proc/PID/map_files.
func (p *Process) openMapped(m Mapping) (*safefile.File, error) {
	var first error
	take := func(f *safefile.File, err error) bool {
		if err == nil {
			if err = p.isMapped(f, m); err == nil {
				return true
			}
			f.Close()
		}
		if first == nil || errors.Is(first, os.ErrNotExist) && !errors.Is(err, os.ErrNotExist) {
			first = err
		}
		return false
	}
	type candidate struct {
		open func() (*safefile.Root, error)
		path string
	}
	var candidates []candidate
	if !m.Deleted {
		candidates = append(candidates, candidate{p.openRoot, m.Path})
		if root, err := p.readlink("root"); err == nil && root != "/" && strings.HasPrefix(m.Path, root+"/") {
			candidates = append(candidates, candidate{p.openRoot, m.Path[len(root):]})
		}
		candidates = append(candidates, candidate{p.openOurRoot, m.Path})
	}
	for _, at := range candidates {
		root, err := at.open()
		if err != nil {
			take(nil, err)
			continue
		}
		f, err := root.Open(at.path, mapped.MaxMappedFile)
		root.Close()
		if take(f, err) {
			return f, nil
		}
	}
	dir, done := p.folder()
	defer done()
	f, err := safefile.OpenLink(dir, fmt.Sprintf("map_files/%x-%x", uint64(m.Start), uint64(m.End)), mapped.MaxMappedFile, &p.gate)
	if take(f, err) {
		return f, nil
	}
	what := "opening"
	if m.Deleted {
		what = "the file has been removed or replaced since the process started (an upgrade?), and only root can still open it: opening"
	}
	return nil, fmt.Errorf("process %d: %s its file %s: %w", p.pid, what, m.Path, first)
}

// errOtherFile is returned for a file that has the right name but is not the mapped one.
var errOtherFile = errors.New("there is another file of that name")

// isMapped checks that f is the mapping's file.
func (p *Process) isMapped(f *safefile.File, m Mapping) error {
	st, ok := f.Info().Sys().(*syscall.Stat_t)
	if !ok {
		return errOtherFile
	}
	device := fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
	if st.Ino == m.Inode && device == m.Device {
		return nil
	}
	var inFile, inMemory [1024]byte
	n, err := f.ReadAt(inFile[:], int64(m.Offset))
	if n == 0 {
		return err
	}
	if err := p.Read(m.Start, inMemory[:n]); err != nil {
		return err
	}
	if m.Offset != 0 || !bytes.Equal(inFile[:n], inMemory[:n]) {
		return errOtherFile
	}
	return nil
}

// exePath returns the path of the program, as the mappings show it. It looks for a mapping with the path and inode of
// the link /proc/PID/exe, then for a mapping with the same base name. If there is neither, it returns the link's text.
func (p *facts) exePath(mappings []Mapping) string {
	for _, m := range mappings {
		if m.IsFile() && m.Inode == p.exeID.ino && m.Path == p.exe {
			return m.Path
		}
	}
	for _, m := range mappings {
		if m.IsFile() && filepath.Base(m.Path) == filepath.Base(p.exe) {
			return m.Path
		}
	}
	return p.exe
}
