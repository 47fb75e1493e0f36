package ruby

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// These limits apply to the work that ddtop does to follow waiting fibers. All processes that ddtop reads share them.
const (
	// waitingShare, searchShare and idleShare limit the time of three kinds of work: each may take 1/share of all time.
	// waitingShare is for reading known fibers. searchShare is for searching the heap for more fibers. idleShare is for
	// this search while no fiber is known.
	waitingShare, searchShare, idleShare = 300, 600, 3000
	// unsignedShare replaces idleShare until ddtop has seen a thread switch fibers. In a process without such a switch
	// there may be no fiber to find, so the search gets less time.
	unsignedShare = 60_000
	// waitingSavings limits how much unused time is saved for later, in ns. At the start, ddtop gets this much time in
	// advance, so that it finds and shows existing fibers soon.
	waitingSavings = int64(40e6)
	// waitingSlice limits how long a tick reads fibers, in ns. The last step may exceed it. Most steps need 0.5 ms.
	waitingSlice = int64(1_500_000)
	// maxStepNS limits how much of a step's time is counted against the allowed time, in ns. If a step takes longer,
	// ddtop had no CPU during a part of it.
	maxStepNS = int64(3e6)
	// waitingEveryNS is the shortest interval between two readings of known fibers, in ns. searchEveryNS is the
	// shortest interval between two searches of the heap, in ns.
	waitingEveryNS, searchEveryNS = int64(50e6), int64(250e6)
	// maxWaiting limits how many fibers are followed. waitingBytes limits the memory for their stacks.
	maxWaiting   = 4096
	waitingBytes = 16 << 20
	// waitingBatch is how many fibers are read in one call. searchBatch is how many heap pages are searched in one
	// step.
	waitingBatch, searchBatch = 16, 8
	// maxHotPages limits the number of hot pages: heap pages on which fibers were found. Before each round of reading
	// fibers, ddtop searches hotBatch of these pages.
	maxHotPages, hotBatch = 64, 16
	// maxFilling limits how many pages ddtop remembers as pages that Ruby is filling with new objects. A round searches
	// these pages first, because new fibers are there.
	maxFilling = 48
	// maxScans limits the number of pages for which ddtop remembers the time of their last search. scanShift is the
	// base-2 logarithm of the smallest page's size.
	maxScans, scanShift = 1 << 13, 14
	// maxRootTasks limits how many requests of threads ddtop remembers. If a thread passes its request to a fiber,
	// ddtop recognizes the request by this memory.
	maxRootTasks = 4096
	// maxBirthNS limits how inexact a request's start may be, in ns. ddtop knows only a time before which the request
	// cannot have started. If this time is more than maxBirthNS ago, ddtop does not report it.
	maxBirthNS = int64(1e9)
)

// allowance is a budget of time for one kind of work. ns is how much time this work may still take, in ns.
type allowance struct{ ns, atNS int64 }

// earn adds to the allowance 1/share of the time since the last call, up to waitingSavings.
func (a *allowance) earn(nowNS, share int64) {
	if a.atNS == 0 {
		a.ns = waitingSavings
	} else {
		a.ns = min(a.ns+(nowNS-a.atNS)/share, waitingSavings)
	}
	a.atNS = nowNS
}

