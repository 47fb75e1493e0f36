// Package holders copies the objects of a running Ruby, and the references between them, into a heapgraph.Graph
// (docs/internals/gc.md#references). It does not stop the target.
package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit a copy of the heap.
const (
	// maxPasses limits how often the heap is copied. It is copied again if the target moved objects during the copy.
	maxPasses = 3
	// granule is the base-2 logarithm of the size of the smallest heap pages, which have 16 KiB.
	granule = 14
	// blocksAtOnce is how many blocks (heap.Block) are collected before they are read. rangesACall limits how many
	// ranges one system call reads, and bytesACall limits how many bytes.
	blocksAtOnce, rangesACall, bytesACall = 1 << 16, 1024, 4 << 20
	// maxTries limits how many objects ddtop tries in its search for the global table of instance variables. The table
	// has an entry for each of these objects.
	maxTries = 8
	// maxContent is the length of the longest Strings whose contents are compared, in bytes.
	maxContent = 4 << 10
)

// Reader copies the heap of one Ruby VM.
type Reader struct {
	gc      *gc.Reader
	objects *heap.Objects
	sizes   *heap.Sizer
	refs    *heap.References
	options sampler.HolderOptions
	rest    func()
	ctx     context.Context

	graph     *heapgraph.Graph
	pages     []page
	granules  map[uint64]int32
	classes   map[uint64]uint32
	read      uint64 // bytes copied
	tables    []uint32
	blocks    []heap.Block
	ranges    []attach.Range
	buf       []byte
	err       error
	tries     int
	info      sampler.HolderInfo
	types     [heap.TypeMask + 1]uint32
	unnamed   uint32
	anonymous uint32
}

// page is a copy of one page of the heap.
type page struct {
	start attach.Address
	size  int
	first uint32 // index in graph.Nodes of the page's first slot
	slots []byte
}

// tooLarge returns the error for a heap that exceeds a limit. flag is the command-line flag with which the user can
// raise the limit.
func tooLarge(n uint64, what, flag string) error {
	return fmt.Errorf("the heap has more than %d %s. Give a higher limit with %s", n, what, flag)
}

// Read copies the heap of the VM that g reads. It calls the function rest after each piece of work, so that the caller
// can pause. It returns an error if ctx ends, if the target or its heap cannot be read, or if the heap exceeds a limit.
func Read(ctx context.Context, g *gc.Reader, o sampler.HolderOptions, rest func()) (*heapgraph.Graph, sampler.HolderInfo, error) {
	if g == nil {
		return nil, sampler.HolderInfo{}, gc.ErrNoHeap
	}
	for try := 0; ; try++ {
		r := &Reader{gc: g, objects: g.Objects, sizes: g.Objects.NewSizer(g.Release), refs: g.Objects.NewReferences(g.Release), options: o, rest: rest, ctx: ctx, buf: make([]byte, bytesACall)}
		if r.sizes == nil || r.refs == nil {
			return nil, r.info, fmt.Errorf("the heap of Ruby %s is not known: ddtop reads objects of 2.7 to 4.0", g.Release)
		}
		moved, err := r.pass()
		// an exceeded limit may come from moved objects, so try again
		if err != nil && (!moved || r.err == nil || try == maxPasses-1) {
			return nil, r.info, err
		}
		if err != nil {
			continue
		}
		r.info.Compacted, r.info.Repeated = moved, try
		if !moved || try == maxPasses-1 {
			r.info.EndedNS = g.Now()
			return r.graph, r.info, nil
		}
	}
}

func (r *Reader) pass() (moved bool, err error) {
	r.graph, r.granules, r.classes = heapgraph.New(), make(map[uint64]int32), make(map[uint64]uint32)
	r.objects.Renew()
	r.info.BeganNS = r.gc.Now()
	_, before, ok := r.gc.Figures()
	if !ok {
		return false, errors.New("the collector's figures cannot be read")
	}
	if err = r.copy(); err == nil {
		err = r.walk()
	}
	_, after, ok := r.gc.Figures()
	return !ok || before.Compacting || after.Compacting || before.Compactions != after.Compactions, err
}

func (r *Reader) say(stage string, done, total int) {
	if r.options.Progress != nil {
		r.options.Progress(stage, done, total)
	}
	r.rest()
}

// copy copies the pages, and makes a node for each slot.
func (r *Reader) copy() error {
	list, cut, err := r.gc.AllPages(r.ctx)
	if err != nil {
		return err
	}
	r.info.Cut = cut
	done := 0
	for chunk := range slices.Chunk(list, gc.PagesAPiece) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		skipped, err := r.gc.Whole(chunk, r.page)
		if err == nil {
			err = r.err
		}
		if err != nil {
			return err
		}
		done += len(chunk)
		r.info.Skipped += skipped
		r.say("copying objects", done, len(list))
	}
	return nil
}

