package tracer

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/bpf"
)

// bellSize is the size of the eBPF map that a bell uses, in bytes. The map has one word.
const bellSize = 8

// bell calls a function when an eBPF program makes the next record. While a process is idle, ddtop sets the bell and
// need not check the ring of records again and again. So it can still read the first record after a pause at once.
type bell struct {
	// memory is the map's only word. It has the flags that the programs pass to the kernel when they add a record to
	// the ring.
	memory []byte
	// file is a descriptor with which Go's runtime waits for records in the ring. It is nil until open is called.
	file *os.File

	mu   sync.Mutex // guards rung
	rung func()
}

// open maps the word of flags into memory, and begins to wait for records in the ring.
func (b *bell) open(flags *ebpf.Map, ring int) (err error) {
	if b.memory, err = unix.Mmap(flags.FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mapping the flags of a ring: %w", err)
	}
	b.store(bpf.NoWakeup)
	fd, err := unix.FcntlInt(uintptr(ring), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("polling a ring: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("polling a ring: %w", err)
	}
	file := os.NewFile(uintptr(fd), "ring")
	conn, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("polling a ring: %w", err)
	}
	b.file = file
	go func() {
		_ = conn.Read(func(uintptr) bool { b.ring(); return false }) // waits for records until the file is closed
	}()
	return nil
}

func (b *bell) store(flags uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b.memory[0])), flags)
}

// set makes the next record call the function rung. There is one exception: a program that has read the flags just
// before set can still add a record without a report. This record stays unread. After an unread record, the kernel
// reports no further record by itself. So set stores the flag ForceWakeup, which makes the programs ask for the report.
func (b *bell) set(rung func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = rung
	b.store(bpf.ForceWakeup)
}

// ring calls the function that was passed to set, if it has not been called yet.
func (b *bell) ring() {
	b.mu.Lock()
	rung := b.rung
	b.rung = nil
	if b.memory != nil {
		b.store(bpf.NoWakeup)
	}
	b.mu.Unlock()
	if rung != nil {
		rung()
	}
}

func (b *bell) close() (err error) {
	if b.file != nil {
		err = b.file.Close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.memory != nil {
		if e := unix.Munmap(b.memory); err == nil {
			err = e
		}
		b.memory = nil
	}
	return err
}