// waitingFibers follows the waiting fibers of a process. It works in rounds: a round reads all known fibers, and ends
// with a new result. A round is spread over as many ticks as the time limits require.
type waitingFibers struct {
	*target
	list    *threadList
	stacks  *stackReader
	serving *workReader
	// finder finds fibers among the objects of a page. It is nil if this process's heap cannot be read, or if ddtop
	// has not tried yet.
	finder *fiberFinder
	tried  bool
	self   int

	known map[attach.Address]*waitingFiber
	// order has the known fibers, sorted by their numbers. It may still contain fibers that were dropped since the last
	// round.
	order []*waitingFiber
	last  sampler.FiberNumber
	bytes int
	full  bool // true if there are more fibers than ddtop follows

	// switched is true if a thread has ever switched to another fiber. sign finds this out.
	switched bool
	sign     fiberSign

	look, search allowance
	// looking is true during a round. The round began at beganNS, in the Dictionary's generation. The field fill is how
	// many of the pages in the field filling the round must still search. hotAt is how many hot pages it has searched.
	//
	// The round has read the fibers before order[at], and ends at order[until]. until is -1 before the round begins to
	// read fibers. Fibers that are found later wait for the next round. Otherwise a round would never end if a program
	// makes fibers all the time.
	looking    bool
	beganNS    int64
	generation sampler.Generation
	fill       int
	hotAt, at  int
	until      int
	missed     bool // a known fiber could not be read
	nextNS     int64
	out        []sampler.Fiber
	published  *sampler.Fibers

	// pages are the pages of the heap that the current search covers. page is the index of the next page to search.
	// searched is true after the first complete search.
	pages        []attach.Address
	page         int
	pagesCut     bool
	searched     bool
	nextSearchNS int64
	hot          []attach.Address
	hotFirst     int
	// filling are pages into which Ruby has put new objects since ddtop last searched them.
	filling, nowFilling []attach.Address
	// scans has the time at which each page was last searched, by the page's address (see scanOf).
	scans map[attach.Address]int64

	// rootTasks are the present and past tasks (requests and jobs) of threads' first fibers, by the address of the
	// task's Hash.
	rootTasks map[uint64]work.TaskID
	// byHash has for each task (request or job) a waiting fiber that works for it, by the address of the task's Hash.
	byHash map[uint64]*waitingFiber

	plan   plan
	slots  [waitingBatch]waitingSlot
	own    waitingSlot // the buffers for a fiber that is read alone
	copies [2][]byte
}

// waitingSlot has the buffers for one fiber of a batch.
type waitingSlot struct {
	heads    [2][]byte
	frames   []byte
	object   [heap.DataHeader]byte
	from, to int // the slot's ranges in the plan are the ones with indexes in [from, to)
	planned  bool
}

// waitingFiber is what ddtop knows about a fiber that it follows.
type waitingFiber struct {
	addr   attach.Address
	number sampler.FiberNumber
	thread *thread
	head   fiberHead
	// kept are the frames of the last reading. stack is the ID of the stack that was decoded from them. The ID is valid
	// only in the generation of the Dictionary in which the stack was decoded.
	kept       []byte
	stack      sampler.StackID
	handlers   int
	version    uint64
	generation sampler.Generation
	state      work.State
	// enumerates is true if the fiber belongs to an Enumerator.
	enumerates bool
	// helps is set if this fiber only works for another fiber or a thread, as an Enumerator's fiber does. helps is then
	// the request or job of that other fiber or thread.
	helps work.TaskID
	// bornNS is a time at which the fiber did not exist yet. So it began after bornNS. bornNS is zero if no such time
	// is known.
	bornNS int64
	// seenNS is when ddtop last saw that the fiber exists, waiting or not.
	seenNS int64
	gone   bool
}

// fiberHead has the words of a fiber's struct that identify the fiber, show where its stack is, and show that it waits.
type fiberHead struct {
	self, low, size, cfp, thread, fiber, prev, statusWord uint64
	status                                                uint64
}

// ready prepares to follow fibers, and reports whether ddtop can follow them.
func (w *waitingFibers) ready() bool {
	if w.tried {
		return w.finder != nil
	}
	w.tried = true
	var places struct {
		self int `layout:"rb_fiber_struct.cont.self"`
	}
	f, err := newFiberFinder(w.target)
	if err != nil || w.vm.Resolve(&places) != nil || w.o.ThRootFiber < 0 {
		return false // this release's fibers cannot be read; a dump reports this
	}
	w.finder, w.self = f, places.self
	w.known, w.scans = make(map[attach.Address]*waitingFiber), make(map[attach.Address]int64)
	w.rootTasks, w.byHash = make(map[uint64]work.TaskID), make(map[uint64]*waitingFiber)
	for i := range w.slots {
		for j := range w.slots[i].heads {
			w.slots[i].heads[j] = make([]byte, w.headSize())
		}
	}
	return true
}

