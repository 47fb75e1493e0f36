package ruby

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// These constants are addresses of the invented parts of a hostile memory. They differ from captured addresses, which
// have 47 bits. Reads from 2^56 on fail.
const (
	// In each epoch, the captured pages appear at new addresses. In the first epoch they are at hostileNew, and in each
	// later epoch they are epochStride higher.
	hostileNew     = attach.Address(1) << 52
	epochStride    = attach.Address(1) << 26
	capturedPage   = attach.Address(4096)
	hostileThreads = attach.Address(1) << 53 // plus cloneStride for each thread
	hostileRactors = attach.Address(1) << 54
	hostileText    = attach.Address(1) << 55
	cloneStride    = attach.Address(1) << 16
	// hostileTextBytes is the length that every string claims to have.
	hostileTextBytes = 1 << 20
)

// hostile is the memory of a captured process, changed so that it tries to make ddtop keep too much. The changes differ
// from epoch to epoch. Control frames name code, methods and receivers at new addresses, and the words there lead to
// further new addresses. Every string is a megabyte long and differs from all others. There are as many threads and
// ractors as ddtop follows, or links that lead in circles.
type hostile struct {
	pages *memtest.Pages
	o     *rubyvm.Offsets
	vm    attach.Address
	// kept are the ranges whose words stay as they were captured: the structs of threads and of the scheduler.
	kept []attach.Range
	// stacks are the VM stacks. Their words point to new addresses in each epoch.
	stacks []attach.Range
	// template is the captured thread from which the invented threads are copied. ractor is the captured ractor from
	// which the invented ractors are copied.
	template, ractor attach.Address
	// threads and ractors are the numbers of invented threads and ractors, in addition to the captured ones. A huge
	// number makes a list without an end.
	threads, ractors attach.Address
	epoch            attach.Address
	// fresh is true if the threads have other Thread objects in each epoch. ddtop must then take all of them for new
	// threads.
	fresh bool
	// circle is true if lists never end: a queue for the GVL that does not lead back to its head, and fibers that
	// resume each other.
	circle bool
	// list has the addresses of the captured pages.
	list  []attach.Address
	reads int
	bytes int
	// string is the address of the class String.
	string attach.Address
}

// within reports whether an address is in one of the ranges.
func within(list []attach.Range, a attach.Address) bool {
	return slices.ContainsFunc(list, func(r attach.Range) bool { return a >= r.Addr && a < r.Addr+attach.Address(len(r.Buf)) })
}

func (h *hostile) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		ranges[i].Failed = h.Read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	return (len(ranges) + 1023) / 1024, nil
}

func (h *hostile) Read(addr attach.Address, buf []byte) error {
	h.reads++
	h.bytes += len(buf)
	switch {
	case addr >= hostileText:
		for i := range buf {
			a := addr + attach.Address(i)
			buf[i] = 'a' + byte(uint64(a>>3)*0x9e3779b97f4a7c15>>(8*(a&7)))%26
		}
		return nil
	case addr >= hostileThreads:
		return h.readClone(addr, buf)
	}
	epoch, at := attach.Address(0), h.old(addr)
	if addr >= hostileNew {
		epoch = (addr - hostileNew) / epochStride
	}
	if err := h.pages.Read(at, buf); err != nil {
		return err
	}
	// A String may begin before the range that is read. So change words from a lower address on.
	const head = 32
	from := at&^7 - head
	wide := make([]byte, int(at-from)+len(buf))
	if h.pages.Read(from, wide) != nil {
		h.change(at, epoch, buf)
		return nil
	}
	h.change(from, epoch, wide)
	if within(h.kept, at) {
		h.change(at, epoch, buf)
	} else {
		copy(buf, wide[at-from:])
	}
	return nil
}

