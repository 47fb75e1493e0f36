package attach

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Module opens the ELF file that is mapped at path, one of the paths of mappings (the result of Maps). A file that can't
// be opened any more is read from the process's memory, with its exported symbols only.
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
	// After an upgrade under a running process two files of one name can be mapped: keep to the first.
	first := own[0]
	for i := range own {
		if own[i].Inode != first.Inode || own[i].Device != first.Device {
			own = own[:i]
			break
		}
	}
	file, err := p.OpenMapped(first)
	if err != nil {
		if first.Offset == 0 {
			if m, err := NewModuleFromMemory(path, p, first.Start); err == nil {
				m.Deleted = first.Deleted
				p.setRoots(m)
				return m, nil
			}
		}
		return nil, err
	}
	m, err := newMappedModule(path, file, own, file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("process %d: %w", p.pid, err)
	}
	m.Deleted = first.Deleted
	p.setRoots(m)
	return m, nil
}

// setRoots tells a module where its separate debug file may be: in the process's own root, or in ours.
func (p *Process) setRoots(m *Module) {
	m.roots = []string{p.Path("root"), "/"}
	if root, err := p.readlink("root"); err == nil && root != "/" {
		m.chroot = root
	}
}

// OpenMapped opens the file behind a mapping. The kernel shows its path as seen from our root: for a process in a
// chroot that is right as it stands, for one in a container's mount namespace it is right below /proc/PID/root. Which
// it is tells the file's number, and where file systems hide that (overlays), the file's first bytes against those in
// memory. A file that is deleted or replaced can be had from /proc/PID/map_files by root.
func (p *Process) OpenMapped(m Mapping) (*os.File, error) {
	places := []string{p.Path("root", m.Path), m.Path}
	if m.Deleted {
		places = nil
	}
	places = append(places, p.Path("map_files", fmt.Sprintf("%x-%x", uint64(m.Start), uint64(m.End))))
	var first error
	for _, place := range places {
		// Not to wait for a writer where somebody has put a pipe, nor to take a terminal.
		f, err := os.OpenFile(place, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err == nil {
			if err = p.isMapped(f, m); err == nil {
				return f, nil
			}
			f.Close()
		}
		if first == nil || errors.Is(first, os.ErrNotExist) && !errors.Is(err, os.ErrNotExist) {
			first = err
		}
	}
	what := "opening"
	if m.Deleted {
		what = "the file has been removed or replaced since the process started (an upgrade?), which root only can look behind: opening"
	}
	return nil, fmt.Errorf("process %d: %s its file %s: %w", p.pid, what, m.Path, first)
}

// errOtherFile is returned for a file that has the right name but isn't what is mapped.
var errOtherFile = errors.New("another file of that name stands there")

// isMapped checks that f is the mapping's file.
func (p *Process) isMapped(f *os.File, m Mapping) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errOtherFile
	}
	device := fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev))
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

// exePath is the path of the program among the mappings: that of the file with the number of /proc/PID/exe, else the
// link's text.
func (p *Process) exePath(mappings []Mapping) string {
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
