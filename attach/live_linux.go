package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRangesPerCall is the number of ranges that one process_vm_readv takes (IOV_MAX, limits.h).
const maxRangesPerCall = 1024

// liveMemory reads a process's memory with process_vm_readv(2). This call can be missing (ENOSYS). A seccomp filter can
// also forbid it (EPERM) but allow /proc/PID/mem. In both cases liveMemory reads /proc/PID/mem, with one call for each
// range. It also reads this file after the process's first thread has ended. process_vm_readv needs a thread's number,
// and another process can get the number of an ended thread. An open file always stays with its process.
type liveMemory struct {
	pid int

	mu sync.Mutex
	// local and remote are the parameters of process_vm_readv: ranges of ddtop's memory and of the target's. All calls
	// use the same two slices, to save allocations.
	local  []unix.Iovec
	remote []unix.RemoteIovec
	// index[i] is the index, in the caller's slice, of the i-th range of a system call. The two numbers differ because
	// empty ranges are not passed to the kernel.
	index []int
	mem   *os.File
	// another is a function that opens /proc/TID/mem for a thread that still lives. It returns an error if no thread
	// lives. triedAt is the time of its last call.
	another func() (*os.File, error)
	triedAt time.Time
}

// reopenRest is the least time between two calls of the function liveMemory.another. While a process ends, every read
// fails, and no living thread is found. Without a pause, ddtop would search for a living thread after every failed
// read.
const reopenRest = 20 * time.Millisecond

// reopen opens the process's memory through another thread that still lives. The caller must hold mu.
func (m *liveMemory) reopen() bool {
	if m.another == nil || time.Since(m.triedAt) < reopenRest {
		return false
	}
	m.triedAt = time.Now()
	mem, err := m.another()
	if err != nil {
		return false
	}
	if m.mem != nil {
		m.mem.Close()
	}
	m.mem = mem
	return true
}

// Read fills buf from addr. The error is a *ReadError that wraps ErrUnmapped, ErrGone or ErrPermission.
func (m *liveMemory) Read(addr Address, buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem != nil {
		return m.readFile(addr, buf)
	}
	m.put(0, addr, buf)
	n, errno := m.call(0, 1)
	m.local[0].Base = nil
	if errno == 0 && n == len(buf) {
		return nil
	}
	if errno == unix.ESRCH && m.reopen() {
		return m.readFile(addr, buf)
	}
	if errno == 0 {
		errno = unix.EFAULT
	}
	return &ReadError{PID: m.pid, Addr: addr, Want: len(buf), Err: meaning(errno)}
}

// ReadBatch fills the ranges in order, with up to maxRangesPerCall in one call. A call ends at the first range that
// faults. ReadBatch marks this range as Failed and continues with the next one, which costs one more call. The bytes
// of all ranges of one call are read within microseconds, but not at one instant.
func (m *liveMemory) ReadBatch(ranges []Range) (calls int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem != nil {
		return m.readBatchFile(ranges)
	}
	for next := 0; next < len(ranges); {
		n := 0
		for ; next < len(ranges) && n < maxRangesPerCall; next++ {
			r := &ranges[next]
			r.Failed = false
			if len(r.Buf) == 0 {
				continue
			}
			m.put(n, r.Addr, r.Buf)
			m.index = append(m.index[:n], next)
			n++
		}
		c, err := m.transfer(ranges, n)
		calls += c
		clear(m.local[:n])
		if errors.Is(err, ErrGone) && m.reopen() {
			more, err := m.readBatchFile(ranges)
			return calls + more, err
		}
		if err != nil {
			for i := next; i < len(ranges); i++ {
				ranges[i].Failed = true
			}
			return calls, err
		}
	}
	return calls, nil
}

// transfer reads the first n ranges of local and remote, which put has filled. If an error occurs, it marks the ranges
// that it did not read as Failed.
func (m *liveMemory) transfer(ranges []Range, n int) (calls int, err error) {
	for i := 0; i < n; {
		calls++
		got, errno := m.call(i, n)
		if errno != 0 && errno != unix.EFAULT {
			first := &ranges[m.index[i]]
			for ; i < n; i++ {
				ranges[m.index[i]].Failed = true
			}
			return calls, &ReadError{PID: m.pid, Addr: first.Addr, Want: len(first.Buf), Err: meaning(errno)}
		}
		for i < n && got >= int(m.remote[i].Len) {
			got -= int(m.remote[i].Len)
			i++
		}
		if i < n {
			ranges[m.index[i]].Failed = true
			i++
		}
	}
	return calls, nil
}