func (r *Reader) spend(n int) bool {
	if r.read += uint64(n); r.read > r.options.MaxBytes && r.err == nil {
		r.err = tooLarge(r.options.MaxBytes/1e6, "MB of objects and tables", "--max-memory")
	}
	return r.err == nil
}

func (r *Reader) page(p *gc.Page) {
	n := len(p.Slots) / p.SlotSize
	if !r.spend(len(p.Slots)) {
		return
	}
	g := r.graph
	slots := slices.Clone(p.Slots)
	first := uint32(len(g.Nodes))
	for at := 0; at+p.SlotSize <= len(slots); at += p.SlotSize {
		slot := slots[at : at+p.SlotSize]
		flags := view.U64(slot)
		typ := flags & heap.TypeMask
		var node heapgraph.Node
		// Garbage that waits to be swept also gets nodes, but no root reaches these nodes. The collector's marks would
		// show garbage. But on a page in use, they would also make some live objects look like garbage. So ignore the
		// marks.
		if typ != heap.TypeNone && typ != heap.TypeMoved && typ != heap.TypeZombie {
			own := r.sizes.Of(slot)
			node = heapgraph.Node{Addr: uint64(p.Start) + uint64(at), Size: uint64(p.SlotSize) + own.Bytes, Type: r.typeName(typ),
				Length: r.refs.Length(slot)}
			if own.Table != 0 {
				r.tables = append(r.tables, uint32(len(g.Nodes)))
			}
			if r.info.Objects++; r.info.Objects > r.options.MaxObjects && r.err == nil {
				r.err = tooLarge(r.options.MaxObjects, "objects", "--max-objects")
			}
		}
		g.Nodes = append(g.Nodes, node)
		if r.options.Facts {
			g.Facts = append(g.Facts, r.fact(slot, p.SlotSize))
		}
	}
	if len(g.Nodes) > heapgraph.MaxNodes && r.err == nil {
		r.err = fmt.Errorf("the heap has more than %d slots, which ddtop cannot number", heapgraph.MaxNodes)
	}
	index := int32(len(r.pages))
	r.pages = append(r.pages, page{p.Start, p.SlotSize, first, slots[:n*p.SlotSize]})
	for a := uint64(p.Start) >> granule; a <= (uint64(p.Start)+uint64(len(slots))-1)>>granule; a++ {
		r.granules[a] = index
	}
}

func (r *Reader) fact(slot []byte, size int) heapgraph.Fact {
	const frozen, noEmbed, embed = 1 << 11, 0x2000, 0x2000 // FL_FREEZE, STR_NOEMBED, RARRAY_EMBED_FLAG
	flags := view.U64(slot)
	f := heapgraph.Fact{Class: view.U64(slot[heap.BasicClass:]), SlotSize: uint32(size), Old: flags&r.sizes.Old == r.sizes.Old, Frozen: flags&frozen != 0}
	switch flags & heap.TypeMask {
	case heap.TypeString:
		f.Embedded = flags&noEmbed == 0
	case heap.TypeArray:
		f.Embedded = flags&embed != 0
	}
	return f
}

func (r *Reader) typeName(typ uint64) uint32 {
	if r.types[typ] == 0 {
		name := heap.TypeNames[typ]
		if name == "" {
			name = sampler.AllocUnknown
		}
		r.types[typ] = r.graph.Name(name)
	}
	return r.types[typ]
}

// find returns the index of the node of the object at an address, and the object's slot. ok is false if there is no
// object.
func (r *Reader) find(word uint64) (n uint32, slot []byte, ok bool) {
	if word&7 != 0 {
		return 0, nil, false
	}
	i, ok := r.granules[word>>granule]
	if !ok {
		return 0, nil, false
	}
	p := &r.pages[i]
	off := int(attach.Address(word) - p.start)
	if attach.Address(word) < p.start || off >= len(p.slots) || off%p.size != 0 {
		return 0, nil, false
	}
	n = p.first + uint32(off/p.size)
	return n, p.slots[off : off+p.size], r.graph.Nodes[n].Type != 0
}

