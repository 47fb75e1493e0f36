package moves

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/kernel"
)

const (
	// leastMovePages is the smallest size of a thread's buffer for events, in pages. A page has room for 256 events. A
	// thread gets the smallest size if the kernel allows no more memory (perf_event_mlock_kb).
	leastMovePages = 1
	// mostMovePages is the largest size of a thread's buffer for events, in pages. A thread that switches 10,000 times
	// per second fills it in 0.2 s. On a full machine, ddtop may need this long until it reads the buffer again.
	mostMovePages = 16
	// moveWatermark is the number of bytes in a buffer at which the kernel wakes ddtop. No buffer is so large, so the
	// kernel never wakes ddtop.
	moveWatermark = 1 << 30

	// Offsets in perf_event_mmap_page (linux/perf_event.h).
	ringHead, ringTail = 1024, 1032
	// These are types of the kernel's records, and bits of the word misc in each record.
	recordLost, recordExit, recordFork, recordSwitch = 2, 4, 7, 14
	miscOut, miscPreempted                           = 1 << 13, 1 << 14
	recordHeader                                     = 8
)

// Moves makes the kernel report when threads of a process get and lose a CPU. This costs such a thread about 50 ns per
// switch. It needs no privilege for processes of the same user. It wakes no thread. Only one goroutine may use it.
type Moves struct {
	pid   int
	rings map[int32]*moveRing
	room  int
	lost  uint64
}

// moveRing is the memory into which the kernel writes the events of one thread.
type moveRing struct {
	fd  int
	mem []byte
}

// Open prepares to follow threads of a process. It does not follow any thread yet.
func Open(pid int) *Moves {
	// Each followed thread needs a descriptor. Of the descriptors that ddtop may have, half remain for other uses.
	return &Moves{pid: pid, rings: make(map[int32]*moveRing), room: kernel.OpenFileLimit() / 2}
}

// Close stops following all threads.
func (m *Moves) Close() {
	for tid := range m.rings {
		m.Forget(tid)
	}
}

// Follows reports whether a thread is followed.
func (m *Moves) Follows(tid int32) bool { return m.rings[tid] != nil }

// Len returns the number of followed threads.
func (m *Moves) Len() int { return len(m.rings) }

// Follow begins to follow a thread. The error is ErrGone if the thread has ended, and otherwise Err.
func (m *Moves) Follow(tid int32) error {
	if m.rings[tid] != nil {
		return nil
	}
	if len(m.rings) >= m.room {
		return fmt.Errorf("%w: process %d has more than %d threads, and each takes a descriptor of ddtop's: raise ulimit -n", Err, m.pid, m.room)
	}
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME, Clockid: unix.CLOCK_MONOTONIC, Wakeup: moveWatermark,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitContextSwitch | unix.PerfBitTask | unix.PerfBitSampleIDAll |
			unix.PerfBitUseClockID | unix.PerfBitWatermark,
	}
	fd, err := unix.PerfEventOpen(&attr, int(tid), -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return m.refusal(tid, err)
	}
	mem, err := mapMoves(fd, pagesFor(len(m.rings)))
	if err != nil {
		unix.Close(fd)
		if err == unix.EPERM || err == unix.ENOMEM || err == unix.EAGAIN {
			return fmt.Errorf("%w: the kernel gives no more memory than for the events of %d threads (kernel.perf_event_mlock_kb, ulimit -l): %w",
				Err, len(m.rings), err)
		}
		return fmt.Errorf("%w: mapping the events of thread %d: %w", Err, tid, err)
	}
	m.rings[tid] = &moveRing{fd, mem}
	return nil
}

// mapMoves maps a buffer with the given number of pages. If the kernel allows less memory, the buffer has
// leastMovePages.
func mapMoves(fd, pages int) (mem []byte, err error) {
	for {
		mem, err = unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != unix.EPERM || pages == leastMovePages {
			return mem, err
		}
		pages = leastMovePages
	}
}

// grow replaces the buffer of a thread by one of the largest size, because the old one had no room for all events.
func (m *Moves) grow(tid int32, r *moveRing) {
	if len(r.mem) > mostMovePages*os.Getpagesize() {
		return
	}
	_ = unix.Munmap(r.mem) // fails only for unmapped memory
	mem, err := mapMoves(r.fd, mostMovePages)
	if err != nil {
		unix.Close(r.fd) // the caller can follow the thread again
		delete(m.rings, tid)
		return
	}
	r.mem = mem
}

// pagesFor returns the size, in pages, of the next thread's buffer if n threads already have one. It is a power of two.
// All buffers together take about 2 MB, both for 32 threads and for 128.
func pagesFor(n int) int {
	switch {
	case n < 32:
		return mostMovePages
	case n < 128:
		return 4
	}
	return leastMovePages
}

