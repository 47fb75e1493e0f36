// Package safefile opens files that a stranger has named or made. It also writes files into folders to which a stranger
// may write. ddtop runs as root, and a path from a target's memory can be hostile. The path may lead to a pipe that
// never answers, to a device that acts when it is opened, or out of the target's root. It may also lead to a file that
// the target itself may not read.
//
// Before a file is opened for reading, it is checked. Only a regular file of an expected size is opened, with the
// rights of the process that named it. If a file system does not answer, a caller waits at most patience.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// The errors of opening and reading files. The functions wrap them with the file's name.
var (
	// ErrNotRegular means that the path is a folder, a pipe, a socket or a device. It can also be a file that the
	// kernel makes up (/proc, /sys).
	ErrNotRegular = errors.New("it is not a regular file")
	// ErrTooLarge means that the file has more bytes than the caller allows.
	ErrTooLarge = errors.New("it is too large")
	// errHung means that the file system did not answer in time.
	errHung = errors.New("its file system does not answer")
	// ErrUntrusted means that another user could have written the file.
	ErrUntrusted = errors.New("somebody else could have written it")
)

// patience limits how long opening a file may take, and how long one read of a file may take. Even a busy disk answers
// in this time.
const patience = 5 * time.Second

// maxHung limits how many calls of one Gate may hang. Each of them blocks a thread until its file system answers.
const maxHung = 4

// Gate limits how long callers wait for file systems, and how many calls may hang at the same time. The zero value is
// ready to use. Any number of goroutines may share it.
type Gate struct {
	// Wait is how long a call may take. If it is zero, the limit is patience.
	Wait time.Duration
	hung atomic.Int32
}

// within runs f in a goroutine of its own, and returns errHung if f takes longer than the gate allows. If f then ends
// later without an error, within passes its result to the function late, which can close a file, for example.
func within[T any](g *Gate, name string, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if n := g.hung.Load(); n >= maxHung {
		return none, fmt.Errorf("%s: %w: %d calls before this one still wait", name, errHung, n)
	}
	wait := g.Wait
	if wait == 0 {
		wait = patience
	}
	done, given := make(chan result), make(chan struct{})
	go func() {
		v, err := f()
		select {
		case done <- result{v, err}:
		case <-given:
			g.hung.Add(-1)
			if err == nil && late != nil {
				late(v)
			}
		}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		g.hung.Add(1)
		close(given)
		return none, fmt.Errorf("%s: %w: waited %v", name, errHung, wait)
	}
}

// File is a regular file that was opened for reading. It may be used from any goroutine.
type File struct {
	file *os.File
	name string
	info os.FileInfo
	gate *Gate // nil if a read may take any length of time
}

// Name returns the path by which the file was opened.
func (f *File) Name() string { return f.name }

// Info returns what the kernel reported about the file when it was opened.
func (f *File) Info() os.FileInfo { return f.info }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// maxPiece limits the size of one read, in bytes. If a read hangs, a buffer of this size stays in memory until the read
// returns.
const maxPiece = 1 << 20

// ReadAt implements io.ReaderAt. It returns errHung if a read takes longer than the gate allows.
func (f *File) ReadAt(buf []byte, off int64) (n int, err error) {
	if f.gate == nil {
		return f.file.ReadAt(buf, off)
	}
	for n < len(buf) && err == nil {
		var piece []byte
		// Each read gets a new buffer. A read that hangs may return after the caller has given up and uses buf for
		// something else. So the read must not write into buf.
		piece, err = within(f.gate, f.name, func() ([]byte, error) {
			own := make([]byte, min(len(buf)-n, maxPiece))
			got, err := f.file.ReadAt(own, off+int64(n))
			if errors.Is(err, io.EOF) {
				return own[:got], nil
			}
			return own[:got], err
		}, nil)
		n += copy(buf[n:], piece)
		if err == nil && len(piece) == 0 {
			err = io.EOF
		}
	}
	return n, err
}

// ReadAll reads the complete file. It reads at most limit bytes, because the file may have grown since it was opened.
func (f *File) ReadAll(limit int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, limit))
}
