package ruby

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// These are limits for reading the target's lists. A list that changes or is corrupt must not occupy ddtop forever.
const (
	// maxThreads limits how many threads are followed in one process, in all its ractors together. If a list is longer,
	// this is counted as a failed read.
	maxThreads = 20000
	// maxRactors limits how many ractors are followed in one process: the main ractor and the oldest others. If the
	// list is longer, this is counted as a failed read.
	maxRactors = 4096
	// maxGap limits, in bytes, the gap between two structs that are read together as one range. maxSegment limits the
	// size of such a range, in bytes. To read a gap is cheaper than a further range: a range costs about 0.35 µs, as
	// much as to copy 2 KiB that no cache holds.
	maxSegment = 64 << 10
	maxGap     = 2 << 10
	// fewPieces says how a tick brings the structs that it reads into the order of their addresses. If it reads less
	// than 1/fewPieces of the threads, it sorts the structs of these threads. Otherwise it goes through the structs of
	// all threads, which are always sorted, and picks out the ones to read.
	fewPieces = 8
)

// ErrListTorn means that the list of threads or ractors changed each time it was read. The tick has failed, but the
// next one may succeed.
var ErrListTorn = errors.New("the list of threads changed while it was read")

var errNotMapped = errors.New("not mapped")

// walkNumber numbers the walks over the lists of threads. tickNumber numbers the readings of memory, and readNumber
// numbers the calls of Read. One call of Read may need several walks and readings.
type (
	walkNumber uint64
	tickNumber uint64
	readNumber uint64
)

// threadList is the list of ractors and threads that ddtop follows, with the memory into which their structs are read.
type threadList struct {
	*target
	maxThreads, maxRactors int

	ractors []*ractor
	threads map[attach.Address]*thread
	order   []*thread
	lastID  sampler.ThreadID
	walks   walkNumber
	// vmHead has the head and the length of the list of ractors, as this tick has read them. walkedHead has them from
	// the last time that ddtop read the whole list. A difference shows that the list has changed.
	vmHead, walkedHead [20]byte
	// ractorsCut is true if the process has more than maxRactors ractors.
	ractorsCut bool

	// pieces are the structs of all threads, sorted by their addresses.
	pieces []piece
	// The field open is the first piece of the range that addPieces builds now, and openUntil is the end of this range.
	// few are the pieces that the tick reads, if it reads only few threads.
	open      *piece
	openUntil int
	few       []int

	ticks  tickNumber
	sample readNumber
	// tickNS is when the last tick's memory was read. beganNS is when the current tick began to read.
	tickNS, beganNS int64
	// turn is the number of ticks so far that read stacks. It decides which idle threads a tick reads.
	turn uint
	// read are the threads whose structs the current tick has read.
	read []*thread
	// allRead is true if every thread has been read at least once since layoutSegments arranged the buffers.
	allRead bool
}

func newThreadList(tg *target) *threadList {
	return &threadList{target: tg, threads: make(map[attach.Address]*thread), maxThreads: maxThreads, maxRactors: maxRactors}
}

// ractor is a part of the VM with one GVL: a ractor from 3.0 on, and the whole VM before.
type ractor struct {
	addr attach.Address
	id   sampler.RactorID
	// buf is the memory that a tick has read about the ractor: its set of threads and its scheduler. base is the
	// address of this memory in the target.
	base attach.Address
	buf  []byte
	// end gets the owner field of the GVL, which is read a second time at the end of the call.
	end     [8]byte
	end2    [8]byte // on 2.5: the current execution context, read again
	threads []*thread
	// cut is true if the ractor's list has more than maxThreads threads.
	cut    bool
	owners [2]*thread
	queue  queue
}

