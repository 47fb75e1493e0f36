package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// maxNameTries is how many stack ticks a thread's name is tried to be read before it is left empty until it changes.
const maxNameTries = 50

// identify keeps a thread's native thread id and name up to date and tells the dictionary.
func (r *Reader) identify(t *thread) {
	changed := t.info.ID == 0
	if tid := r.hostTID(t); tid != t.tid {
		t.tid = tid
		if tid != 0 {
			t.info.TID = tid
		}
		changed = true
	}
	if nameVal := le64(t.buf[r.o.thName:]); nameVal != t.nameVal {
		if nameVal == r.o.objects.Nil || nameVal == 0 {
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

// stillNamed reports whether a thread lives and has that name, read anew: nothing keeps the name of one that has ended, and the String can be
// another by now.
func (r *Reader) stillNamed(t *thread, name uint64) bool {
	again := make([]byte, len(t.buf))
	return r.mem.Read(t.addr, again) == nil && le64(again[r.o.thSelf:]) == le64(t.buf[r.o.thSelf:]) && le64(again[r.o.thName:]) == name &&
		sampler.Status(r.o.thStatus.In(again)) != sampler.Killed
}

// hostTID finds the thread's native thread (docs/internals/threads.md#native-threads): in rb_native_thread from 3.2 on, in
// rb_thread_t in 3.1, in libc's struct pthread before. The number is the target's own; translated to ours, and refused if no
// such task exists: after a fork 3.1 and 3.2 keep the parent's tid.
func (r *Reader) hostTID(t *thread) int32 {
	var stored int32
	switch {
	case r.o.thNT >= 0:
		nt := le64(t.buf[r.o.thNT:])
		if nt == 0 {
			t.nt = 0
			return 0
		}
		if nt == t.nt && t.tid != 0 {
			return t.tid
		}
		var b [4]byte
		if r.mem.Read(attach.Address(nt)+attach.Address(r.o.ntTID), b[:]) != nil {
			return 0
		}
		t.nt = nt
		stored = int32(le32(b[:]))
	case r.o.thTID >= 0:
		stored = int32(le32(t.buf[r.o.thTID:]))
		if uint64(stored) == t.nt && t.tid != 0 {
			return t.tid
		}
		t.nt = uint64(stored)
	default:
		if t.main {
			return int32(r.pid)
		}
		pthread := le64(t.buf[r.o.thPthread:])
		if pthread == 0 {
			return 0
		}
		if pthread == t.nt && t.tid != 0 {
			return t.tid
		}
		if r.pthreadTID < 0 && !r.findPthreadTID(attach.Address(pthread)) {
			return 0
		}
		var b [4]byte
		if r.mem.Read(attach.Address(pthread)+attach.Address(r.pthreadTID), b[:]) != nil {
			return 0
		}
		t.nt = pthread
		stored = int32(le32(b[:]))
	}
	if stored <= 0 {
		return 0
	}
	if host, ok := r.tids(stored); ok {
		if !t.main || host == int32(r.pid) {
			return host
		}
	}
	if t.main {
		// The surviving thread of a forked process leads it, whatever the memory says.
		return int32(r.pid)
	}
	return 0
}

// pthreadSearch is how much of libc's struct pthread is searched for the tid.
const pthreadSearch = 2048

// findPthreadTID finds where libc keeps the tid in struct pthread (0x2d0 with glibc on x86_64, 0x30 with musl): where the
// main thread's has the process id and other, another thread's, has the id of another thread. The first alone would not do
// for the first process of a container: glibc has a 1 (multiple_threads) in every thread's before.
func (r *Reader) findPthreadTID(other attach.Address) bool {
	for _, t := range r.order {
		if !t.main || len(t.buf) == 0 {
			continue
		}
		main := r.readPthread(attach.Address(le64(t.buf[r.o.thPthread:])))
		theirs := r.readPthread(other)
		for off := 0; off+4 <= min(len(main), len(theirs)); off += 4 {
			if int32(le32(main[off:])) != r.innerPID {
				continue
			}
			tid := int32(le32(theirs[off:]))
			if tid <= 0 || tid == r.innerPID {
				continue
			}
			if _, ok := r.tids(tid); ok {
				r.pthreadTID = off
				return true
			}
		}
	}
	return false
}

// readPthread reads what is searched of a struct pthread, less where memory ends before: musl has the main thread's at the
// end of its variables.
func (r *Reader) readPthread(at attach.Address) []byte {
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