// change replaces words of memory that were read at an address. The new words differ in each epoch.
func (h *hostile) change(at, epoch attach.Address, buf []byte) {
	inStack := within(h.stacks, at)
	if inStack {
		epoch = h.epoch
	} else if within(h.kept, at) {
		h.patch(at, buf)
		return
	}
	first := int(-at & 7)
	for i := first; i+8 <= len(buf); i += 8 {
		w := le64(buf[i:])
		if p := attach.Address(w); epoch != 0 && p > 1<<16 && p < 1<<47 && !within(h.kept, p) && !within(h.stacks, p) {
			if page, ok := slices.BinarySearch(h.list, p&^(capturedPage-1)); ok {
				anew := hostileNew + epoch*epochStride + attach.Address(page)*capturedPage + p%capturedPage
				binary.LittleEndian.PutUint64(buf[i:], uint64(anew))
			}
		}
		const noEmbed = 0x2000 // FL_USER1
		// Change a String so that it is not embedded, is very long, and has a text that no other String has.
		if i+16 <= len(buf) && w&heap.TypeMask == heap.TypeString && h.string != 0 && h.old(attach.Address(le64(buf[i+8:]))) == h.string {
			put(buf, at, at, i, attach.Address(w|noEmbed))
			put(buf, at, at, i+16, hostileTextBytes)
			text := uint64(at) + uint64(i) + uint64(epoch)<<50
			put(buf, at, at, i+24, hostileText|attach.Address(text*0x9e3779b97f4a7c15>>9)&^7)
			i += 24
		}
	}
}

// old returns the captured address whose content appears at address a in this epoch.
func (h *hostile) old(a attach.Address) attach.Address {
	if page := a % epochStride / capturedPage; a >= hostileNew && int(page) < len(h.list) {
		return h.list[page] + a%capturedPage
	}
	return a
}

// put writes the word w into buf, if buf covers the word's place. This place is at the offset off of a struct at the
// address base. buf has the bytes that begin at the address at.
func put(buf []byte, at, base attach.Address, off int, w attach.Address) {
	for i := range 8 {
		if a := base + attach.Address(off+i); a >= at && a < at+attach.Address(len(buf)) {
			buf[a-at] = byte(w >> (8 * i))
		}
	}
}

// patch changes the lists of threads and ractors, so that the invented entries come before the first captured one.
func (h *hostile) patch(at attach.Address, buf []byte) {
	node := attach.Address(h.o.ThNode)
	if h.threads > 0 {
		head := h.ractor + attach.Address(h.o.RactorSet)
		if h.o.VMRactorSet < 0 {
			head = h.vm + attach.Address(h.o.VMLiving)
		}
		put(buf, at, head, 0, hostileThreads+node)
		put(buf, at, h.template, h.o.ThNode+8, hostileThreads+(h.threads-1)*cloneStride+node)
	}
	if h.ractors > 0 && h.o.VMRactorSet >= 0 {
		head := h.vm + attach.Address(h.o.VMRactorSet)
		put(buf, at, head, 0, h.ractor+attach.Address(h.o.RactorNode))
		put(buf, at, head, 8, hostileRactors+(h.ractors-1)*cloneStride+attach.Address(h.o.RactorNode))
		put(buf, at, head, 16, h.ractors+1)
		put(buf, at, h.ractor, h.o.RactorNode, hostileRactors+attach.Address(h.o.RactorNode))
	}
	if h.circle && h.o.ThReadyNode >= 0 && at <= h.template && h.template < at+attach.Address(len(buf)) {
		self := h.template + attach.Address(h.o.ThReadyNode)
		put(buf, at, h.template, h.o.ThReadyNode, hostileThreads+attach.Address(h.o.ThReadyNode))
		put(buf, at, h.template, h.o.ThReadyNode+8, self)
	}
	if h.fresh {
		put(buf, at, h.template, h.o.ThSelf, 0x7f0000001000+h.epoch<<24)
	}
}