func (w *waitingFibers) headSize() int {
	o, saved := w.o, w.o.FiberSavedEC
	return max(w.finder.status.Offset+8, o.FiberPrev+8, saved+ecSpan, saved+o.ECThread+8, saved+o.ECFiber+8, w.self+8)
}

func (w *waitingFibers) headOf(b []byte) fiberHead {
	o, ec := w.o, b[w.o.FiberSavedEC:]
	return fiberHead{self: le64(b[w.self:]), low: le64(ec[ecVMStack:]), size: le64(ec[ecVMStackSize:]), cfp: le64(ec[ecCFP:]),
		thread: le64(ec[o.ECThread:]), fiber: le64(ec[o.ECFiber:]), prev: le64(b[o.FiberPrev:]),
		statusWord: le64(b[w.finder.status.Offset:]), status: w.finder.status.In(b)}
}

func (w *waitingFibers) follow(nowNS int64) *sampler.Fibers {
	if w.serving.noRequests || !w.ready() {
		return nil
	}
	processes := int64(max(w.shared, 1))
	share := int64(searchShare)
	switch {
	case !w.switched && !w.sign.seen(w, nowNS):
		share = unsignedShare
	case !w.switched:
		// an empty allowance begins again with its initial savings, so that existing fibers show soon
		w.switched, w.search = true, allowance{}
		fallthrough
	case len(w.known) == 0:
		share = idleShare
	}
	w.look.earn(nowNS, waitingShare*processes)
	if w.search.atNS == 0 && !w.switched {
		w.search.atNS = nowNS // the search begins without any saved time
	}
	w.search.earn(nowNS, share*processes)
	for _, t := range w.list.read {
		w.noteThread(t)
	}
	w.noteFilling()
	end := w.now() + waitingSlice
	spend := func(a *allowance, step func(nowNS int64) bool) {
		for more := true; more && a.ns > 0 && !w.budget.stopped.Load(); {
			from := w.now()
			if from >= end {
				return
			}
			more = step(from)
			a.ns -= min(w.now()-from, maxStepNS)
		}
	}
	w.serving.finder.Unbounded(func() {
		spend(&w.look, w.lookOn)
		spend(&w.search, w.searchOn)
	})
	w.budget.spent = true
	return w.published
}

// noteThread follows the fiber that a thread runs. If this is the thread's first fiber, noteThread only remembers the
// request or job that the thread works for.
func (w *waitingFibers) noteThread(t *thread) {
	st := &t.stack
	root := w.firstFiber(t)
	if st.ec == 0 || st.quality&sampler.StackFailed != 0 {
		return
	}
	if root != 0 && st.ec != w.contextOf(root) {
		w.meet(t, w.fiberOf(st.ec))
		return
	}
	if id, ok := t.serves.work.Task(); ok {
		if len(w.rootTasks) >= maxRootTasks {
			clear(w.rootTasks)
		}
		w.rootTasks[id.Hash()] = id
	}
}

func (w *waitingFibers) meet(t *thread, addr attach.Address) {
	if w.known[addr] != nil || w.isFull() {
		return
	}
	b := w.slots[0].heads[0]
	if w.mem.Read(addr, b) != nil {
		return
	}
	h := w.headOf(b)
	if attach.Address(h.fiber) != addr || attach.Address(h.thread) != t.addr {
		return
	}
	w.add(addr, w.scans[scanOf(attach.Address(h.self))])
}

func scanOf(addr attach.Address) attach.Address { return addr >> scanShift }

// born returns a time after which the fiber with the context ec began its present request or job (BornNS in
// work.Frames). It returns zero if no such time is known.
func (w *waitingFibers) born(t *thread, ec attach.Address) int64 {
	addr, root := w.fiberOf(ec), w.firstFiber(t)
	if w.finder == nil || root == 0 || addr == root {
		return 0
	}
	w.meet(t, addr)
	f := w.known[addr]
	if f == nil {
		return 0
	}
	return recent(max(f.bornNS, f.state.LookedNS(ec)), w.serving.lookNS)
}

