// Package census counts the objects on the pages of Ruby's heap by type and class, while the target runs on
// (docs/internals/gc.md#counting-objects). It reads the slots of all objects. Of the memory outside the slots it reads
// only class names and the sizes of Hash tables.
package census

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit a pass over the heap.
const (
	// maxPasses limits the number of passes over the heap. Another pass is needed if the target moved objects during
	// the last pass.
	maxPasses = 4
	// maxTables limits how many tables of Hashes are read with one system call. Up to Ruby 3.2 a Hash can keep its
	// elements in a table outside its slot. A page of the heap has 408 slots.
	maxTables = 1024
	// namesAPiece is how many names of classes are read before the caller can pause (the parameter rest of Count).
	namesAPiece = 256
)

// Counter counts the objects of one VM.
type Counter struct {
	gc      *gc.Reader
	mem     attach.Memory
	objects *heap.Objects
	sizes   *heap.Sizer
	now     func() int64

	words  wordTable
	types  [heap.TypeMask + 1]sampler.HeapKind
	hidden [heap.TypeMask + 1]sampler.HeapKind // objects without a class
	slots  map[int]*sampler.HeapSize
	out    sampler.HeapCount
	tables []tableOf
	ranges []attach.Range
	buf    []byte

	tracer tracer
	// While a pass runs, traced has the records of where objects were allocated. It is nil if the target does not trace
	// allocations. records is a buffer for reading the records. collections is how often the collector had run when the
	// pass ended.
	traced      *traced
	records     []byte
	collections uint64
}

// tableOf is a Hash's table whose size must still be read. The size is added to two counts: typ counts the objects of
// the Hash's type, and class the objects of its class. traced is the index of the Hash's allocation record, or -1.
type tableOf struct {
	at         attach.Address
	typ, class *sampler.HeapKind
	traced     int
}

// New returns a Counter of the VM that g reads. It fails if g is nil, or if ddtop does not know the heap of this Ruby
// release.
func New(g *gc.Reader) (*Counter, error) {
	if g == nil {
		return nil, gc.ErrNoHeap
	}
	sizes := g.Objects.NewSizer(g.Release)
	if sizes == nil {
		return nil, fmt.Errorf("the heap of Ruby %s is not known: ddtop counts objects of 2.7 to 4.0", g.Release)
	}
	return &Counter{gc: g, mem: g.Mem, objects: g.Objects, sizes: sizes, now: g.Now}, nil
}

// Count makes a pass over all pages of the heap. It calls the function rest after each piece, so that the caller can
// spread the cost over time. If a compaction moved objects during the pass, Count repeats it. Errors are from ctx, from
// the target, or from reading the list of pages.
func (c *Counter) Count(ctx context.Context, rest func()) (*sampler.HeapCount, error) {
	for try, looks := 0, 0; ; try++ {
		if err := c.readTraced(ctx, rest); err != nil {
			return nil, err
		}
		moved, err := c.pass(ctx, rest)
		if err != nil {
			return nil, err
		}
		if c.findTracer() && looks < maxLooks { // the next pass can use the records
			try, looks = try-1, looks+1
			continue
		}
		if c.out.Compacted = moved; !moved || try == maxPasses-1 {
			c.out.Repeated = try
			break
		}
	}
	if err := c.finish(ctx, rest); err != nil {
		return nil, err
	}
	out := c.out
	out.EndedNS = c.now()
	return &out, nil
}

var errNoFigures = errors.New("the collector's figures cannot be read")

// pass counts the objects of the whole heap once. moved is true if the target may have moved objects during the pass.
func (c *Counter) pass(ctx context.Context, rest func()) (moved bool, err error) {
	c.reset()
	c.out.BeganNS = c.now()
	state, before, ok := c.gc.Figures()
	if !ok {
		return false, errNoFigures
	}
	c.out.Collections, c.out.Majors, c.out.Marking = state.Count, state.MajorCount, state.Mode == sampler.GCMarking
	c.out.SurvivedKnown = true
	list, cut, err := c.gc.AllPages(ctx)
	if err != nil {
		return false, err
	}
	c.out.Cut = cut
	for chunk := range slices.Chunk(list, gc.PagesAPiece) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		skipped, err := c.gc.Whole(chunk, c.page)
		if err == nil {
			err = c.readTables()
		}
		if err != nil {
			return false, err
		}
		c.out.Skipped += skipped
		rest()
	}
	state, after, ok := c.gc.Figures()
	c.collections = state.Count
	return !ok || before.Compacting || after.Compacting || before.Compactions != after.Compactions, nil
}