// walk finds the references of all objects, and the roots.
func (r *Reader) walk() error {
	r.refs.Object = r.find
	r.refs.Edge = func(owner uint32, word uint64, label string) {
		if n, _, ok := r.find(word); ok && n != owner {
			r.graph.Edge(owner, n, r.graph.Label(label))
		}
	}
	r.refs.Block = func(b heap.Block) {
		if r.spend(int(b.Size)) {
			r.blocks = append(r.blocks, b)
		}
	}
	var threads []thread
	for i := range r.pages {
		p := &r.pages[i]
		for at := 0; at < len(p.slots); at += p.size {
			n, slot := p.first+uint32(at/p.size), p.slots[at:at+p.size]
			node := &r.graph.Nodes[n]
			if node.Type == 0 {
				continue
			}
			addr := p.start + attach.Address(at)
			r.refs.Of(n, addr, slot)
			if data, is := r.refs.Thread(addr, slot); is {
				threads = append(threads, thread{n, data})
			}
			if r.tries < maxTries && r.refs.HasGeneric(slot) {
				if r.tries++; r.refs.Generic(addr) {
					r.tries = maxTries
				}
			}
			if len(r.blocks) >= blocksAtOnce {
				if err := r.take(); err != nil {
					return err
				}
			}
		}
		if i%gc.PagesAPiece == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			r.say("following references", i, len(r.pages))
		}
	}
	if err := r.take(); err != nil {
		return err
	}
	if err := r.nameClasses(); err != nil {
		return err
	}
	if err := r.roots(threads); err != nil {
		return err
	}
	r.info.References, r.info.Bytes = uint64(r.graph.EdgeCount()), r.read
	r.rest()
	r.graph.Finish()
	if err := r.sizesOfTables(); err != nil || !r.options.Contents {
		return err
	}
	if err := r.contents(); err != nil || !r.options.Values {
		return err
	}
	return r.values()
}