// recent returns ns, or zero if ns is too long ago. The caller reports that a request began after the time ns. If ns is
// long ago, this report is too inexact to be useful.
func recent(ns, nowNS int64) int64 {
	if nowNS-ns > maxBirthNS {
		return 0
	}
	return ns
}

func (w *waitingFibers) isFull() bool {
	w.full = len(w.known) >= maxWaiting/max(w.shared, 1)
	return w.full
}

func (w *waitingFibers) add(addr attach.Address, bornNS int64) {
	if w.known[addr] != nil || w.isFull() {
		return
	}
	w.last++
	f := &waitingFiber{addr: addr, number: w.last, bornNS: bornNS}
	w.known[addr] = f
	w.order = append(w.order, f)
}

func (w *waitingFibers) drop(f *waitingFiber) {
	f.gone = true
	w.serving.finder.Forget(&f.state)
	w.keep(f, nil)
	if w.known[f.addr] == f {
		delete(w.known, f.addr)
	}
}

// keep stores a fiber's frames, so that the next reading can be compared with them. If there is not enough memory, it
// stores nothing.
func (w *waitingFibers) keep(f *waitingFiber, frames []byte) {
	w.bytes -= len(f.kept)
	if w.bytes+len(frames) > waitingBytes/max(w.shared, 1) {
		frames = nil
	}
	f.kept = append(f.kept[:0], frames...)
	w.bytes += len(f.kept)
}

// lookOn continues the round of reading fibers, or begins one if it is time. The result more is true if there is more
// to do.
func (w *waitingFibers) lookOn(nowNS int64) (more bool) {
	if !w.looking {
		if nowNS < w.nextNS || len(w.known) == 0 && (w.published == nil || len(w.published.List) == 0) {
			return false
		}
		w.looking, w.beganNS, w.generation, w.missed = true, nowNS, w.dict.Generation(), false
		w.fill, w.hotAt, w.at, w.until, w.out = len(w.filling), 0, 0, -1, w.out[:0]
		w.nextNS = nowNS + waitingEveryNS
	}
	switch n := min(len(w.hot), hotBatch); {
	case w.fill > 0:
		w.searchFilling(nowNS)
	case w.hotAt < n:
		w.searchHot(nowNS, n)
	case w.until < 0:
		w.until = len(w.order)
	case w.at < w.until:
		to := min(w.at+waitingBatch, w.until)
		w.lookAt(w.order[w.at:to], nowNS)
		w.at = to
	default:
		w.looking = false
		w.publish(nowNS)
	}
	return true
}

// publish ends a round: the fibers that it has read become the last complete result.
func (w *waitingFibers) publish(nowNS int64) {
	order := w.order[:0]
	for _, f := range w.order {
		if !f.gone {
			order = append(order, f)
		}
	}
	clear(w.order[len(order):])
	w.order = order
	if w.dict.Generation() != w.generation {
		// the Dictionary may have evicted stacks that were read early in the round, so begin a new round at once
		w.nextNS = nowNS
		return
	}
	w.published = &sampler.Fibers{List: append([]sampler.Fiber(nil), w.out...), Cut: w.full || w.missed || w.pagesCut || !w.searched,
		AtNS: w.beganNS, ReadNS: nowNS - w.beganNS}
}

// noteFilling remembers the pages that Ruby is filling with new objects, because Ruby puts new fibers on these pages.
func (w *waitingFibers) noteFilling() {
	if len(w.known) == 0 {
		return
	}
	w.nowFilling = w.gc.FillingPages(w.nowFilling[:0])
	for _, page := range w.nowFilling {
		if len(w.filling) < maxFilling && !slices.Contains(w.filling, page) {
			w.filling = append(w.filling, page)
		}
	}
}

