package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// TracerType and TracePointType are the data types of two kinds of objects that lead to the records of allocations
// (docs/internals/gc.md#where-objects-were-allocated). The object of TracerType exists from the first call of
// ObjectSpace.trace_object_allocations_start on. It neither moves nor ends. Ruby 2.7 has no such object. Instead, the
// TracePoint for new objects leads to the records.
const (
	TracerType     = "ObjectTracing/allocation_info_tracer"
	TracePointType = "tracepoint"
)

// These are offsets in three structs: traceobj_arg (ext/objspace/object_tracing.c), the rb_tp_t of a TracePoint of 2.7
// (vm_trace.c), and allocation_info (ext/objspace/objspace.h). Except in the rb_tp_t, they are the same from 2.7 to
// 4.0.
const (
	tracerRunning = 0
	tracerPoint   = 8
	tracerTable   = 24
	tracerSize    = 32

	pointEvents = 0
	pointActive = 4
	pointData   = 32
	pointSize   = 40
	newObject   = 0x100000 // RUBY_INTERNAL_EVENT_NEWOBJ, the only event of the TracePoint

	// These are offsets in an st_table (st.h).
	tablePower    = 0
	tableRebuilds = 4
	tableCount    = 16

	allocationLiving     = 0
	allocationFlags      = 8
	allocationClass      = 16
	allocationPath       = 24
	allocationLine       = 32
	allocationClassPath  = 40
	allocationMethod     = 48
	allocationGeneration = 56
	// AllocationSize is the size of an allocation_info in bytes.
	AllocationSize = 64
	// TracedEntrySize is the size of an entry of the tracer's table in bytes.
	TracedEntrySize = tableEntrySize
)

// maxPath bounds the length of the path of a file, in bytes. It is Linux's own limit (PATH_MAX).
const maxPath = 4096

// maxLine bounds a line number. A larger number means that the bytes are not an allocation_info.
const maxLine = 1 << 31

// A Site is a place in code that allocated objects, as addresses in the target. Two sites are the same if all their
// words are equal.
type Site struct {
	path, classPath attach.Address
	method          uint64
	line            uint64
}

// An Allocation is what the target's tracer recorded when an object was allocated.
type Allocation struct {
	// Type is the object's type. Class is the word that refers to its class, or zero for a hidden object.
	Type, Class uint64
	// Generation is the number of collections that had run before the allocation.
	Generation uint64
	Site       Site
}

// ParseAllocation reads an allocation_info of AllocationSize bytes. ok is false in three cases: the bytes are not
// valid, the object was freed, or Ruby did not know which code allocated it.
func ParseAllocation(b []byte) (a Allocation, ok bool) {
	a = Allocation{Type: view.U64(b[allocationFlags:]) & TypeMask, Class: view.U64(b[allocationClass:]),
		Generation: view.U64(b[allocationGeneration:]),
		Site: Site{path: attach.Address(view.U64(b[allocationPath:])),
			classPath: attach.Address(view.U64(b[allocationClassPath:])),
			method:    view.U64(b[allocationMethod:]), line: view.U64(b[allocationLine:])}}
	return a, view.U32(b[allocationLiving:]) == 1 && a.Site.path != 0 && a.Site.line < maxLine
}