func (c *Counter) reset() {
	c.words.reset()
	c.types, c.hidden = [heap.TypeMask + 1]sampler.HeapKind{}, [heap.TypeMask + 1]sampler.HeapKind{}
	c.slots = make(map[int]*sampler.HeapSize)
	c.out = sampler.HeapCount{}
	c.objects.Renew()
}

// page counts the objects of a page.
func (c *Counter) page(p *gc.Page) {
	c.out.Pages++
	size := uint64(p.SlotSize)
	var objects, dead, free uint64
	for at := 0; at+p.SlotSize <= len(p.Slots); at += p.SlotSize {
		slot := p.Slots[at : at+p.SlotSize]
		flags := view.U64(slot)
		typ := flags & heap.TypeMask
		if typ == heap.TypeNone || typ == heap.TypeMoved || typ == heap.TypeZombie {
			free++
			continue
		}
		if p.Dead(at) {
			dead++
			continue
		}
		objects++
		add := sampler.HeapKind{Objects: 1, SlotBytes: size}
		if flags&c.sizes.Old == c.sizes.Old {
			add.Old = 1
		} else if p.Survived(at, flags) {
			add.Survived = 1
		}
		kind := &c.types[typ]
		var class *sampler.HeapKind
		switch word := view.U64(slot[heap.BasicClass:]); {
		case typ >= heap.TypeImemo || heap.CarriesClasses(typ):
		case word == 0:
			class = &c.hidden[typ]
		default:
			class = c.words.kind(word)
		}
		if typ == heap.TypeData {
			if t, ok := c.objects.DataType(slot); ok {
				c.tracer.see(t, p.Start+attach.Address(at))
			}
		}
		own := c.sizes.Of(slot)
		add.OtherBytes = own.Bytes
		if own.Unknown {
			add.Unsized = 1
		}
		kind.Add(&add)
		if class != nil {
			class.Add(&add)
		}
		record := -1
		if c.traced != nil {
			word := view.U64(slot[heap.BasicClass:])
			record = c.traced.meet(p.Start+attach.Address(at), typ, c.kindOf(class, typ), word, size+own.Bytes)
		}
		if own.Table != 0 {
			c.tables = append(c.tables, tableOf{own.Table, kind, class, record})
		}
	}
	c.out.Objects += objects
	c.out.Dead += dead
	c.out.Free += free
	s := c.slots[p.SlotSize]
	// this is the first page with this slot size. There are few slot sizes, because none is larger than maxSlotSize
	if s == nil {
		s = &sampler.HeapSize{SlotSize: p.SlotSize}
		c.slots[p.SlotSize] = s
	}
	s.Page(objects+dead+free, objects+dead)
}

// kindOf returns the index of the counts of a class in the wordTable. If the class is not in the wordTable, kindOf
// returns kindByType, kindHidden or kindOthers.
func (c *Counter) kindOf(class *sampler.HeapKind, typ uint64) int {
	switch {
	case class == nil:
		return kindByType
	case class == &c.hidden[typ]:
		return kindHidden
	case class == &c.words.others:
		return kindOthers
	}
	return c.words.last // class is not special, so it comes from the last call of kind, and last is its index
}

// readTables reads the tables that the Hashes of the last piece keep outside their slots. It adds their sizes to the
// counts.
func (c *Counter) readTables() error {
	defer func() { c.tables = c.tables[:0] }()
	if c.buf == nil && len(c.tables) > 0 {
		c.buf = make([]byte, maxTables*heap.TableSize)
	}
	for chunk := range slices.Chunk(c.tables, maxTables) {
		c.ranges = c.ranges[:0]
		for i, t := range chunk {
			c.ranges = append(c.ranges, attach.Range{Addr: t.at, Buf: c.buf[i*heap.TableSize:][:heap.TableSize]})
		}
		if err := c.readRanges(c.ranges); err != nil {
			return err
		}
		for i, t := range chunk {
			own := heap.Own{Unknown: true}
			if !c.ranges[i].Failed {
				own = c.sizes.Table(c.ranges[i].Buf)
			}
			if t.traced >= 0 {
				c.traced.list[t.traced].bytes += own.Bytes
			}
			for _, kind := range [...]*sampler.HeapKind{t.typ, t.class} {
				if kind == nil {
					continue
				}
				kind.OtherBytes += own.Bytes
				if own.Unknown {
					kind.Unsized++
				}
			}
		}
	}
	return nil
}
