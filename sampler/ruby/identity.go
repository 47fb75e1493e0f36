package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/pthread"
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
	// libc finds the tids that only libc has.
	libc *pthread.Reader
}

func newThreadNamer(tg *target, list *threadList, tids func(int32) (int32, bool)) *threadNamer {
	if tids == nil {
		tids = func(v int32) (int32, bool) { return v, true }
	}
	memory := func(at attach.Address, b []byte) error { return tg.mem.Read(at, b) }
	libc := pthread.New(memory, tids, func() int64 { return tg.now() })
	return &threadNamer{target: tg, list: list, tids: tids, libc: libc}
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
		at := le64(t.buf[r.o.ThPthread:])
		if at == t.nt && t.tid != 0 {
			return t.tid
		}
		t.nt = at
		return r.tidOfPthread(attach.Address(at))
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

// tidOfPthread returns the tid in the struct pthread at an address, in ddtop's PID namespace. It returns zero if it
// finds no tid there.
func (r *threadNamer) tidOfPthread(at attach.Address) int32 {
	return r.libc.TID(at, func(yield func(attach.Address) bool) {
		for _, t := range r.list.order {
			if other := r.pthreadOf(t); other != 0 && !yield(other) {
				return
			}
		}
	})
}