// thread is one rb_thread_t that ddtop follows: a Ruby thread.
type thread struct {
	addr   attach.Address
	id     sampler.ThreadID
	ractor *ractor
	buf    []byte // thSpan bytes of rb_thread_t, within a segment
	// ecBuf has the first words of the thread's execution context, and is part of a segment. ecAt is the address that
	// the context had when the lists were last read. ecIn is the tick in which ecBuf was read.
	ecAt  attach.Address
	ecBuf []byte
	ecIn  tickNumber
	// pieces are the indexes of buf and ecBuf in threadList.pieces. An index is -1 if the list has no such piece.
	pieces [2]int
	seq    walkNumber // number of the last walk over the lists that found the thread
	main   bool

	self    uint64
	nameVal uint64
	info    sampler.ThreadInfo
	nt      uint64
	tid     int32 // in ddtop's PID namespace
	// nameTries counts the ticks that have tried to read the name and failed.
	nameTries int

	// index is the thread's index among all threads. The field among is its index among the threads of its ractor.
	index, among int
	// place is the thread's place in the queue for the GVL. It is -1 if the thread is not known to be queued.
	place int
	// met is the last tick in which the thread was found at a new place in the queue for the GVL. wanted is the number
	// of the call of Read that must read the thread.
	met    tickNumber
	wanted readNumber
	// readIn is the last tick in which buf was read. Until hotUntil, every tick reads the thread. After that, until
	// warmUntil, it is read by every tick that reads stacks, and by one in warmTurns other ticks. Both times are in ns.
	readIn              tickNumber
	hotUntil, warmUntil int64
	// movedNS is when the thread was last seen to hold the GVL or to enter the queue, in ns.
	movedNS int64
	// stackNS is when the thread's stack was last read by a tick that reads stacks, in ns.
	stackNS int64
	// lookNS is when the stack was last read by any tick, in ns. still is true if the current tick does not read the
	// stack, because the thread has had no CPU since then.
	lookNS int64
	still  bool
	// entered is set if the current tick must read the thread because of LookAt. Otherwise it is the zero value.
	entered Entered
	// wasActive is true if the thread held or wanted the GVL in the last tick.
	wasActive bool

	stack   stackState
	blocked blockedState
	serves  servingState
	loop    loopState
}

// piece is one of the two structs of a thread that ticks read: its rb_thread_t, or the first words of its execution
// context.
type piece struct {
	addr attach.Address
	t    *thread
	ec   bool
	// buf is the buffer of a segment, which holds several structs that lie close together. off is the offset of this
	// piece in buf.
	buf       []byte
	off, size int
}

// walkVM reads the lists of ractors and threads again. It runs at the start, and whenever a tick sees that the lists
// have changed. If the lists change while walkVM reads them, whole is false. walkVM then adds new threads to the known
// list, but removes none, because threads may be missing only by mistake.
func (r *threadList) walkVM() (whole bool, err error) {
	r.walks++
	var ractors []*ractor
	var headWords [20]byte
	cut := false
	if r.o.VMRactorSet < 0 {
		rc := r.ractorAt(r.vm.Addr, 1)
		ractors = append(ractors, rc)
	} else {
		head := r.vm.Addr + attach.Address(r.o.VMRactorSet)
		if err := r.mem.Read(head, headWords[:]); err != nil {
			return false, err
		}
		prev, node := head, attach.Address(le64(headWords[:]))
		for node != head {
			if node == 0 {
				return false, nil
			}
			if err := r.walkOver(); err != nil {
				return false, err
			}
			if len(ractors) >= r.maxRactors {
				cut = true
				r.reads.Failed++
				break
			}
			addr := node - attach.Address(r.o.RactorNode)
			var link [16]byte
			var id [4]byte
			r.scratch = append(r.scratch[:0], attach.Range{Addr: node, Buf: link[:]},
				attach.Range{Addr: addr + attach.Address(r.o.RactorID), Buf: id[:]})
			if err := r.readAll(r.scratch); err != nil {
				return false, err
			}
			if attach.Address(le64(link[8:])) != prev {
				return false, nil
			}
			ractors = append(ractors, r.ractorAt(addr, sampler.RactorID(le32(id[:]))))
			prev, node = node, attach.Address(le64(link[:]))
		}
	}
	if len(ractors) == 0 {
		return false, nil
	}
	var all []*thread
	for _, rc := range ractors {
		list, whole, err := r.walkThreads(rc, r.maxThreads-len(all))
		if !whole {
			return false, err
		}
		rc.threads = list
		all = append(all, list...)
	}
	r.walkedHead, r.ractorsCut = headWords, cut
	r.adopt(ractors, all)
	return true, nil
}

func (r *threadList) ractorAt(addr attach.Address, id sampler.RactorID) *ractor {
	for _, rc := range r.ractors {
		if rc.addr == addr && rc.id == id {
			return rc
		}
	}
	rc := &ractor{addr: addr, id: id}
	if r.o.VMRactorSet < 0 {
		rc.base = addr
		rc.buf = make([]byte, max(r.o.VMLiving+16, r.o.VMLivingNum+8, r.o.VMGVL+256))
	} else {
		rc.base = addr + attach.Address(r.o.RactorSet)
		rc.buf = make([]byte, r.o.RactorMain-r.o.RactorSet)
	}
	return rc
}

func (r *threadList) listHead(rc *ractor) attach.Address {
	if r.o.VMRactorSet < 0 {
		return rc.addr + attach.Address(r.o.VMLiving)
	}
	return rc.addr + attach.Address(r.o.RactorSet)
}

