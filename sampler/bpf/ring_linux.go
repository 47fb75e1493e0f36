package bpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Ring reads a ring buffer of the kernel (BPF_MAP_TYPE_RINGBUF) without copying it. It replaces the library's reader,
// which loops without a pause while an entry is reserved but not finished. If the target's thread loses its CPU while
// it writes the entry, such a loop can last long.
type Ring struct {
	consumer, producer []byte
	data               []byte // the ring's data, mapped twice, one copy after the other; a part of the field producer
	size               uint64
	// held is the largest number of bytes that the ring may have contained between the last two calls of Read.
	held uint64
}

// The layout of an entry: its length and two flags, then 4 bytes for the kernel's own use (linux/bpf.h, BPF_RINGBUF_…),
// then the data.
const (
	entryHead      = 8
	entryBusy      = 1 << 31
	entryDiscarded = 1 << 30
)

// NewRing maps a ring buffer of the kernel into ddtop's memory.
func NewRing(m *ebpf.Map) (*Ring, error) {
	page, size := os.Getpagesize(), int(m.MaxEntries())
	consumer, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping a ring: %w", err)
	}
	producer, err := unix.Mmap(m.FD(), int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(consumer)
		return nil, fmt.Errorf("mapping a ring: %w", err)
	}
	return &Ring{consumer: consumer, producer: producer, data: producer[page:], size: uint64(size)}, nil
}

// Read calls emit for each entry that was submitted since the last call. It stops at the first unfinished entry. The
// bytes are valid only during the call of emit.
func (r *Ring) Read(emit func([]byte) error) error {
	at, end := (*uint64)(unsafe.Pointer(&r.consumer[0])), (*uint64)(unsafe.Pointer(&r.producer[0]))
	from := atomic.LoadUint64(at)
	defer func(began uint64) { r.held = atomic.LoadUint64(end) - began }(from)
	for to := atomic.LoadUint64(end); from < to; {
		place := from % r.size
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[place])))
		n := uint64(head &^ (entryBusy | entryDiscarded))
		if head&entryBusy != 0 {
			break
		}
		if n > r.size-entryHead {
			return fmt.Errorf("an entry of %d bytes in a ring of %d", n, r.size)
		}
		if head&entryDiscarded == 0 {
			if err := emit(r.data[place+entryHead:][:n]); err != nil {
				return err
			}
		}
		from += (entryHead + n + 7) &^ 7
		atomic.StoreUint64(at, from)
	}
	return nil
}

// Crowded reports whether more than an eighth of the ring is in use.
func (r *Ring) Crowded() bool {
	at, end := (*uint64)(unsafe.Pointer(&r.consumer[0])), (*uint64)(unsafe.Pointer(&r.producer[0]))
	return atomic.LoadUint64(end)-atomic.LoadUint64(at) > r.size/8
}

// Empty reports whether the ring has no entry, not even an unfinished one.
func (r *Ring) Empty() bool {
	at, end := (*uint64)(unsafe.Pointer(&r.consumer[0])), (*uint64)(unsafe.Pointer(&r.producer[0]))
	return atomic.LoadUint64(end) == atomic.LoadUint64(at)
}

// Full reports whether, between the last two calls of Read, the ring may have been too full for an entry of n bytes.
// The kernel keeps at least one byte of the ring free.
func (r *Ring) Full(n int) bool { return r.held+entryHead+(uint64(n)+7)&^7 >= r.size }

// Close unmaps the ring.
func (r *Ring) Close() error {
	err := unix.Munmap(r.producer)
	if e := unix.Munmap(r.consumer); err == nil {
		err = e
	}
	return err
}
