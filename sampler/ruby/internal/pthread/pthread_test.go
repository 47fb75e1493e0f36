package pthread

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// pthreads is an invented memory with two structs of type pthread. The main thread's struct is cut by the end of the
// mapped memory.
type pthreads map[attach.Address][]byte

func (m pthreads) Read(at attach.Address, buf []byte) error {
	for start, content := range m {
		if off := at - start; at >= start && uint64(off)+uint64(len(buf)) <= uint64(len(content)) {
			copy(buf, content[off:])
			return nil
		}
	}
	return errors.New("not mapped")
}

// TestThreadIDInPthread: ddtop must find where two C libraries store a thread's id. The process has the id 1, as in a
// container. In glibc, each thread's header has another 1 before the id (multiple_threads, sysdeps/x86_64/nptl/tls.h).
func TestThreadIDInPthread(t *testing.T) {
	const mainAt, otherAt = 0x7f0000000f00, 0x7f1000000000
	for name, test := range map[string]struct {
		words map[int]uint32 // in both structs
		tid   int
		size  int // size of the main thread's struct, up to the end of a page
	}{
		"glibc":                      {words: map[int]uint32{0x18: 1, 0x1c: 1}, tid: 0x2d0, size: 2048},
		"musl":                       {tid: 0x30, size: 2048},
		"musl, at the end of memory": {tid: 0x30, size: 0x100},
		"a number of no thread":      {words: map[int]uint32{0x20: 77}, tid: 0x30, size: 2048},
	} {
		t.Run(name, func(t *testing.T) {
			main, other := make([]byte, test.size), make([]byte, search)
			for at, word := range test.words {
				binary.LittleEndian.PutUint32(main[at:], 1)
				binary.LittleEndian.PutUint32(other[at:], word)
			}
			binary.LittleEndian.PutUint32(main[test.tid:], 1)
			binary.LittleEndian.PutUint32(other[test.tid:], 12)
			r := New(pthreads{mainAt: main, otherAt: other}.Read, func(tid int32) (int32, bool) { return 4710 + tid, tid == 1 || tid == 12 },
				func() int64 { return 0 })
			all := slices.Values([]attach.Address{mainAt, otherAt})
			if got := r.TID(otherAt, all); got != 4722 || r.place != test.tid {
				t.Errorf("thread %d by the id at %#x, want 4722 by %#x", got, r.place, test.tid)
			}
			if got := r.TID(mainAt, all); got != 4711 {
				t.Errorf("the main thread is %d, want the process's own 4711", got)
			}
		})
	}
}