// walkThreads reads up to limit threads of a ractor's circular list. It checks that each node links back to the node
// before it, and that each thread belongs to the VM. whole is false if the list changed during the walk, or could not
// be read.
func (r *threadList) walkThreads(rc *ractor, limit int) (list []*thread, whole bool, err error) {
	head := r.listHead(rc)
	var first [16]byte
	if err := r.mem.Read(head, first[:]); err != nil {
		return nil, false, err
	}
	rc.cut = false
	prev, node := head, attach.Address(le64(first[:]))
	buf := make([]byte, r.o.ThSpan)
	for node != head {
		if node == 0 {
			return nil, false, nil
		}
		if err := r.walkOver(); err != nil {
			return nil, false, err
		}
		if len(list) >= limit {
			rc.cut = true
			r.reads.Failed++
			break
		}
		addr := node - attach.Address(r.o.ThNode)
		if err := r.mem.Read(addr, buf); err != nil {
			return nil, false, nil
		}
		if attach.Address(le64(buf[r.o.ThNode+8:])) != prev || attach.Address(le64(buf[r.o.ThVM:])) != r.vm.Addr {
			return nil, false, nil
		}
		if r.o.ThRactor >= 0 && attach.Address(le64(buf[r.o.ThRactor:])) != rc.addr {
			return nil, false, nil
		}
		list = append(list, r.threadAt(addr, rc, buf))
		prev, node = node, attach.Address(le64(buf[r.o.ThNode:]))
	}
	return list, true, nil
}

// threadAt returns the known thread at an address if it is still the same thread. Otherwise it returns a new thread.
// The address alone does not identify a thread, because Ruby reuses addresses, Thread objects and tids
// (docs/internals/threads.md#a-thread-has-no-lasting-identity). A thread is the same if it has been in the list all the
// time and has the same Thread object.
func (r *threadList) threadAt(addr attach.Address, rc *ractor, buf []byte) *thread {
	self := le64(buf[r.o.ThSelf:])
	if t, ok := r.threads[addr]; ok && t.self == self && t.ractor.id == rc.id {
		t.ractor = rc
		t.seq = r.walks
		t.ecAt = attach.Address(le64(buf[r.o.ThEC:]))
		return t
	}
	r.lastID++
	return &thread{addr: addr, id: r.lastID, ractor: rc, self: self, seq: r.walks, ecAt: attach.Address(le64(buf[r.o.ThEC:]))}
}

// adopt makes the result of a complete walk the current list. It gives IDs to new threads, drops the threads that have
// ended, and arranges the buffers (layoutSegments).
func (r *threadList) adopt(ractors []*ractor, all []*thread) {
	for addr, t := range r.threads {
		if t.seq != r.walks {
			r.gone(t)
			delete(r.threads, addr)
		}
	}
	main := r.mainThread()
	for i, t := range all {
		if old, ok := r.threads[t.addr]; ok && old != t {
			r.gone(old)
		}
		r.threads[t.addr] = t
		t.main = t.addr == main
		t.index, t.place = i, -1
	}
	for _, rc := range ractors {
		rc.queue.forget()
		for i, t := range rc.threads {
			t.among = i
		}
	}
	r.ractors, r.order = ractors, all
	r.layoutSegments()
}

func (r *threadList) gone(t *thread) {
	t.info.GoneNS = r.now()
	if t.info.ID != 0 {
		t.info.Exception = r.dec.EndedBy(t.self, t.addr)
		r.dict.SetThread(t.info)
	}
}

// mainThread reads from the VM which thread is the main thread. In a forked process, the main thread is the thread that
// called fork.
func (r *threadList) mainThread() attach.Address {
	main, ok := r.readWord(r.vm.Addr + attach.Address(r.o.VMMainThread))
	if !ok {
		return r.vm.MainThread
	}
	return attach.Address(main)
}

