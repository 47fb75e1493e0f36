package ruby

import (
	"context"
	"errors"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
)

// Limits of the search for suspended fibers.
const (
	// maxFiberSlot limits the size of the heap slots in which ddtop searches for fibers, in bytes. A Fiber object needs
	// 40.
	maxFiberSlot = 80
	// maxSuspended limits how many fibers are found. maxDataTypes limits the number of types of T_DATA objects for
	// which ddtop remembers whether their objects are fibers.
	maxSuspended = 20_000
	maxDataTypes = 4096
)

// fiberType is the name of the data type of Fiber objects in Ruby's cont.c, on all releases.
const fiberType = "fiber"

// fiberFinder finds the fibers of a process by searching its heap for Fiber objects. This is the only way to find
// suspended fibers: no list in Ruby or in its schedulers has all of them.
type fiberFinder struct {
	*target
	fiberPlaces
	types map[attach.Address]bool
	// active are the fibers that threads run, and the fibers that have resumed these.
	active map[attach.Address]bool
	found  []attach.Address
	cut    bool
}

// fiberPlaces has the offset of a fiber's status field, and those values of this field that ddtop needs.
type fiberPlaces struct {
	status    layout.Field `layout:"rb_fiber_struct.status"`
	created   uint64       `layout:"FIBER_CREATED"`
	suspended uint64       `layout:"FIBER_SUSPENDED"`
}

func newFiberFinder(r *target) (*fiberFinder, error) {
	if r.gc == nil {
		return nil, errors.New("this collector's heap can't be read")
	}
	f := &fiberFinder{target: r, types: make(map[attach.Address]bool), active: make(map[attach.Address]bool)}
	return f, r.vm.Resolve(&f.fiberPlaces)
}

func (r *fiberReader) suspended(ctx context.Context) (sampler.Fibers, error) {
	f, err := newFiberFinder(r.target)
	if err != nil {
		return sampler.Fibers{}, err
	}
	begin := r.now()
	cut, err := r.gc.EachPage(ctx, maxFiberSlot, f.page)
	if err != nil {
		return sampler.Fibers{}, err
	}
	f.cut = f.cut || cut
	for _, t := range r.list.order {
		f.thread(t)
	}
	slices.Sort(f.found)
	f.found = slices.Compact(f.found)
	if len(f.found) > maxSuspended {
		f.found, f.cut = f.found[:maxSuspended], true
	}
	out := sampler.Fibers{AtNS: r.serving.lookNS}
	r.serving.finder.Unbounded(func() {
		for _, addr := range f.found {
			if f.active[addr] || ctx.Err() != nil {
				continue
			}
			if fiber, ok := r.read(&f.fiberPlaces, addr); ok {
				out.List = append(out.List, fiber)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return sampler.Fibers{}, err
	}
	out.Cut, out.ReadNS = f.cut, r.now()-begin
	return out, nil
}

// thread records which fibers of a thread are active, and adds the thread's first fiber to the found fibers. The search
// of the heap would miss the first fiber, because its Ruby object exists only after the program has asked for it.
func (f *fiberFinder) thread(t *thread) {
	if t.stack.ec == 0 {
		return
	}
	active, _ := f.activeFibers(t.stack.ec)
	for _, fiber := range active {
		f.active[fiber] = true
	}
	if root := f.firstFiber(t); root != 0 {
		f.found = append(f.found, root)
	}
}

// page adds the fibers on a page of the heap to found. size is the size of a slot. more is false if found is full.
func (f *fiberFinder) page(page attach.Range, size int) (more bool) {
	objects := &f.o.Objects
	for at := 0; at+size <= len(page.Buf); at += size {
		slot, addr := page.Buf[at:at+size], page.Addr+attach.Address(at)
		if typ, ok := objects.DataType(slot); !ok || !f.isFiber(typ, uint64(addr)) {
			continue
		}
		fiber := objects.Data(addr, slot)
		if fiber == 0 {
			continue // skip a Fiber object that is not initialized yet
		}
		if len(f.found) >= maxSuspended {
			f.cut = true
			return false
		}
		f.found = append(f.found, fiber)
	}
	return true
}

// isFiber reports whether typ is the data type of fibers. value is an object of this type.
func (f *fiberFinder) isFiber(typ attach.Address, value uint64) bool {
	is, known := f.types[typ]
	if !known {
		name := f.dec.Objects.DataTypeName(value)
		is = name == fiberType
		if name != "" && len(f.types) < maxDataTypes { // an object that changed during the read has no name
			f.types[typ] = is
		}
	}
	return is
}

// read reads a fiber's stack. ok is false if the fiber is not suspended, or is no fiber.
func (r *fiberReader) read(f *fiberPlaces, addr attach.Address) (out sampler.Fiber, ok bool) {
	ec := r.contextOf(addr)
	own := link{ec + attach.Address(r.o.ECFiber), addr}
	for range maxStackTries {
		buf := make([]byte, max(f.status.Offset+8, r.o.FiberSavedEC+r.o.ECThread+8, r.o.FiberSavedEC+r.o.ECFiber+8))
		if r.mem.Read(addr, buf) != nil {
			return out, false
		}
		context := buf[r.o.FiberSavedEC:]
		t := r.list.threads[attach.Address(le64(context[r.o.ECThread:]))]
		status := f.status.In(buf)
		if t == nil || status != f.suspended && status != f.created || attach.Address(le64(context[r.o.ECFiber:])) != addr {
			return out, false
		}
		out = sampler.Fiber{Thread: t.id, Created: status == f.created}
		if out.Created {
			return out, true
		}
		// a fiber of another thread may reuse the memory
		links := []link{own, {ec + attach.Address(r.o.ECThread), t.addr}}
		if out.Stack, ok = r.fiberStack(t, ec, links); ok {
			out.Serving = r.fiberServing(ec, links)
			return out, true
		}
	}
	return out, out.Thread != 0
}