// refusal returns the error for Follow if the kernel does not report the events of a thread. The error has the reason.
func (m *Moves) refusal(tid int32, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return &kernel.Error{Op: "perf_event_open", Path: fmt.Sprintf("thread %d", tid), Err: err}
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		if level, e := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); e == nil {
			if text := strings.TrimSpace(string(level)); len(text) == 1 && text[0] > '2' {
				return fmt.Errorf("%w is forbidden by kernel.perf_event_paranoid=%s: %w", Err, text, err)
			}
		}
		if seccomped() {
			return fmt.Errorf("%w is forbidden by seccomp: %w", Err, err)
		}
		return fmt.Errorf("%w is forbidden for process %d: %w", Err, m.pid, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		if seccomped() {
			return fmt.Errorf("%w is forbidden by seccomp: %w", Err, err)
		}
		return fmt.Errorf("%w is missing in this kernel: %w", Err, err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: no descriptors are left for the events of %d threads, so raise ulimit -n: %w",
			Err, len(m.rings)+1, err)
	case kernel.Exhausted(err):
		return fmt.Errorf("%w: no descriptors are left for the events of %d threads: %w", Err, len(m.rings)+1, err)
	}
	return fmt.Errorf("%w: following thread %d: %w", Err, tid, err)
}

// seccomped reports whether a seccomp filter may refuse ddtop's system calls (Seccomp of /proc/self/status is 2).
func seccomped() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	return bytes.Contains(b, []byte("\nSeccomp:\t2\n"))
}

// Forget stops following a thread.
func (m *Moves) Forget(tid int32) {
	r := m.rings[tid]
	if r == nil {
		return
	}
	delete(m.rings, tid)
	_ = unix.Munmap(r.mem) // fails only for unmapped memory
	unix.Close(r.fd)
}

// Read calls take with each event since the last Read, in order for each thread. It stops following threads that have
// ended. lost counts the events since the start that did not fit into a buffer.
func (m *Moves) Read(take func(tid int32, e *Move)) (lost uint64) {
	for tid, r := range m.rings {
		ended := false
		lost := r.read(func(e *Move) {
			ended = ended || e.Kind == Ended
			take(tid, e)
		})
		m.lost += lost
		switch {
		case ended:
			m.Forget(tid)
		case lost > 0:
			m.grow(tid, r)
		}
	}
	return m.lost
}

func (r *moveRing) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&r.mem[at])) }

// read calls take for the events that the kernel has put into the ring buffer since the last time.
func (r *moveRing) read(take func(e *Move)) (lost uint64) {
	data := r.mem[os.Getpagesize():]
	head, tail := atomic.LoadUint64(r.word(ringHead)), atomic.LoadUint64(r.word(ringTail))
	if head == tail {
		return 0
	}
	size := uint64(len(data))
	var b [64]byte
	if head-tail > size-uint64(len(b)) {
		// lost is at least 1. The kernel reports the exact number with its next event, which may come much later
		lost = 1
	}
	for tail < head {
		// All records have a multiple of 8 bytes. So a header of 8 bytes never wraps around the end of the ring.
		at := tail % size
		n := uint64(binary.NativeEndian.Uint16(data[at+6:]))
		if n < recordHeader || n > head-tail {
			break // not a record of the kernel
		}
		part := b[:min(n, uint64(len(b)))]
		k := copy(part, data[at:])
		copy(part[k:], data)
		lost += takeMove(part, take)
		tail += n
	}
	atomic.StoreUint64(r.word(ringTail), head)
	return lost
}

// takeMove passes the event of one record to the function take. If the record reports lost events, takeMove returns
// their number.
func takeMove(b []byte, take func(e *Move)) (lost uint64) {
	kind, misc := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	word := func(at int) uint64 {
		if at+8 > len(b) {
			return 0
		}
		return binary.NativeEndian.Uint64(b[at:])
	}
	switch kind {
	case recordSwitch:
		e := Move{NS: int64(word(recordHeader))}
		switch {
		case misc&miscPreempted != 0:
			e.Kind = Preempted
		case misc&miscOut != 0:
			e.Kind = Out
		}
		take(&e)
	case recordFork, recordExit:
		// The record has these fields: pid and ppid, tid and ptid, and the time.
		e := Move{NS: int64(word(24)), Kind: Ended}
		if kind == recordFork {
			if p := word(8); uint32(p) != uint32(p>>32) {
				return 0 // a new process, not a thread
			}
			e.Kind, e.Child = Started, int32(uint32(word(16)))
		}
		take(&e)
	case recordLost:
		return max(word(16), 1)
	}
	return 0
}
