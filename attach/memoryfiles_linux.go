package attach

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/safefile"
)

const (
	// maxDescriptors limits how many descriptors of a process are read.
	maxDescriptors = 1 << 16
	// maxMemoryFiles limits how many memfds one call of MemoryFiles reads. If there are more, it reads those with the
	// highest descriptors.
	maxMemoryFiles = 16
)

// forkTime is a time between the last write to a memfd and the start of a process. If at least this time has passed,
// the process's parent wrote the memfd. A shorter time proves nothing, because the kernel keeps both times in ticks of
// up to 10 ms.
const forkTime = 50 * time.Millisecond

// MemoryFile is a memfd that a process has open (memfd_create(2)).
type MemoryFile struct {
	// FD is the descriptor in the process. Name is the name of the memfd, and Content is all of its content.
	FD      int
	Name    string
	Content []byte
	// Inherited is true if the file was last written before this process began. The process's parent must then have
	// written the file. Inherited can be wrong if the clock was set since then.
	Inherited bool
}

// MemoryFiles reads the memfds of the process whose names begin with prefix. Datadog's tracers publish their settings
// in such a file. The result is in the order of the descriptors, with at most limit bytes of each file. Unreadable
// memfds, and other files that only look like memfds, are left out. An error means that the descriptors cannot be
// listed: ErrGone, ErrPermission or the kernel's.
func (p *Process) MemoryFiles(prefix string, limit int64) ([]MemoryFile, error) {
	dir, done := p.folder()
	defer done()
	d, err := p.openProc("fd")
	if err != nil {
		return nil, p.lost(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(maxDescriptors)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, p.lost(err)
	}
	var fds []int
	called := make(map[int]string)
	for _, name := range names {
		link, err := readlinkIn(dir, "fd/"+name)
		if err != nil {
			continue // the process has closed this descriptor in the meantime
		}
		link, ok := strings.CutPrefix(link, "/memfd:")
		fd, err := strconv.Atoi(name)
		if ok && err == nil && strings.HasPrefix(link, prefix) {
			called[fd] = strings.TrimSuffix(link, " (deleted)")
			fds = append(fds, fd)
		}
	}
	if len(fds) == 0 {
		return nil, nil
	}
	device, err := memoryDevice()
	if err != nil {
		return nil, err
	}
	slices.Sort(fds)
	var out []MemoryFile
	for _, fd := range fds[max(0, len(fds)-maxMemoryFiles):] {
		if f, err := p.memoryFile(fd, device, limit); err == nil {
			f.Name = called[fd]
			out = append(out, f)
		}
	}
	return out, nil
}

// memoryFile reads the memfd behind a descriptor. The name of the descriptor's link does not prove that the descriptor
// belongs to a memfd: a file in the root folder can have the same name, and the process may not be allowed to read it.
// But all memfds are files of one device that is mounted nowhere, so memoryFile checks the device.
func (p *Process) memoryFile(fd int, device uint64, limit int64) (out MemoryFile, err error) {
	dir, done := p.folder()
	defer done()
	f, err := safefile.OpenLink(dir, "fd/"+strconv.Itoa(fd), limit, &p.gate)
	if err != nil {
		return out, err
	}
	defer f.Close()
	st, ok := f.Info().Sys().(*syscall.Stat_t)
	if !ok || uint64(st.Dev) != device {
		return out, fmt.Errorf("descriptor %d of process %d is no memfd", fd, p.pid)
	}
	started, err := p.StartedAt()
	if err != nil {
		return out, err
	}
	out = MemoryFile{FD: fd, Inherited: f.Info().ModTime().Add(forkTime).Before(started)}
	out.Content, err = f.ReadAll(limit)
	return out, err
}

// memoryDevice returns the number of the device to which all memfds belong.
func memoryDevice() (uint64, error) {
	fd, err := unix.MemfdCreate("ddtop", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("making a memfd, to compare others with: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("looking at a memfd: %w", err)
	}
	return uint64(st.Dev), nil
}
