// Package pthread finds the ids of native threads in libc's struct pthread. Ruby before 3.1 does not store them itself.
package pthread

import (
	"iter"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// search is how many bytes of libc's struct pthread ddtop searches for the tid.
	search = 2048
	// maxPthreads limits how many threads' structs a search for the offset compares.
	maxPthreads = 8
	// restNS is the shortest interval between two searches for the offset, in ns, while none has found it. A
	// search asks the kernel about each word that may be a tid.
	restNS = 100e6
	// maxTID is the highest number that a task can have (PID_MAX_LIMIT, include/linux/threads.h).
	maxTID = 1 << 22
)

// places are the offsets of the tid in struct pthread, for known C libraries: glibc on x86_64 and aarch64, then musl
// on x86_64, on aarch64, and before 1.1.20.
var places = []int{0x2d0, 0xd0, 0x30, 0x20, 0x38}

// Reader reads tids from structs of one process. It is not safe for concurrent use.
type Reader struct {
	// memory reads the process's memory.
	memory func(at attach.Address, b []byte) error
	tids   func(int32) (int32, bool)
	now    func() int64
	// place is the offset of the tid in the struct, in bytes. It is -1 while the offset is not known. triedNS is when
	// ddtop last searched for the offset.
	place   int
	triedNS int64
}

// New returns a Reader of a process, whose memory the function memory reads. The function tids translates a tid of the
// process into ddtop's PID namespace. It returns false if there is no such task. The function now returns the time in
// ns.
func New(memory func(attach.Address, []byte) error, tids func(int32) (int32, bool),
	now func() int64) *Reader {
	return &Reader{memory: memory, tids: tids, now: now, place: -1}
}

// TID returns the tid that libc stores in the struct pthread at an address, translated to ddtop's PID namespace. It
// returns zero if it finds no tid, or if no task has the tid because the thread has ended. The parameter others yields
// the addresses of the structs of all threads. While the offset of the tid is not known, TID compares the struct with
// these structs.
func (r *Reader) TID(at attach.Address, others iter.Seq[attach.Address]) int32 {
	if at == 0 {
		return 0
	}
	if r.place < 0 {
		return r.find(at, others)
	}
	var b [4]byte
	if r.memory(at+attach.Address(r.place), b[:]) != nil {
		return 0
	}
	host, _ := r.taskOf(b[:])
	return host
}

// taskOf reads a tid from word and translates it into ddtop's PID namespace. ok is false if no such task exists.
func (r *Reader) taskOf(word []byte) (host int32, ok bool) {
	stored := view.U32(word)
	if stored == 0 || stored > maxTID {
		return 0, false
	}
	if host, ok = r.tids(int32(stored)); !ok {
		return 0, false
	}
	return host, true
}

// find finds the offset of the tid in struct pthread. At this offset, each thread must have the id of a task,
// and no two threads may have the same id. Several offsets can meet these conditions. For example, glibc has a 1
// (multiple_threads) in every struct, and a container has a task with the id 1. In that case find accepts
// only the known offsets of C libraries. It returns the tid in the struct at the address wanted. It returns zero if the
// tid is not certain.
func (r *Reader) find(wanted attach.Address, others iter.Seq[attach.Address]) int32 {
	blocks := [][]byte{r.read(wanted)}
	size := len(blocks[0])
	now := r.now() // for a core file, this clock does not advance
	if since := now - r.triedNS; size == 0 || r.triedNS != 0 && since > 0 && since < restNS {
		return 0
	}
	r.triedNS = now
	for at := range others {
		if len(blocks) == maxPthreads {
			break
		}
		if at != wanted {
			if b := r.read(at); b != nil {
				blocks, size = append(blocks, b), min(size, len(b))
			}
		}
	}
	found := make(map[int]int32) // for each possible offset, the tid at this offset in the struct at wanted
	for off := 0; off+4 <= size; off += 4 {
		seen := make(map[int32]bool, len(blocks))
		for _, b := range blocks {
			if host, ok := r.taskOf(b[off:]); ok {
				seen[host] = true
			}
		}
		if len(seen) == len(blocks) {
			found[off], _ = r.taskOf(blocks[0][off:])
		}
	}
	known := slices.IndexFunc(places, func(off int) bool { _, ok := found[off]; return ok })
	if known >= 0 {
		if len(blocks) > 1 || len(found) == 1 {
			r.place = places[known]
		}
		return found[places[known]]
	}
	var only int32
	for off, host := range found {
		if only != 0 && only != host {
			return 0
		}
		if only = host; len(found) == 1 {
			r.place = off
		}
	}
	return only
}

// read reads the part of a struct pthread in which ddtop searches for the tid. It reads less if the mapped memory ends
// earlier. With musl, the main thread's struct is at the end of the mapped variables.
func (r *Reader) read(at attach.Address) []byte {
	const page = 4096
	buf := make([]byte, search)
	if at == 0 {
		return nil
	}
	if r.memory(at, buf) == nil {
		return buf
	}
	buf = buf[:min(len(buf), int(page-uint64(at)%page))]
	if r.memory(at, buf) != nil {
		return nil
	}
	return buf
}