func (m *liveMemory) put(i int, addr Address, buf []byte) {
	local := unix.Iovec{Base: unsafe.SliceData(buf)}
	local.SetLen(len(buf))
	m.local = append(m.local[:i], local)
	m.remote = append(m.remote[:i], unix.RemoteIovec{Base: uintptr(addr), Len: len(buf)})
}

// call reads the ranges [from, to) that the method put has added. It allocates nothing, unlike the wrapper in x/sys.
func (m *liveMemory) call(from, to int) (n int, errno syscall.Errno) {
	for {
		r, errno := m.readv(from, to)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(r), 0
	}
}

// readv makes an ordinary system call, so that Go's scheduler knows of it. The call can wait until the target's pages
// are present and the lock of its mappings is free. How long this takes depends on the target (userfaultfd(2), FUSE,
// swap on a disk that hangs). If the scheduler did not know of the call, the garbage collector could not start, and
// ddtop could neither continue nor stop.
func (m *liveMemory) readv(from, to int) (uintptr, syscall.Errno) {
	r, _, errno := syscall.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(m.pid),
		uintptr(unsafe.Pointer(&m.local[from])), uintptr(to-from), uintptr(unsafe.Pointer(&m.remote[from])), uintptr(to-from), 0)
	return r, errno
}

// meaning turns an error number of the kernel into an error of this package.
func meaning(errno syscall.Errno) error {
	switch errno {
	case unix.EFAULT, unix.EIO:
		return ErrUnmapped
	case unix.ESRCH:
		return ErrGone
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("%w: %w", ErrPermission, errno)
	}
	return errno
}

// probe makes the first read of memory. It decides how all later reads work: by process_vm_readv or, if the kernel
// refuses this call, by /proc/PID/mem.
func (m *liveMemory) probe(addr Address, buf []byte) error {
	first := m.Read(addr, buf)
	if first == nil || errors.Is(first, ErrGone) || errors.Is(first, ErrUnmapped) {
		return first
	}
	mem, err := os.OpenFile("/proc/"+strconv.Itoa(m.pid)+"/mem", os.O_RDONLY, 0)
	if err != nil {
		return first
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mem = mem
	if err := m.readFile(addr, buf); err != nil {
		mem.Close()
		m.mem = nil
		return first
	}
	return nil
}

func (m *liveMemory) readFile(addr Address, buf []byte) error {
	fail := func(err error) error {
		return &ReadError{PID: m.pid, Addr: addr, Want: len(buf), Err: err}
	}
	if addr > 1<<63-1 {
		return fail(ErrUnmapped)
	}
	n, err := m.mem.ReadAt(buf, int64(addr))
	if n == 0 && errors.Is(err, io.EOF) && m.reopen() {
		// The open file shows no memory after the program has called exec, or after the thread of the file has ended.
		// reopen has now opened the file of a living thread, so read again.
		n, err = m.mem.ReadAt(buf, int64(addr))
	}
	var errno syscall.Errno
	switch {
	case n == len(buf):
		return nil
	case errors.Is(err, io.EOF) && n == 0:
		// The read returned no bytes and no error. This happens after a process has given up its memory.
		return fail(ErrGone)
	case errors.As(err, &errno):
		return fail(meaning(errno))
	case errors.Is(err, io.EOF):
		return fail(ErrUnmapped)
	}
	return fail(err)
}

func (m *liveMemory) readBatchFile(ranges []Range) (calls int, err error) {
	for i := range ranges {
		r := &ranges[i]
		r.Failed = false
		if len(r.Buf) == 0 {
			continue
		}
		calls++
		if err := m.readFile(r.Addr, r.Buf); err != nil {
			r.Failed = true
			if !errors.Is(err, ErrUnmapped) {
				for j := i + 1; j < len(ranges); j++ {
					ranges[j].Failed = true
				}
				return calls, err
			}
		}
	}
	return calls, nil
}

// Method returns how memory is read: "process_vm_readv" or "/proc/PID/mem".
func (m *liveMemory) Method() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem != nil {
		return "/proc/PID/mem"
	}
	return "process_vm_readv"
}

func (m *liveMemory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem != nil {
		m.mem.Close()
		m.mem = nil
	}
}