// contents computes hashes of the bytes of Strings, to find equal Strings. It keeps only the hashes. It skips Strings
// whose bytes do not belong to them alone.
func (r *Reader) contents() error {
	var nodes []uint32
	seed := maphash.MakeSeed()
	r.ranges = r.ranges[:0]
	buf := r.buf
	flush := func() error {
		calls, err := r.gc.Mem.ReadBatch(r.ranges)
		r.gc.Reads.Calls += uint64(calls)
		for i, n := range nodes {
			if err == nil && !r.ranges[i].Failed {
				r.graph.Nodes[n].Content = max(1, maphash.Bytes(seed, r.ranges[i].Buf))
			}
		}
		nodes, r.ranges, buf = nodes[:0], r.ranges[:0], r.buf
		r.rest()
		return cmp.Or(err, r.ctx.Err())
	}
	for i := range r.pages {
		p := &r.pages[i]
		for at := 0; at < len(p.slots); at += p.size {
			n := p.first + uint32(at/p.size)
			if r.graph.Nodes[n].Type == 0 {
				continue
			}
			from, size, ok := r.refs.StringBytes(p.start+attach.Address(at), p.slots[at:at+p.size])
			if !ok || size == 0 || size > maxContent {
				continue
			}
			r.ranges = append(r.ranges, attach.Range{Addr: from, Buf: buf[:size:size]})
			nodes, buf = append(nodes, n), buf[size:]
			if len(nodes) == rangesACall || len(buf) < maxContent {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if i%gc.PagesAPiece == 0 {
			r.say("comparing Strings", i, len(r.pages))
		}
	}
	return flush()
}

// values reads the first bytes of the largest Strings, and of Strings with the same content as another String. It skips
// Strings whose length has changed since the copy was made.
func (r *Reader) values() error {
	g := r.graph
	g.Values = make(map[uint32]string)
	var buf [heapgraph.MaxValue]byte
	for _, big := range append(g.Largest(heapgraph.TypeString, heapgraph.ShownBig), g.Copies(heapgraph.ShownBig).Groups...) {
		addr := attach.Address(g.Nodes[big.Node].Addr)
		_, slot, ok := r.find(uint64(addr))
		if !ok {
			continue
		}
		now := make([]byte, len(slot))
		if ok, err := r.readAt(addr, now); !ok {
			if err != nil {
				return err
			}
			continue
		}
		from, n, _ := r.refs.StringBytes(addr, now)
		if from == 0 || n != big.Length { // the slot now has another object, or the length has changed
			continue
		}
		value := buf[:min(n, heapgraph.MaxValue)]
		ok, err := r.readAt(from, value)
		if err != nil {
			return err
		}
		if ok {
			g.Values[big.Node] = string(value)
		}
	}
	return r.ctx.Err()
}

// readAt fills buf from one address. It returns false if the memory cannot be read.
func (r *Reader) readAt(addr attach.Address, buf []byte) (ok bool, err error) {
	r.ranges = append(r.ranges[:0], attach.Range{Addr: addr, Buf: buf})
	calls, err := r.gc.Mem.ReadBatch(r.ranges)
	r.gc.Reads.Calls += uint64(calls)
	return err == nil && !r.ranges[0].Failed, err
}

// take reads the collected blocks and finds the references in them. If the references lead to further blocks, it reads
// these blocks, too.
func (r *Reader) take() error {
	for len(r.blocks) > 0 {
		list := r.blocks
		r.blocks = nil
		slices.SortFunc(list, func(a, b heap.Block) int {
			if a.At < b.At {
				return -1
			}
			return 1
		})
		for len(list) > 0 {
			if r.err != nil {
				return r.err
			}
			if err := r.ctx.Err(); err != nil {
				return err
			}
			n, err := r.call(list)
			if err != nil {
				return err
			}
			list = list[n:]
		}
	}
	return r.err
}

// call reads as many blocks as fit into one system call, and returns their number.
func (r *Reader) call(list []heap.Block) (n int, err error) {
	r.ranges = r.ranges[:0]
	buf := r.buf
	for _, b := range list {
		size := int(b.Size)
		if n == rangesACall || size > len(buf) {
			break
		}
		r.ranges = append(r.ranges, attach.Range{Addr: b.At, Buf: buf[:size:size]})
		buf = buf[size:]
		n++
	}
	if n == 0 {
		return 0, fmt.Errorf("a block of %d bytes at %s", list[0].Size, list[0].At)
	}
	calls, err := r.gc.Mem.ReadBatch(r.ranges)
	r.gc.Reads.Calls += uint64(calls)
	if err != nil {
		return n, err
	}
	for i := range n {
		if r.ranges[i].Failed {
			r.info.Unread++
			r.read -= uint64(list[i].Size)
			continue
		}
		r.refs.Take(list[i], r.ranges[i].Buf)
	}
	r.rest()
	return n, nil
}

// nameClasses sets the class name of each object's node. For a class or module, it sets the object's own name instead
// of the name of its class.
func (r *Reader) nameClasses() error {
	r.unnamed, r.anonymous = r.graph.Name(sampler.AllocUnknown), r.graph.Name(sampler.AllocAnonymous)
	internal, hidden := r.graph.Name(sampler.AllocInternal), r.graph.Name(sampler.AllocHidden)
	for i := range r.pages {
		p := &r.pages[i]
		if err := r.ctx.Err(); err != nil {
			return err
		}
		for at := 0; at < len(p.slots); at += p.size {
			n, slot := p.first+uint32(at/p.size), p.slots[at:]
			node := &r.graph.Nodes[n]
			if node.Type == 0 {
				continue
			}
			typ := view.U64(slot) & heap.TypeMask
			class := view.U64(slot[heap.BasicClass:])
			switch {
			case heap.CarriesClasses(typ):
				node.Class = r.ownName(node.Addr)
			case typ >= heap.TypeImemo:
				node.Class = internal
			case class == 0:
				node.Class = hidden
				if name, ok := strings.CutPrefix(heap.TypeNames[typ], "T_"); ok {
					node.Class = r.graph.Name("hidden " + name[:1] + strings.ToLower(name[1:]))
				}
			default:
				node.Class = r.className(class)
			}
		}
	}
	return nil
}

func (r *Reader) className(word uint64) uint32 {
	if i, ok := r.classes[word]; ok {
		return i
	}
	i := r.unnamed
	if name, err := r.refs.ClassPath(word); err == nil {
		if i = r.anonymous; name != "" {
			i = r.graph.Name(name)
		}
	}
	r.classes[word] = i
	return i
}

// ownName returns the name of a class or module. A singleton class is named after its object.
func (r *Reader) ownName(addr uint64) uint32 {
	name, err := r.refs.OwnName(addr)
	switch {
	case err != nil:
		return r.unnamed
	case name == "":
		return r.anonymous
	}
	return r.graph.Name(name)
}

// sizesOfTables adds to the size of each Hash the size of its table outside its slot (up to 3.2).
func (r *Reader) sizesOfTables() error {
	const size = heap.TableSize
	for chunk := range slices.Chunk(r.tables, rangesACall) {
		r.ranges = r.ranges[:0]
		for i, n := range chunk {
			_, slot, _ := r.find(r.graph.Nodes[n].Addr)
			r.ranges = append(r.ranges, attach.Range{Addr: r.sizes.Of(slot).Table, Buf: r.buf[i*size:][:size]})
		}
		calls, err := r.gc.Mem.ReadBatch(r.ranges)
		r.gc.Reads.Calls += uint64(calls)
		if err != nil {
			return err
		}
		for i, n := range chunk {
			if !r.ranges[i].Failed {
				r.graph.Nodes[n].Size += r.sizes.Table(r.ranges[i].Buf).Bytes
				r.graph.Nodes[n].Length = heap.TableLength(r.ranges[i].Buf)
			}
		}
		r.rest()
	}
	return nil
}
