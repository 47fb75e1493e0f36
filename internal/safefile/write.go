package safefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errNoReader is returned for a named pipe that no program has opened to read.
var errNoReader = errors.New("no program reads from this pipe")

// Destination is where a file will be written: an open folder, and the file's name in it. The folder is open, so that
// no one can put another folder in its place.
type Destination struct {
	dir  *os.Root
	name string
	// Path is the path that the user gave. Info describes the file that exists there, and is nil if there is none.
	Path string
	Info fs.FileInfo
}

// At returns the destination of a file in an open folder. Its method Close closes the folder. If a file with this name
// exists, the new file replaces it. A link or a pipe with this name is replaced, too: ddtop does not follow the link,
// and does not write into the pipe. path is the folder's path and the name.
func At(folder *os.Root, path string) *Destination {
	return &Destination{dir: folder, name: filepath.Base(path), Path: path}
}

// Close closes the folder.
func (p *Destination) Close() error { return p.dir.Close() }

// Special reports whether the destination is a pipe or a device. ddtop writes directly into it, and does not replace it
// by a file.
func (p *Destination) Special() bool { return p.Info != nil && !p.Info.Mode().IsRegular() }

// Pending is a file that is still being written. Until it is complete, it has a temporary name.
type Pending struct {
	*os.File
	to   *Destination
	name string
}

// nameTries limits how many names are tried for a new temporary file.
const nameTries = 100

// Begin begins a file of mode 0600 that will replace the file at the destination. The existing file stays until Commit
// is called.
func (p *Destination) Begin() (*Pending, error) {
	for range nameTries {
		f, err := p.create(fmt.Sprintf(".%s-%08x", p.name, rand.Uint32()))
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s can't be written: no free name beside it", p.Path)
}

// BeginBeside begins a file beside the destination. Its name is the destination's name with an ending added, so that
// users can find it if ddtop is killed. A file with this name, from an earlier run, is removed. The file at the
// destination stays until Commit is called.
func (p *Destination) BeginBeside(ending string) (*Pending, error) {
	name := p.name + ending
	if err := p.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s can't be written: %w", p.Path, err)
	}
	return p.create(name)
}

// BeginThere begins a file at the destination itself, where no file may exist.
func (p *Destination) BeginThere() (*Pending, error) { return p.create(p.name) }

func (p *Destination) create(name string) (*Pending, error) {
	f, err := Create(p.dir, name, filepath.Join(filepath.Dir(p.Path), name))
	if err != nil {
		return nil, fmt.Errorf("%s can't be written: %w", p.Path, err)
	}
	return &Pending{f, p, name}, nil
}

// Create makes a file of mode 0600 in an open folder, never through a link, and gives it to the user who called sudo
// (HandOver). The error is fs.ErrExist if the name is taken. Errors name the file by path, because the folder's own
// errors would have only the number of a descriptor.
func Create(folder *os.Root, name, path string) (*os.File, error) {
	made, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		var named *os.PathError
		if errors.As(err, &named) {
			named.Path = path
		}
		return nil, err
	}
	HandOver(folder, made)
	defer made.Close()
	return duplicate(made, path)
}

// duplicate returns a second descriptor of an open file. Its errors name the file by path.
func duplicate(f *os.File, path string) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	fd, failed := -1, error(nil)
	// Do not use the method Fd here: reads and writes of a pipe would then block a thread.
	err = raw.Control(func(from uintptr) { fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	if err = cmp.Or(err, failed); err != nil {
		return nil, &os.PathError{Op: "dup", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Path returns the path at which the file is before Commit moves it.
func (f *Pending) Path() string { return filepath.Join(filepath.Dir(f.to.Path), f.name) }

// Commit moves the file to its destination. If this fails, the existing file stays, and the new file keeps its
// temporary name.
func (f *Pending) Commit() error {
	err := errors.Join(f.Sync(), f.File.Close())
	if err == nil && f.name != f.to.name {
		err = f.to.dir.Rename(f.name, f.to.name)
	}
	if err != nil {
		return fmt.Errorf("%s can't be written: %w", f.to.Path, err)
	}
	return nil
}

// Abort removes the file.
func (f *Pending) Abort() error { return errors.Join(f.File.Close(), f.to.dir.Remove(f.name)) }

// WriteFile writes a file of mode 0600 beside its destination, and moves it there when it is complete. So the
// destination always has either the complete new file or the earlier file. If the destination is not a regular file,
// WriteFile writes directly into it. If the function write fails, nothing is written.
func WriteFile(path string, wait Waiting, write func(io.Writer) error) (err error) {
	p, err := Locate(path)
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Special() {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return fmt.Errorf("%s can't be written: %w", path, err)
		}
		f, err := p.OpenSpecial(wait)
		if err != nil {
			return err
		}
		written := make(chan struct{})
		go func() {
			select {
			case <-wait.GiveUp:
				_ = f.SetWriteDeadline(time.Now()) // only files that can block, such as pipes, have deadlines
			case <-written:
			}
		}()
		_, err = f.Write(b.Bytes())
		close(written)
		return errors.Join(err, f.Close())
	}
	return p.Write(write)
}

// Write writes a file of mode 0600 beside its destination, and moves it there when it is complete. So the destination
// always has either the complete new file or the earlier file.
func (p *Destination) Write(write func(io.Writer) error) error {
	f, err := p.Begin()
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(fmt.Errorf("%s can't be written: %w", p.Path, err), f.Abort())
	}
	if err := f.Commit(); err != nil {
		return errors.Join(err, p.dir.Remove(f.name))
	}
	return nil
}

// readerEvery is how often ddtop checks whether a program has opened a pipe to read.
const readerEvery = 20 * time.Millisecond

// Waiting says how long ddtop waits until a program reads from a named pipe: until GiveUp is closed, or forever if
// GiveUp is nil. ddtop calls Begins when it begins to wait. Begins may be nil.
type Waiting struct {
	GiveUp <-chan struct{}
	Begins func()
}

// OpenSpecial opens a destination that is not a regular file. If it is a named pipe, OpenSpecial waits until a program
// reads from it.
func (p *Destination) OpenSpecial(wait Waiting) (*os.File, error) {
	if p.Info.IsDir() {
		return nil, fmt.Errorf("%s can't be written: it is a folder: give the name of a file", p.Path)
	}
	flags := os.O_WRONLY
	if p.Info.Mode()&fs.ModeNamedPipe != 0 {
		// without O_NONBLOCK, the open would wait in the kernel for a reader, and ignore signals
		flags |= syscall.O_NONBLOCK
	}
	for first := true; ; first = false {
		f, err := p.dir.OpenFile(p.name, flags, 0)
		if err == nil {
			defer f.Close()
			return duplicate(f, p.Path)
		}
		if !errors.Is(err, syscall.ENXIO) || flags&syscall.O_NONBLOCK == 0 {
			return nil, fmt.Errorf("%s can't be written: %w", p.Path, err)
		}
		if first && wait.Begins != nil {
			wait.Begins()
		}
		select {
		case <-wait.GiveUp:
			return nil, fmt.Errorf("%s can't be written: %w", p.Path, errNoReader)
		case <-time.After(readerEvery):
		}
	}
}