func (h *hostile) readClone(addr attach.Address, buf []byte) error {
	if addr >= hostileRactors {
		k := (addr - hostileRactors) / cloneStride
		off := (addr - hostileRactors) % cloneStride
		if err := h.pages.Read(h.ractor+off, buf); err != nil {
			return err
		}
		base := hostileRactors + k*cloneStride
		link := func(k attach.Address) attach.Address {
			return hostileRactors + k*cloneStride + attach.Address(h.o.RactorNode)
		}
		next, prev := link(k+1), link(k-1)
		if k == 0 {
			prev = h.ractor + attach.Address(h.o.RactorNode)
		}
		if k+1 == h.ractors {
			next = h.vm + attach.Address(h.o.VMRactorSet)
		}
		put(buf, addr, base, h.o.RactorNode, next)
		put(buf, addr, base, h.o.RactorNode+8, prev)
		put(buf, addr, base, h.o.RactorID, k+2)
		set := base + attach.Address(h.o.RactorSet) // the ractor has no threads, so its list refers to itself
		put(buf, addr, set, 0, set)
		put(buf, addr, set, 8, set)
		return nil
	}
	k := (addr - hostileThreads) / cloneStride
	off := (addr - hostileThreads) % cloneStride
	if err := h.pages.Read(h.template+off, buf); err != nil {
		return err
	}
	base := hostileThreads + k*cloneStride
	next, prev := base+cloneStride, base-cloneStride
	if k == 0 {
		prev = h.ractor + attach.Address(h.o.RactorSet-h.o.ThNode)
		if h.o.VMRactorSet < 0 {
			prev = h.vm + attach.Address(h.o.VMLiving-h.o.ThNode)
		}
	}
	if k+1 == h.threads {
		next = h.template
	}
	put(buf, addr, base, h.o.ThNode, next+attach.Address(h.o.ThNode))
	put(buf, addr, base, h.o.ThNode+8, prev+attach.Address(h.o.ThNode))
	self := 0x7f0000002000 + k*64
	if h.fresh {
		self += h.epoch << 24
	}
	put(buf, addr, base, h.o.ThSelf, self)
	if h.o.ThReadyNode >= 0 && h.circle {
		put(buf, addr, base, h.o.ThReadyNode, base+cloneStride+attach.Address(h.o.ThReadyNode))
		put(buf, addr, base, h.o.ThReadyNode+8, base-cloneStride+attach.Address(h.o.ThReadyNode))
	}
	return nil
}

// hostileOf makes a hostile memory of a captured process. It opens the Reader before the memory becomes hostile.
func hostileOf(t *testing.T, g *tickTarget) (*hostile, *Reader) {
	t.Helper()
	h := &hostile{pages: g.Pages, vm: g.VM}
	for _, s := range g.Pages.Spans() {
		for a := s.Start &^ (capturedPage - 1); a < s.End; a += capturedPage {
			if n := len(h.list); n == 0 || h.list[n-1] != a {
				h.list = append(h.list, a)
			}
		}
	}
	r, err := g.open(h)
	if err != nil {
		t.Fatal(err)
	}
	h.o = r.o
	if _, err := ticks(r, 3); err != nil {
		t.Fatal(err)
	}
	keep := func(a attach.Address, n int) { h.kept = append(h.kept, attach.Range{Addr: a, Buf: make([]byte, n)}) }
	keep(g.VM, max(r.vm.Table.Size("rb_vm_struct"), r.o.VMGVL+256, r.o.VMObjspace+8, r.o.VMRactorSet+24))
	for _, rc := range r.list.ractors {
		keep(rc.addr, max(r.o.RactorMain, r.o.RactorNode+16, 64))
		h.ractor = rc.addr
	}
	for i, th := range r.list.order {
		keep(th.addr, r.o.ThSpan)
		keep(th.ecAt, ecSpan)
		if th.stack.end > th.stack.low {
			h.stacks = append(h.stacks, attach.Range{Addr: th.stack.low, Buf: make([]byte, th.stack.end-th.stack.low)})
		}
		if i == 0 {
			h.template = th.addr
		}
		var class [8]byte
		if g.Pages.Read(attach.Address(th.nameVal)+8, class[:]) == nil && th.info.HasName {
			h.string = attach.Address(le64(class[:]))
		}
	}
	if r.gc != nil {
		keep(r.gc.Objspace, r.vm.Table.Size("rb_objspace"))
	}
	return h, r
}

// kitchen has everything that ddtop keeps in memory to show a process on the screen.
type kitchen struct {
	fold    *measure.Fold
	rolling *flamegraph.Rolling
	history *recording.History
	keeper  *sampler.Keeper
}

const (
	hostileHistory      = 600e9
	hostileHistoryBytes = 64 << 20
)

func newKitchen(t *testing.T, d *sampler.Dictionary) *kitchen {
	t.Helper()
	p := sampler.Process{PID: 1, LockRate: 1000, StackRate: 100}
	k := &kitchen{fold: measure.NewFold(p, d, measure.Options{ColumnNS: 100e6, Columns: 6001})}
	var err error
	if k.rolling, err = flamegraph.NewRolling(hostileHistory, 0); err != nil {
		t.Fatal(err)
	}
	if k.history, err = recording.NewHistory(hostileHistory, hostileHistoryBytes); err != nil {
		t.Fatal(err)
	}
	flamegraph.NewCollector(k.fold.Stream(), nil, k.rolling)
	k.keeper = sampler.NewKeeper(d, hostileHistory)
	return k
}

