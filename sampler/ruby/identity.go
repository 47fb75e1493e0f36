package ruby

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// maxNameTries limits how many ticks that read stacks try to read a thread's name. If all of them fail, ddtop tries
// again only after Ruby has changed the name.
const maxNameTries = 50

// threadNamer finds the name of each Ruby thread, and the native thread on which the Ruby thread runs.
type threadNamer struct {
	*target
	list *threadList
	// tids is Options.TIDs, which translates a tid of the target into ddtop's PID namespace.
	tids func(int32) (int32, bool)
	// pthreadTID is the offset of the tid in libc's struct pthread, in bytes. It is -1 while the offset is not known.
	// pthreadTriedNS is when ddtop last searched for the offset.
	pthreadTID     int
	pthreadTriedNS int64
}

func newThreadNamer(tg *target, list *threadList, tids func(int32) (int32, bool)) *threadNamer {
	if tids == nil {
		tids = func(v int32) (int32, bool) { return v, true }
	}
	return &threadNamer{target: tg, list: list, tids: tids, pthreadTID: -1}
}

// identify updates what the Dictionary has about a thread: its native thread id and its name.
func (r *threadNamer) identify(t *thread) {
	changed := t.info.ID == 0
	if tid := r.hostTID(t); tid != t.tid {
		t.tid = tid
		if tid != 0 {
			t.info.TID = tid
		}
		changed = true
	}
	if nameVal := le64(t.buf[r.o.ThName:]); nameVal != t.nameVal {
		if nameVal == r.o.Objects.Nil || nameVal == 0 {
			t.info.Name, t.info.HasName = "", false
			t.nameVal, changed = nameVal, true
		} else if name, ok := r.dec.Objects.String(nameVal); ok && r.stillNamed(t, nameVal) {
			t.info.Name, t.info.HasName = name, true
			t.nameVal, t.nameTries, changed = nameVal, 0, true
		} else if t.nameTries++; t.nameTries > maxNameTries {
			t.nameVal, t.nameTries = nameVal, 0
		}
	}
	if t.info.Main != t.main || t.info.Ractor != t.ractor.id {
		changed = true
	}
	if !changed {
		return
	}
	if t.info.ID == 0 {
		t.info.ID, t.info.FirstSeenNS = t.id, r.now()
	}
	t.info.Main, t.info.Ractor = t.main, t.ractor.id
	r.dict.SetThread(t.info)
}

// stillNamed reads a thread again and reports whether it still lives and has the same name. This check is needed
// because Ruby frees the name of a thread that has ended, and another String may take its place.
func (r *threadNamer) stillNamed(t *thread, name uint64) bool {
	again := make([]byte, len(t.buf))
	return r.mem.Read(t.addr, again) == nil && le64(again[r.o.ThSelf:]) == le64(t.buf[r.o.ThSelf:]) && le64(again[r.o.ThName:]) == name &&
		sampler.Status(r.o.ThStatus.In(again)) != sampler.Killed
}

// hostTID returns the tid of a Ruby thread's native thread, in ddtop's PID namespace
// (docs/internals/threads.md#native-threads). From 3.2 on, Ruby stores the tid in rb_native_thread, and in 3.1 in
// rb_thread_t. In older releases only libc has it, in struct pthread. After a fork, 3.1 and 3.2 keep the parent's tid,
// which is no task of the process. In that case hostTID uses libc's tid. It does not use the PID as the main thread's
// tid, because a program can start Ruby in any of its threads.
func (r *threadNamer) hostTID(t *thread) int32 {
	var stored int32
	switch {
	case r.o.ThNT >= 0:
		nt := le64(t.buf[r.o.ThNT:])
		if nt == 0 {
			t.nt = 0
			return 0
		}
		if nt == t.nt && t.tid != 0 {
			return t.tid
		}
		var b [4]byte
		if r.mem.Read(attach.Address(nt)+attach.Address(r.o.NTTID), b[:]) != nil {
			return 0
		}
		t.nt = nt
		stored = int32(le32(b[:]))
	case r.o.ThTID >= 0:
		stored = int32(le32(t.buf[r.o.ThTID:]))
		if uint64(stored) == t.nt && t.tid != 0 {
			return t.tid
		}
		t.nt = uint64(stored)
	default:
		pthread := le64(t.buf[r.o.ThPthread:])
		if pthread == t.nt && t.tid != 0 {
			return t.tid
		}
		t.nt = pthread
		return r.tidOfPthread(attach.Address(pthread))
	}
	if stored <= 0 {
		return 0
	}
	if host, ok := r.tids(stored); ok {
		return host
	}
	return r.tidOfPthread(r.pthreadOf(t))
}