// layoutSegments gives one shared buffer to structs that lie close together in the target. So addPieces can read them
// as one range.
func (r *threadList) layoutSegments() {
	r.pieces = r.pieces[:0]
	for _, t := range r.order {
		r.pieces = append(r.pieces, piece{addr: t.addr, t: t, size: r.o.ThSpan})
		t.ecBuf, t.pieces[1] = nil, -1
		if t.ecAt != 0 {
			r.pieces = append(r.pieces, piece{addr: t.ecAt, t: t, ec: true, size: ecSpan})
		}
	}
	slices.SortFunc(r.pieces, func(a, b piece) int { return cmp.Compare(a.addr, b.addr) })
	r.allRead = false
	end := func(p *piece) attach.Address { return p.addr + attach.Address(p.size) }
	for i := 0; i < len(r.pieces); {
		first := &r.pieces[i]
		until, j := end(first), i+1
		for j < len(r.pieces) && r.pieces[j].addr <= until+maxGap && end(&r.pieces[j])-first.addr <= maxSegment {
			until = max(until, end(&r.pieces[j]))
			j++
		}
		buf := make([]byte, until-first.addr)
		for k := i; k < j; k++ {
			p := &r.pieces[k]
			p.buf, p.off = buf, int(p.addr-first.addr)
			if own := buf[p.off : p.off+p.size : p.off+p.size]; p.ec {
				p.t.ecBuf = own
				p.t.pieces[1] = k
			} else {
				p.t.buf = own
				p.t.pieces[0] = k
			}
		}
		i = j
	}
}

// addPieces adds to the plan the structs of the threads that this tick reads. If ecs is true, it also adds their
// execution contexts. Structs with a small gap between them become one range, if copying the gap is cheaper than a
// second range.
func (r *threadList) addPieces(ecs bool) {
	r.open, r.openUntil = nil, 0
	if len(r.read) < len(r.order)/fewPieces {
		r.few = r.few[:0]
		for _, t := range r.read {
			r.few = append(r.few, t.pieces[0])
			if ecs && t.pieces[1] >= 0 {
				r.few = append(r.few, t.pieces[1])
			}
		}
		slices.Sort(r.few)
		for _, i := range r.few {
			r.addPiece(&r.pieces[i])
		}
	} else {
		for i := range r.pieces {
			if p := &r.pieces[i]; p.t.readIn == r.ticks && (ecs || !p.ec) {
				r.addPiece(p)
			}
		}
	}
	if r.open != nil {
		r.add(r.open.addr, r.open.buf[r.open.off:r.openUntil])
	}
}

func (r *threadList) addPiece(p *piece) {
	if p.ec {
		p.t.ecIn = r.ticks
	}
	if r.open != nil && &r.open.buf[0] == &p.buf[0] && p.off <= r.openUntil+maxGap {
		r.openUntil = max(r.openUntil, p.off+p.size)
		return
	}
	if r.open != nil {
		r.add(r.open.addr, r.open.buf[r.open.off:r.openUntil])
	}
	r.open, r.openUntil = p, p.off+p.size
}

// listIntact checks that the list of threads is unchanged: each struct that was read must link to the next known
// struct, and that struct must link back.
func (r *threadList) listIntact() bool {
	if !r.ractorsIntact() {
		return false
	}
	for _, rc := range r.ractors {
		head := r.listHead(rc)
		off := int(head - rc.base)
		prev, next := head, attach.Address(le64(rc.buf[off:]))
		for _, t := range rc.threads {
			if next != t.addr+attach.Address(r.o.ThNode) || attach.Address(le64(t.buf[r.o.ThNode+8:])) != prev ||
				le64(t.buf[r.o.ThSelf:]) != t.self {
				return false
			}
			prev, next = next, attach.Address(le64(t.buf[r.o.ThNode:]))
		}
		if !rc.cut && (next != head || attach.Address(le64(rc.buf[off+8:])) != prev) {
			return false
		}
	}
	return true
}

func (r *threadList) ractorsIntact() bool {
	if r.o.VMRactorSet < 0 {
		return true
	}
	// ddtop does not follow all ractors, so the last known ractor is not the list's end: compare only the head and the
	// count
	if r.ractorsCut {
		return r.vmHead == r.walkedHead
	}
	first, last := r.ractors[0], r.ractors[len(r.ractors)-1]
	node := attach.Address(r.o.RactorNode)
	return attach.Address(le64(r.vmHead[:])) == first.addr+node && attach.Address(le64(r.vmHead[8:])) == last.addr+node &&
		int(le32(r.vmHead[16:])) == len(r.ractors)
}

// readAll reads ranges. It returns an error if one of them fails.
func (r *target) readAll(ranges []attach.Range) error {
	calls, err := r.mem.ReadBatch(ranges)
	r.reads.Calls += uint64(calls)
	if err != nil {
		return err
	}
	for i := range ranges {
		if ranges[i].Failed {
			return &attach.ReadError{PID: r.pid, Addr: ranges[i].Addr, Want: len(ranges[i].Buf), Err: errNotMapped}
		}
	}
	return nil
}

func (t *thread) String() string { return fmt.Sprintf("thread %d at %s", t.id, t.addr) }