func (k *kitchen) feed(s *sampler.Sample) {
	k.fold.Feed(s)
	_ = k.history.Append(s)
	k.keeper.Feed(s, false)
}

func heapAlloc() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const (
	// mostHostileReads is the largest number of ranges of memory that one tick may read. A tick tries to read the lists
	// of threads and ractors at most maxListTries times.
	mostHostileReads = 2 * maxListTries * (maxThreads + 2*maxRactors)
	// mostHostile limits the memory that ddtop may keep, in bytes. It is the sum of all of ddtop's limits, and of the
	// size of the flamegraph's keys.
	mostHostile = sampler.MaxDictionaryBytes + code.MaxKeptBytes + heap.MaxKeptBytes + maxStackBytes + hostileHistoryBytes + timeline.MaxTimelineBytes +
		flamegraph.MaxHistoryBytes + flamegraph.MaxKeys*160
)

// TestHostileMemory: in every second tick, every object, name and thread of the process is new. ddtop must still keep
// no more than the sum of its limits. Each tick must end after a limited number of reads.
func TestHostileMemory(t *testing.T) {
	captured := loadTicks(t)
	for i, g := range captured {
		if rubytest.Short(t) && i != 0 && i != len(captured)-1 {
			continue // the releases in between have the same lists as the oldest or the newest
		}
		for _, c := range []struct {
			name  string
			ticks int
			set   func(*hostile)
		}{
			{"objects", 600, func(*hostile) {}},
			{"threads", 90, func(h *hostile) { h.threads, h.fresh = 1000, true }},
			{"endless", 12, func(h *hostile) { h.threads, h.fresh = 1<<40, true }},
			{"ractors", 30, func(h *hostile) { h.ractors = 4000 }},
			{"endless ractors", 12, func(h *hostile) { h.ractors = 1 << 40 }},
			{"circles", 12, func(h *hostile) { h.threads, h.circle = 500, true }},
		} {
			t.Run(g.Version+"/"+c.name, func(t *testing.T) {
				h, r := hostileOf(t, g)
				k := newKitchen(t, r.dict)
				before := heapAlloc()
				c.set(h)
				r.list.order = nil
				now := r.now()
				r.now = func() int64 { now += 150_000; return now } // the list of 20,000 threads takes 3 s
				var s sampler.Sample
				failed, most, mostReads := 0, int64(0), 0
				for i := range c.ticks {
					h.epoch = attach.Address(1 + i/2) // two ticks read each epoch
					h.reads = 0
					now += 50e6
					if err := r.Read(sampler.StackTick, &s); err != nil {
						failed++
					} else {
						s.TimeNS = int64(i+1) * 50e6
						k.feed(&s)
					}
					mostReads = max(mostReads, h.reads)
					if i%(c.ticks/6) == 0 {
						most = max(most, heapAlloc()-before)
					}
				}
				most = max(most, heapAlloc()-before)
				t.Logf("%d ticks, %d failed, %d threads: %d MB, %d reads a tick; dictionary %d MB, %d left out, stacks %d MB, history %d MB",
					c.ticks, failed, len(r.list.order), most>>20, mostReads, r.dict.Bytes()>>20, r.dict.LeftOut(), r.stacks.stackBytes>>20, k.history.Bytes()>>20)
				if most > mostHostile {
					t.Errorf("%d MB are kept; %d MB are the sum of the limits", most>>20, int64(mostHostile)>>20)
				}
				if mostReads > mostHostileReads {
					t.Errorf("a tick read %d ranges, %d at most", mostReads, mostHostileReads)
				}
				if failed == c.ticks {
					t.Errorf("all of %d ticks failed", failed)
				}
				if n := len(r.list.ractors); n > maxRactors || h.ractors > maxRactors && r.o.VMRactorSet >= 0 && (n < maxRactors || r.reads.Failed == 0) {
					t.Errorf("%d ractors are followed, %d failed reads", n, r.reads.Failed)
				}
				runtime.KeepAlive(k)
			})
		}
	}
}