// pthreadOf returns a thread's pthread_t, the address of libc's struct pthread. It returns zero if this address is not
// known.
func (r *threadNamer) pthreadOf(t *thread) attach.Address {
	if len(t.buf) == 0 {
		return 0
	}
	native := r.native(t)
	if native.At != 0 {
		return r.addressAt(native.At)
	}
	return native.Pointer
}

const (
	// pthreadSearch is how many bytes of libc's struct pthread ddtop searches for the tid.
	pthreadSearch = 2048
	// maxPthreads limits how many threads' structs a search for the offset compares.
	maxPthreads = 8
	// pthreadRestNS is the shortest interval between two searches for the offset, in ns, while none has found it. A
	// search asks the kernel about each word that may be a tid.
	pthreadRestNS = 100e6
	// maxTID is the highest number that a task can have (PID_MAX_LIMIT, include/linux/threads.h).
	maxTID = 1 << 22
)

// tidPlaces are the offsets of the tid in struct pthread, for known C libraries: glibc on x86_64 and aarch64, then musl
// on x86_64, on aarch64, and before 1.1.20.
var tidPlaces = []int{0x2d0, 0xd0, 0x30, 0x20, 0x38}

// tidOfPthread returns the tid that libc stores in a struct pthread, translated to ddtop's PID namespace. It returns
// zero if it finds no tid, or if no task has the tid because the thread has ended.
func (r *threadNamer) tidOfPthread(pthread attach.Address) int32 {
	if pthread == 0 {
		return 0
	}
	if r.pthreadTID < 0 {
		return r.findPthreadTID(pthread)
	}
	var b [4]byte
	if r.mem.Read(pthread+attach.Address(r.pthreadTID), b[:]) != nil {
		return 0
	}
	host, _ := r.taskOf(b[:])
	return host
}

// taskOf reads a tid from word and translates it into ddtop's PID namespace. ok is false if no such task exists.
func (r *threadNamer) taskOf(word []byte) (host int32, ok bool) {
	stored := le32(word)
	if stored == 0 || stored > maxTID {
		return 0, false
	}
	if host, ok = r.tids(int32(stored)); !ok {
		return 0, false
	}
	return host, true
}

// findPthreadTID finds the offset of the tid in struct pthread. At this offset, each thread must have the id of a task,
// and no two threads may have the same id. Several offsets can meet these conditions. For example, glibc has a 1
// (multiple_threads) in every struct, and a container has a task with the id 1. In that case findPthreadTID accepts
// only the known offsets of C libraries. It returns the tid in the struct at the address wanted. It returns zero if the
// tid is not certain.
func (r *threadNamer) findPthreadTID(wanted attach.Address) int32 {
	blocks := [][]byte{r.readPthread(wanted)}
	size := len(blocks[0])
	now := r.now() // for a core file, this clock does not advance
	if since := now - r.pthreadTriedNS; size == 0 || r.pthreadTriedNS != 0 && since > 0 && since < pthreadRestNS {
		return 0
	}
	r.pthreadTriedNS = now
	for _, t := range r.list.order {
		if len(blocks) == maxPthreads {
			break
		}
		if at := r.pthreadOf(t); at != 0 && at != wanted {
			if b := r.readPthread(at); b != nil {
				blocks, size = append(blocks, b), min(size, len(b))
			}
		}
	}
	places := make(map[int]int32) // for each possible offset, the tid at this offset in the struct at wanted
	for off := 0; off+4 <= size; off += 4 {
		seen := make(map[int32]bool, len(blocks))
		for _, b := range blocks {
			if host, ok := r.taskOf(b[off:]); ok {
				seen[host] = true
			}
		}
		if len(seen) == len(blocks) {
			places[off], _ = r.taskOf(blocks[0][off:])
		}
	}
	known := slices.IndexFunc(tidPlaces, func(off int) bool { _, ok := places[off]; return ok })
	if known >= 0 {
		if len(blocks) > 1 || len(places) == 1 {
			r.pthreadTID = tidPlaces[known]
		}
		return places[tidPlaces[known]]
	}
	var only int32
	for off, host := range places {
		if only != 0 && only != host {
			return 0
		}
		if only = host; len(places) == 1 {
			r.pthreadTID = off
		}
	}
	return only
}

// readPthread reads the part of a struct pthread in which ddtop searches the tid. It reads less if the mapped memory
// ends earlier. With musl, the main thread's struct is at the end of the mapped variables.
func (r *threadNamer) readPthread(at attach.Address) []byte {
	const page = 4096
	buf := make([]byte, pthreadSearch)
	if at == 0 {
		return nil
	}
	if r.mem.Read(at, buf) == nil {
		return buf
	}
	buf = buf[:min(len(buf), int(page-uint64(at)%page))]
	if r.mem.Read(at, buf) != nil {
		return nil
	}
	return buf
}