// TracedTable returns the address of the table of traced objects. tracer is the address of an object of TracerType or
// TracePointType. ok is false if the TracePoint traces something else, or if the target does not trace now. In the
// second case the table of an earlier trace may still exist. It must not be read, because it has entries of freed
// objects.
func (o *Objects) TracedTable(tracer attach.Address) (table attach.Address, ok bool) {
	err := o.Read(func() error {
		ok = false
		name, err := o.dataTypeName(uint64(tracer))
		if err != nil {
			return err
		}
		header, err := o.View.Bytes(tracer, DataHeader)
		if err != nil {
			return err
		}
		at := o.places.Data(tracer, header)
		switch name {
		case TracerType:
		case TracePointType:
			b, err := o.View.Bytes(at, pointSize)
			if err != nil || view.U32(b[pointEvents:]) != newObject || view.U32(b[pointActive:]) == 0 {
				return err
			}
			at = attach.Address(view.U64(b[pointData:]))
		default:
			return nil
		}
		b, err := o.View.Bytes(at, tracerSize)
		if err != nil {
			return err
		}
		// The data of the right TracePoint is a traceobj_arg, which refers back to the TracePoint. The data of another
		// library's TracePoint does not refer back.
		mine := name == TracerType || view.U64(b[tracerPoint:]) == uint64(tracer)
		table, ok = attach.Address(view.U64(b[tracerTable:])), mine && int32(view.U32(b[tracerRunning:])) > 0
		return nil
	})
	return table, ok && err == nil
}

// TracedEntries is the head of the tracer's table. It says where the table's entries are.
type TracedEntries struct {
	// At is the address of the entries. Start is the index of the first entry, and Bound the index after the last
	// entry.
	At           attach.Address
	Start, Bound uint64
	// count is the number of entries that are not deleted. room is the number of entries that the table has memory for.
	count, room uint64
	rebuilds    uint32
}

// TracedEntries reads the head of the tracer's table.
func (o *Objects) TracedEntries(table attach.Address) (e TracedEntries, err error) {
	err = o.Read(func() error {
		p := o.places
		b, err := o.View.Bytes(table, max(p.tableStart, p.tableBound, p.tableEntries, tableCount)+8)
		if err == nil {
			e = TracedEntries{At: attach.Address(view.U64(b[p.tableEntries:])), Start: view.U64(b[p.tableStart:]),
				Bound: view.U64(b[p.tableBound:]), count: view.U64(b[tableCount:]), room: 1 << (b[tablePower] & 63),
				rebuilds: view.U32(b[tableRebuilds:])}
		}
		return err
	})
	return e, err
}

// Stayed reports whether each entry has kept its place since an earlier reading of the head, which is the parameter
// before. Ruby rebuilds a full table (rebuild_table, st.c). It copies the entries to new memory, or moves them to the
// front of the same memory. Behind the new end, old entries of freed objects can then remain. A rebuild in the same
// memory sets the count to zero first, and the bound and the number of rebuilds last. So if the table is full, Stayed
// also compares the count.
func (e TracedEntries) Stayed(before TracedEntries) bool {
	return e.At == before.At && e.rebuilds == before.rebuilds && e.Bound >= before.Bound &&
		(e.Bound < e.room || e.count == before.count)
}

// ParseTracedEntry reads an entry of the tracer's table, which has the addresses of an object and of its
// allocation_info. ok is false if the entry was deleted or is invalid.
func (o *Objects) ParseTracedEntry(b []byte) (object, info attach.Address, ok bool) {
	object, info = attach.Address(view.U64(b[8:])), attach.Address(view.U64(b[16:]))
	ok = view.U64(b) != deletedEntry && o.IsObject(uint64(object)) && info != 0 && info%8 == 0 && info < 1<<56
	return object, info, ok
}

// SiteText reads the path of a site's file, its line, and its method with the class, such as "Class#new". method is
// empty if the code is in no method. The target keeps these strings only while it traces at least one object of the
// site.
func (o *Objects) SiteText(s Site) (path string, line int, method string, err error) {
	err = o.Read(func() (err error) {
		if path, err = o.cString(s.path, maxPath); err != nil || s.method == o.places.Nil {
			return err
		}
		name, err := o.SymbolName(s.method)
		if err == nil && s.classPath != 0 {
			var class string
			class, err = o.cString(s.classPath, maxPath)
			name = class + "#" + name
		}
		if err == nil {
			method = name
		} else if err == view.ErrMissing {
			return err
		}
		return nil
	})
	return path, int(s.line), method, err
}

// DataType returns the type of a T_DATA object, as Places.DataType does.
func (o *Objects) DataType(header []byte) (typ attach.Address, ok bool) {
	return o.places.DataType(header)
}