// searchFilling searches the pages that noteFilling had remembered before the round began.
func (w *waitingFibers) searchFilling(nowNS int64) {
	n := min(w.fill, len(w.filling), searchBatch)
	w.fill -= n
	_ = w.gc.ReadPages(w.filling[:n], maxFiberSlot, func(header attach.Address, page attach.Range, size int) bool {
		if w.searchPage(page, size, nowNS) {
			w.heat(header)
		}
		return true
	})
	w.filling = slices.Delete(w.filling, 0, n)
}

// searchHot searches some of the pages on which fibers were found before. New fibers are often on these pages, because
// a new fiber's object often takes the place of a freed one.
func (w *waitingFibers) searchHot(nowNS int64, n int) {
	from := (w.hotFirst + w.hotAt) % len(w.hot)
	to := min(from+min(searchBatch, n-w.hotAt), len(w.hot))
	batch := append([]attach.Address(nil), w.hot[from:to]...)
	found := make(map[attach.Address]bool)
	_ = w.gc.ReadPages(batch, maxFiberSlot, func(header attach.Address, page attach.Range, size int) bool {
		found[header] = w.searchPage(page, size, nowNS)
		return true
	})
	w.hotAt += len(batch)
	if w.hotAt >= n {
		w.hotFirst = to % len(w.hot)
	}
	kept := w.hot[:0]
	for i, header := range w.hot {
		if i < from || i >= to || found[header] {
			kept = append(kept, header)
		}
	}
	if w.hot = kept; len(kept) == 0 {
		w.hotFirst = 0
	} else {
		w.hotFirst %= len(kept)
	}
}

// searchPage searches a page of the heap for fibers, and reports whether there are any. The page was read at nowNS or
// later.
func (w *waitingFibers) searchPage(page attach.Range, size int, nowNS int64) (any bool) {
	f := w.finder
	f.found = f.found[:0]
	before := w.scans[scanOf(page.Addr)]
	f.page(page, size)
	seenNS := nowNS
	for _, addr := range f.found {
		if w.add(addr, before); w.known[addr] == nil {
			// the fiber was not added, so a later search will find it again and must not take it for a new one
			seenNS = 0
		}
	}
	w.roomForScans(nowNS)
	for at := scanOf(page.Addr); at <= scanOf(page.Addr+attach.Address(len(page.Buf)-1)); at++ {
		w.scans[at] = seenNS
	}
	return len(f.found) > 0
}

// roomForScans makes room if scans has too many entries. It drops the old entries. If only few are old, it drops all
// entries.
func (w *waitingFibers) roomForScans(nowNS int64) {
	if len(w.scans) < maxScans {
		return
	}
	maps.DeleteFunc(w.scans, func(_ attach.Address, atNS int64) bool { return nowNS-atNS > maxBirthNS })
	// otherwise ddtop would soon have to look for old entries again, perhaps for each page
	if len(w.scans) > maxScans/2 {
		clear(w.scans)
	}
}

// searchOn continues the search of the heap, or begins a new one if it is time. The result more is true if there is
// more to do.
func (w *waitingFibers) searchOn(nowNS int64) (more bool) {
	if w.page >= len(w.pages) {
		if nowNS < w.nextSearchNS {
			return false
		}
		list, cut, err := w.gc.Pages()
		w.nextSearchNS = nowNS + searchEveryNS
		if err != nil || len(list) == 0 {
			return false // end this search; the next one may succeed
		}
		w.pages, w.page, w.pagesCut = list, 0, cut
		return true
	}
	to := min(w.page+searchBatch, len(w.pages))
	_ = w.gc.ReadPages(w.pages[w.page:to], maxFiberSlot, func(header attach.Address, page attach.Range, size int) bool {
		if w.searchPage(page, size, nowNS) {
			w.heat(header)
		}
		return true
	})
	if w.page = to; w.page == len(w.pages) {
		w.searched = true
	}
	return true
}

// heat adds a page to the pages that are searched first (hot pages).
func (w *waitingFibers) heat(header attach.Address) {
	if len(w.hot) < maxHotPages && !slices.Contains(w.hot, header) {
		w.hot = append(w.hot, header)
	}
}
