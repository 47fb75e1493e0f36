package census

import (
	"cmp"
	"context"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// These constants limit the reading of the records of the target's allocation tracer. The tracer is Ruby's library
// objspace. It makes one record for each object.
const (
	// maxTraced limits the number of objects whose records are read. Each takes 60 bytes in ddtop.
	maxTraced = 1 << 21
	// maxWalked limits how many entries of the tracer's table are read, including deleted entries.
	maxWalked = 2 * maxTraced
	// maxSites limits how many different places of allocation are kept.
	maxSites = 1 << 16
	// maxTypes limits how many types of T_DATA objects (objects with data of C code) are examined. Ruby and its gems
	// have a few hundred such types.
	maxTypes = 1 << 12
	// tracedAPiece is how many entries of the tracer's table are read at a time. After each piece, ddtop calls a
	// function of the caller, which may pause.
	tracedAPiece = 1 << 14
	// maxPoints limits how many TracePoints are examined. maxLooks limits how often a pass over the heap is repeated
	// because it found something useful. The first find is the type of TracePoints, and the second is the tracer.
	maxPoints, maxLooks = 64, 2
	// walks limits how often ddtop begins to read the tracer's table. It begins again if the target has rebuilt the
	// table during the reading. The last of these readings do not pause, so that they end before the next rebuild. The
	// constant hurried is their number.
	walks, hurried = 6, 3
	// maxGap is the largest gap in bytes between two records that are read together, as one range. malloc puts records
	// next to each other, so one range holds hundreds of records. maxRecords limits the size of a range, in bytes.
	maxGap, maxRecords = 512, 1 << 16
)

// These values take the place of an index of counts if the class of an object has no entry in the wordTable.
const (
	kindByType = -1 - iota // a class, a module, or an object of Ruby's own
	kindHidden             // an object without a class
	kindOthers             // an object whose class had no room in the wordTable
)

// tracer finds the records of the target's allocation tracer. Its zero value has not found them yet.
type tracer struct {
	// at is the address of the tracer's object, or zero while the object is not found.
	at attach.Address
	// types are the types of T_DATA objects (objects with data of C code) that passes have found. fresh are the types
	// that findTracer must still examine. objects has one object of each type in fresh.
	types          map[attach.Address]bool
	fresh, objects []attach.Address
	last           attach.Address
	// In some releases, ddtop finds the tracer through a TracePoint. pointType is then the type of TracePoint objects,
	// and otherwise zero. points are the TracePoints that the last pass found.
	pointType attach.Address
	points    []attach.Address
}

// see is called for each T_DATA object (an object with data of C code) that a pass finds. It notes the object's address
// if the object's type is new, or if the object is a TracePoint.
func (t *tracer) see(typ, object attach.Address) {
	if typ == t.pointType && t.at == 0 && len(t.points) < maxPoints {
		t.points = append(t.points, object)
	}
	if typ == t.last || t.types[typ] || len(t.types) >= maxTypes {
		return
	}
	if t.types == nil {
		t.types = make(map[attach.Address]bool)
	}
	t.last, t.types[typ] = typ, true
	t.fresh, t.objects = append(t.fresh, typ), append(t.objects, object)
}

// findTracer searches for the tracer among the objects that the last pass has noted (see). again is true if it found a
// tracer that has records now, or the type of the TracePoints that can lead to the tracer. The caller then repeats the
// pass.
func (c *Counter) findTracer() (again bool) {
	t := &c.tracer
	names := c.objects.TypeNames(t.fresh)
	// the tracer's object remains even if the target stops tracing
	if i := slices.Index(names, heap.TracerType); i >= 0 {
		t.at = t.objects[i]
		_, again = c.objects.TracedTable(t.at)
	}
	if i := slices.Index(names, heap.TracePointType); i >= 0 && !c.gc.Release.AtLeast(3, 1) {
		t.pointType, again = t.fresh[i], true
	}
	for _, point := range t.points {
		if _, ok := c.objects.TracedTable(point); ok {
			t.at, again = point, true
		}
	}
	t.fresh, t.objects, t.points = nil, nil, nil
	return again
}

// tracedObject is the tracer's record of an object. seen is true if a pass over the heap found the object. In this case
// bytes is the object's size, and kind is the index of the counts of its class. fits is true if record and object have
// the same class. stays is true if the tracer still had the same record after the pass.
type tracedObject struct {
	object, info      attach.Address
	class, generation uint64
	bytes             uint64
	site, kind        int32
	typ               uint8
	seen, fits, stays bool
}

// traced has the records of Ruby's allocation tracer (objspace), which say where objects were allocated. They are read
// before each pass over the heap. find looks up the record of an object by the object's address.
type traced struct {
	table attach.Address
	list  []tracedObject
	// places is a hash table from the address of an object to its record. An element is 0 if it is free. Otherwise it
	// is 1 + an index of list. The number of elements is a power of two.
	places []int32
	shift  int
	sites  []heap.Site
	siteOf map[heap.Site]int32
	cut    bool
	// closed is true while confirm reads the records a second time. Then the method site adds no new sites.
	closed bool
}

const hashFactor = 0x9e3779b97f4a7c15

// find returns the index of the record of an object, or -1.
func (t *traced) find(object attach.Address) int {
	if len(t.list) == 0 {
		return -1
	}
	at := uint64(object) * hashFactor >> t.shift
	for ; t.places[at] != 0; at = (at + 1) & uint64(len(t.places)-1) {
		if i := int(t.places[at] - 1); t.list[i].object == object {
			return i
		}
	}
	return -1
}

// index fills the hash table in the field places. If an object has several records, the last one counts.
func (t *traced) index() {
	size := 1 << 4
	t.shift = 64 - 4
	for size < 2*len(t.list) {
		size, t.shift = 2*size, t.shift-1
	}
	t.places = make([]int32, size)
	for i := range t.list {
		at := uint64(t.list[i].object) * hashFactor >> t.shift
		for t.places[at] != 0 && t.list[t.places[at]-1].object != t.list[i].object {
			at = (at + 1) & uint64(size-1)
		}
		t.places[at] = int32(i + 1)
	}
}

// site returns the index of a site (a place of allocation). It returns -1 if the site is new and cannot be added.
func (t *traced) site(s heap.Site) int32 {
	i, known := t.siteOf[s]
	if !known {
		if t.closed {
			return -1
		}
		if len(t.sites) == maxSites {
			t.cut = true
			return -1
		}
		i = int32(len(t.sites))
		t.sites, t.siteOf[s] = append(t.sites, s), i
	}
	return i
}

// readTraced reads the tracer's records before a pass over the heap, and stores them in c.traced. It sets c.traced to
// nil if the target does not trace allocations. The error is from ctx or from reading the target.
func (c *Counter) readTraced(ctx context.Context, rest func()) error {
	c.traced = nil
	if c.tracer.at == 0 {
		return nil
	}
	table, ok := c.objects.TracedTable(c.tracer.at)
	if !ok {
		if c.tracer.pointType != 0 { // a TracePoint can move or end, so search for the tracer again
			c.tracer.at = 0
		}
		return nil
	}
	t := &traced{table: table, siteOf: make(map[heap.Site]int32)}
	whole, err := c.walkTraced(ctx, t, rest, func() {
		t.list, t.sites, t.cut = t.list[:0], t.sites[:0], false
		clear(t.siteOf)
	}, func(piece []tracedObject) bool {
		t.list = append(t.list, piece[:min(len(piece), maxTraced-len(t.list))]...)
		return len(t.list) < maxTraced
	})
	if err != nil {
		return err
	}
	t.cut = t.cut || !whole
	t.index()
	c.traced = t
	return nil
}

// walkTraced reads the tracer's table. It calls the function begin first. Then it calls the function take with the
// records of each piece. take returns false to end the reading. If the target rebuilds the table during the reading,
// walkTraced begins again. The constant walks limits how often. whole is false if the last try did not reach the end of
// the table.
func (c *Counter) walkTraced(ctx context.Context, t *traced, rest, begin func(),
	take func([]tracedObject) bool) (whole bool, err error) {
	for walk := range walks {
		if walk == walks-hurried {
			rest = func() {}
		}
		begin()
		if end, whole, err := c.walkOnce(ctx, t, rest, take); end || err != nil {
			return whole, err
		}
	}
	return false, nil
}

// walkOnce reads the tracer's table once. The result end is false if the target rebuilt the table during the reading.
// In this case the function take got only a part of the records, and the caller must try again. The result whole is
// true if walkOnce reached the end of the table.
func (c *Counter) walkOnce(ctx context.Context, t *traced, rest func(),
	take func([]tracedObject) bool) (end, whole bool, err error) {
	first, err := c.objects.TracedEntries(t.table)
	if err != nil {
		return true, false, nil
	}
	var piece []tracedObject
	for next := first.Start; ; {
		if err := ctx.Err(); err != nil {
			return false, false, err
		}
		now, err := c.objects.TracedEntries(t.table)
		if err != nil || !now.Stayed(first) {
			return false, false, nil
		}
		if !take(piece) {
			return true, false, nil
		}
		n := min(now.Bound-min(next, now.Bound), tracedAPiece)
		if n == 0 || next-first.Start >= maxWalked {
			return true, n == 0, nil
		}
		piece, err = c.readEntries(t, first.At+attach.Address(next*heap.TracedEntrySize), int(n))
		if err != nil {
			return false, false, err
		}
		if piece == nil {
			now, err := c.objects.TracedEntries(t.table)
			return err != nil || now.Stayed(first), false, nil
		}
		next += n
		rest()
	}
}

// readEntries returns the records of n entries of the tracer's table. The first entry is at the address at. readEntries
// leaves out an entry that changed while its record was read, because the record may then belong to another object. The
// result is nil if the entries cannot be read.
func (c *Counter) readEntries(t *traced, at attach.Address, n int) ([]tracedObject, error) {
	size := n * heap.TracedEntrySize
	buf := make([]byte, 2*size)
	before, behind := []attach.Range{{Addr: at, Buf: buf[:size]}}, []attach.Range{{Addr: at, Buf: buf[size:]}}
	if err := c.readRanges(before); err != nil || before[0].Failed {
		return nil, err
	}
	list, entryOf := make([]tracedObject, 0, n), make([]int, 0, n)
	for i := range n {
		object, info, ok := c.objects.ParseTracedEntry(buf[i*heap.TracedEntrySize:][:heap.TracedEntrySize])
		if ok {
			list, entryOf = append(list, tracedObject{object: object, info: info, site: -1}), append(entryOf, i)
		}
	}
	err := c.readRecords(list, func(i int, b []byte) {
		if a, ok := heap.ParseAllocation(b); ok {
			o := &list[i]
			o.typ, o.class, o.generation, o.site = uint8(a.Type), a.Class, a.Generation, t.site(a.Site)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := c.readRanges(behind); err != nil || behind[0].Failed {
		return nil, err
	}
	kept := list[:0]
	for i := range list {
		e := entryOf[i] * heap.TracedEntrySize
		if list[i].site >= 0 && string(buf[e:e+heap.TracedEntrySize]) == string(buf[size+e:][:heap.TracedEntrySize]) {
			kept = append(kept, list[i])
		}
	}
	return kept, nil
}

// readRecords calls f for each object in list whose record can be read. b is the record, and i the object's index in
// list. Records that are close in memory are read together.
func (c *Counter) readRecords(list []tracedObject, f func(i int, b []byte)) error {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(list[a].info, list[b].info) })
	var ranges []attach.Range
	var firsts, sizes []int // for each range: the index of its first object in the slice order, and its size in bytes
	total := 0
	for n, i := range order {
		info := list[i].info
		if last := len(ranges) - 1; last >= 0 {
			behind := info - ranges[last].Addr
			if behind <= maxRecords-heap.AllocationSize && int(behind) <= sizes[last]+maxGap {
				size := max(int(behind)+heap.AllocationSize, sizes[last])
				total += size - sizes[last]
				sizes[last] = size
				continue
			}
		}
		ranges, firsts = append(ranges, attach.Range{Addr: info}), append(firsts, n)
		sizes = append(sizes, heap.AllocationSize)
		total += heap.AllocationSize
	}
	if cap(c.records) < total {
		c.records = make([]byte, total)
	}
	buf := c.records[:total]
	for k := range ranges {
		ranges[k].Buf, buf = buf[:sizes[k]:sizes[k]], buf[sizes[k]:]
	}
	if err := c.readRanges(ranges); err != nil {
		return err
	}
	for k := range ranges {
		end := len(order)
		if k+1 < len(firsts) {
			end = firsts[k+1]
		}
		some := order[firsts[k]:end]
		if ranges[k].Failed {
			if err := c.readApart(list, some, f); err != nil {
				return err
			}
			continue
		}
		for _, i := range some {
			f(i, ranges[k].Buf[list[i].info-ranges[k].Addr:][:heap.AllocationSize])
		}
	}
	return nil
}

// readApart reads the records of some objects in list one by one. The parameter some has the indexes of these objects.
// It is called if these records could not be read together, because memory between them cannot be read.
func (c *Counter) readApart(list []tracedObject, some []int, f func(i int, b []byte)) error {
	ranges := make([]attach.Range, len(some))
	buf := make([]byte, len(some)*heap.AllocationSize)
	for k, i := range some {
		ranges[k] = attach.Range{Addr: list[i].info, Buf: buf[k*heap.AllocationSize:][:heap.AllocationSize]}
	}
	if err := c.readRanges(ranges); err != nil {
		return err
	}
	for k, i := range some {
		if !ranges[k].Failed {
			f(i, ranges[k].Buf)
		}
	}
	return nil
}

// readRanges reads ranges, and counts the calls.
func (c *Counter) readRanges(ranges []attach.Range) error {
	calls, err := c.mem.ReadBatch(ranges)
	c.gc.Reads.Calls += uint64(calls)
	return err
}

// meet notes that a pass has found an object. kind is the index of the counts of its class, class is its class word,
// and bytes is its size. meet returns the index of the object's record, or -1 if it has no record.
func (t *traced) meet(object attach.Address, typ uint64, kind int, class, bytes uint64) int {
	i := t.find(object)
	if i < 0 || t.list[i].typ != uint8(typ) {
		return -1
	}
	o := &t.list[i]
	o.seen, o.kind, o.bytes = true, int32(kind), bytes
	// The class in the record may be 0, because an object can get its class after the record was made. An object
	// without a class (kindHidden) fits any record.
	o.fits = kind == kindByType || kind == kindHidden || o.class == class || o.class == 0
	return i
}

// confirm notes which objects of the last pass still have the same record in the tracer's table. Such an object existed
// during the whole pass, because a new object at its address would have another record. It is not enough to read only
// the record again, without the table. The memory of a freed record can keep its content for a long time.
func (c *Counter) confirm(ctx context.Context, rest func()) error {
	t := c.traced
	t.closed = true
	whole, err := c.walkTraced(ctx, t, rest, func() {}, func(piece []tracedObject) bool {
		for i := range piece {
			is := &piece[i]
			if at := t.find(is.object); at >= 0 {
				was := &t.list[at]
				was.stays = was.stays || was.typ == is.typ && was.class == is.class && was.generation == is.generation &&
					was.site == is.site
			}
		}
		return true
	})
	t.cut = t.cut || !whole
	return err
}

// placeObjects counts the objects of the last pass by class and place of allocation. classOf returns the name of a
// class from the values kind and typ of a tracedObject.
func (c *Counter) placeObjects(ctx context.Context, rest func(), classOf func(kind int32, typ uint8) string) error {
	t := c.traced
	if t == nil {
		return nil
	}
	// Read the strings now, before confirm reads the records again. If a record still exists then, its strings existed
	// until then, too.
	type text struct {
		path, method string
		line         int
	}
	texts := make([]text, len(t.sites))
	for i, s := range t.sites {
		if path, line, method, err := c.objects.SiteText(s); err == nil {
			texts[i] = text{path, method, line}
		}
		if i%namesAPiece == namesAPiece-1 {
			rest()
		}
	}
	if err := c.confirm(ctx, rest); err != nil {
		return err
	}
	if table, ok := c.objects.TracedTable(c.tracer.at); !ok || table != t.table {
		c.traced = nil // the target has stopped tracing
		return nil
	}
	out := &sampler.HeapTraced{Cut: t.cut}
	type key struct {
		class string
		text
	}
	sums := make(map[key]*sampler.HeapPlace)
	for i := range t.list {
		o := &t.list[i]
		if !o.seen {
			continue
		}
		if !o.stays || texts[o.site].path == "" || o.generation > c.collections {
			out.Misfits++
			continue
		}
		class := classOf(o.kind, o.typ)
		// fits is also false for a singleton class, but then both classes have the same name
		if !o.fits && (o.kind < 0 || class != c.objects.NameOrKind(o.class)) {
			out.Misfits++
			continue
		}
		k := key{class, texts[o.site]}
		p := sums[k]
		if p == nil {
			p = &sampler.HeapPlace{Class: class, Path: k.path, Line: k.line, Method: k.method}
			sums[k] = p
		}
		p.Objects++
		p.Bytes += o.bytes
		out.Objects++
	}
	out.Places = make([]sampler.HeapPlace, 0, len(sums))
	for _, p := range sums {
		out.Places = append(out.Places, *p)
	}
	sorting.By(out.Places, func(a, b sampler.HeapPlace) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Method, b.Method))
	})
	out.Places = out.Places[:min(len(out.Places), sampler.MaxHeapPlaces)]
	c.out.Traced, c.traced, c.records = out, nil, nil
	return nil
}
