package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
)

const (
	// ipEveryNS is the interval at which the kernel records the instruction pointer of a running thread, in ns of its
	// CPU time. maxRunning is the largest number of threads for which the kernel does so.
	ipEveryNS, maxRunning = 1_000_000, 8
	// ipHead is the offset of data_head in struct perf_event_mmap_page, the first page of a perf event's memory.
	// data_head is the number of bytes that the kernel has written after this page.
	ipHead = 1024
)

// whereRunning finds out which user code native threads run. The parameter during is how long the kernel records the
// threads' instruction pointers. Then whereRunning calls seen with each of them. It needs the same rights as probes.
// Without these rights it never calls seen. It changes nothing in the process.
func whereRunning(tids []int32, during time.Duration, seen func(attach.Address)) {
	var events []*ipEvent
	for _, tid := range tids[:min(len(tids), maxRunning)] {
		if e, err := openIPEvent(tid); err == nil { // otherwise the thread has ended, or ddtop lacks the right
			events = append(events, e)
		}
	}
	time.Sleep(during)
	for _, e := range events {
		e.each(seen)
		e.close()
	}
}

// ipEvent is a perf event that records where a thread runs (perf_event_open(2)).
type ipEvent struct {
	fd     int
	memory []byte
}

func openIPEvent(tid int32) (*ipEvent, error) {
	fail := func(err error) (*ipEvent, error) { return nil, fmt.Errorf("a perf event of thread %d: %w", tid, err) }
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: ipEveryNS, Sample_type: unix.PERF_SAMPLE_IP, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	fd, err := unix.PerfEventOpen(&attr, int(tid), -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fail(err)
	}
	memory, err := unix.Mmap(fd, 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fail(errors.Join(err, unix.Close(fd)))
	}
	return &ipEvent{fd, memory}, nil
}

// each calls seen with the recorded instruction pointers, up to one page of records.
func (e *ipEvent) each(seen func(attach.Address)) {
	page := os.Getpagesize()
	written := atomic.LoadUint64((*uint64)(unsafe.Pointer(&e.memory[ipHead])))
	b := e.memory[page:][:min(written, uint64(page))]
	const record = 16 // the size in bytes: a header, and the instruction pointer
	for len(b) >= record {
		kind, size := binary.NativeEndian.Uint32(b), int(binary.NativeEndian.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			return
		}
		if kind == unix.PERF_RECORD_SAMPLE && size >= record {
			seen(attach.Address(binary.NativeEndian.Uint64(b[8:])))
		}
		b = b[size:]
	}
}

func (e *ipEvent) close() {
	_ = unix.Munmap(e.memory)
	_ = unix.Close(e.fd)
}
