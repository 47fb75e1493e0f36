package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// class adds the references of a class or module, or of an iclass (the entry of an included module).
func (r *References) class(owner uint32, slot []byte, flags uint64) {
	p := r.o.places
	r.words(owner, slot[basicSize:])
	if p.classMethods >= 0 && p.classMethods+word <= len(slot) {
		r.block(owner, blockNames, view.U64(slot[p.classMethods:]), p.idTableSize(), blockPiece, 0)
	}
	if p.classExtPtr >= 0 {
		r.block(owner, blockExt, view.U64(slot[p.classExtPtr:]), p.extSize&^7, blockPiece, int32(flags&TypeMask))
		return
	}
	ext := slot[min(p.classExt, len(slot)):]
	r.ext(owner, ext, flags)
}

// idTableSize returns how many bytes of an rb_id_table must be read to find its items.
func (p *Places) idTableSize() int { return max(p.idCapacity, p.idItems) + word }

func (r *References) ext(owner uint32, ext []byte, flags uint64) {
	p := r.o.places
	at := func(place int) uint64 {
		if place < 0 || place+word > len(ext) {
			return 0
		}
		return view.U64(ext[place:])
	}
	r.block(owner, blockNames, at(p.extMethods), p.idTableSize(), blockPiece, 0)
	if flags&TypeMask == typeIClass { // the rest belongs to the included module
		return
	}
	r.block(owner, blockConsts, at(p.extConsts), p.idTableSize(), blockPiece, 0)
	switch {
	case p.extIvTbl >= 0:
		r.block(owner, blockIDTable, at(p.extIvTbl), TableSize-word, blockPiece, 0)
	case p.fieldsSlots < 0:
		variables := at(max(p.extIvPtr, p.extFields))
		if id := uint32(flags >> 32); r.complex(id) {
			r.block(owner, blockIDTable, variables, TableSize-word, blockPiece, 0)
		} else {
			v := r.byShape(id)
			r.block(owner, blockSlots, variables, len(r.names[v])*word, blockPiece, v)
		}
	}
}

// weakTypes are the names of data types that refer to objects without keeping them alive.
var weakTypes = map[string]bool{"weakmap": true, "weakkeymap": true, "VM/concurrent_set": true}

// data requests the memory of a data object (an object with data of C code), as a Block. Each word of this memory can
// be a reference.
func (r *References) data(owner uint32, addr attach.Address, slot []byte) {
	p := r.o.places
	kind := blockWords
	typ, typed := p.DataType(slot)
	if typed {
		known := false
		if kind, known = r.types[typ]; !known {
			kind = dataKind(r.o.DataTypeName(uint64(addr)))
			r.types[typ] = kind
		}
	}
	if kind == blockChunk {
		return
	}
	at := attach.Address(view.U64(slot[p.typedData:]))
	if typed {
		at = p.Data(addr, slot)
	}
	switch {
	case kind == blockThread:
		r.block(owner, kind, uint64(at), p.threadSize&^7, blockPiece, 0)
	case kind == blockFiber:
		r.fiber(owner, uint64(at))
	case at > addr && at < addr+attach.Address(len(slot)):
		r.Take(Block{At: at, Owner: owner, Kind: kind}, slot[at-addr:])
	default:
		r.block(owner, blockChunk, uint64(at)-word, word, word, int32(kind))
	}
	r.words(owner, slot[basicSize:basicSize+word]) // instance variables (4.0)
}

// dataKind returns the BlockKind of the memory of a data type. It is blockChunk for types that do not keep objects
// alive.
func dataKind(name string) BlockKind {
	switch {
	case weakTypes[name]:
		return blockChunk
	case name == "proc", name == "binding":
		return blockProc
	case name == "VM/thread":
		return blockThread
	case name == "fiber":
		return blockFiber
	case name == "set":
		return blockTable
	}
	return blockWords
}

// Thread reports whether an object is a thread. data is the address of the thread's rb_thread_t. Call Thread only after
// Of has seen the object.
func (r *References) Thread(addr attach.Address, slot []byte) (data attach.Address, is bool) {
	typ, typed := r.o.places.DataType(slot)
	if !typed || r.types[typ] != blockThread {
		return 0, false
	}
	return r.o.places.Data(addr, slot), true
}

// Take finds the references in a block that the caller has read.
func (r *References) Take(b Block, data []byte) {
	p, owner := r.o.places, b.Owner
	word0 := func(at int) uint64 {
		if at < 0 || at+word > len(data) {
			return 0
		}
		return view.U64(data[at:])
	}
	switch b.Kind {
	case blockWords:
		r.words(owner, data)
	case blockSlots:
		r.slots(owner, data, r.names[b.Names])
	case blockPairs:
		r.pairs(owner, data)
	case blockTable:
		r.table(owner, data, blockEntries)
	case blockIDTable:
		r.table(owner, data, blockIDEntries)
	case blockOldLocals:
		r.table(owner, data, blockOldLocalEntries)
	case blockGeneric:
		r.table(owner, data, blockGenericEntries)
	case blockPointer:
		r.block(owner, blockIDTable, word0(0), TableSize-word, blockPiece, 0)
	case blockEntries:
		for ; len(data) >= tableEntrySize; data = data[tableEntrySize:] {
			if view.U64(data) != deletedEntry {
				r.Edge(owner, view.U64(data[8:]), "")
				r.Edge(owner, view.U64(data[16:]), "")
			}
		}
	case blockIDEntries, blockOldLocalEntries:
		names := r.idNames(data, tableEntrySize, func(e []byte) uint64 { return view.U64(e[8:]) })
		for i, name := range names {
			if b.Kind == blockOldLocalEntries {
				name = localLabel(name)
			}
			if e := data[i*tableEntrySize:]; view.U64(e) != deletedEntry {
				r.Edge(owner, view.U64(e[16:]), name)
			}
		}
	case blockGenericEntries:
		r.generic(data)
	case blockNames, blockLocals, blockConsts:
		if len(data) >= p.idTableSize() {
			n := min(int(view.U32(data[p.idCapacity:])), maxTable)
			r.block(owner, b.Kind+1, word0(p.idItems), n*p.idItem, blockPiece, 0)
		}
	case blockNameItems:
		for ; len(data) >= p.idItem; data = data[p.idItem:] {
			r.Edge(owner, view.U64(data[p.itemValue:]), "")
		}
	case blockLocalItems, blockConstItems:
		r.items(b, data)
	case blockConst:
		r.Edge(owner, word0(p.constVal), r.names[b.Names][0])
		r.Edge(owner, word0(p.constVal+word), "")
	case blockExt:
		r.words(owner, data)
		r.ext(owner, data, uint64(b.Names))
	case blockCode:
		r.words(owner, data)
		r.block(owner, blockWords, word0(p.bodyCode), min(int(uint32(word0(p.bodyCount&^7)>>(8*uint(p.bodyCount&7)))), maxCode)*word, word, 0)
	case blockEnvironment:
		r.words(owner, data)
		at := int(b.Names) * word
		const local = 2 // VM_ENV_FLAG_LOCAL
		if word0(at)&local == 0 && at >= word {
			r.block(owner, blockWords, word0(at-word)&^3+word, word, word, 0)
		}
	case blockChunk:
		size := int(min(word0(0)&^7, maxChunk+word)) - word
		if size < 24 || size > maxChunk || size&15 != 8 {
			size = guessChunk
		}
		r.block(owner, BlockKind(b.Names), uint64(b.At)+word, size, blockPiece, 0)
	case blockProc:
		r.words(owner, data)
		r.block(owner, blockWords, word0(8)+word, word, word, 0)
	case blockThread:
		r.words(owner, data)
		if ec := word0(p.threadEC); ec != 0 {
			r.fiber(owner, ec-uint64(p.fiberEC))
		}
	case blockFiber:
		r.takeFiber(b, data)
	case blockFrames:
		r.frames(b, data)
	}
}

// idNames returns the names of the IDs in the entries of a table. A name is empty if it cannot be read.
func (r *References) idNames(data []byte, stride int, id func(entry []byte) uint64) []string {
	names := make([]string, len(data)/stride)
	_ = r.Ask(func() error { // if the whole target cannot be read, the next block reports this
		var missing error
		for i := range names {
			key := id(data[i*stride:])
			if names[i] != "" || key == 0 {
				continue
			}
			name, err := r.o.IDName(key)
			if err == view.ErrMissing {
				missing = err
			} else if err == nil {
				names[i] = name
			}
		}
		return missing
	})
	return names
}

// localLabel returns the label of a fiber-local variable. It looks like the Ruby code that reads the variable.
func localLabel(name string) string { return "[:" + name + "]" }

// items finds the references in the items of an rb_id_table, a hash table of Ruby whose keys are names. The items are
// fiber-local variables or constants.
func (r *References) items(b Block, data []byte) {
	p := r.o.places
	names := r.idNames(data, p.idItem, func(e []byte) uint64 {
		serial := uint64(view.U32(e[p.itemKey:]))
		if serial > p.lastOpID {
			serial <<= 4
		}
		return serial
	})
	for i, name := range names {
		value := view.U64(data[i*p.idItem+p.itemValue:])
		switch {
		case view.U32(data[i*p.idItem+p.itemKey:]) == 0:
		case b.Kind == blockLocalItems:
			r.Edge(b.Owner, value, localLabel(name))
		default:
			r.names = append(r.names, []string{name})
			r.block(b.Owner, blockConst, value, p.constVal+2*word, blockPiece, int32(len(r.names)-1))
		}
	}
}

// Generic requests the global table of instance variables, as a Block (up to 3.4). The parameter with is an object that
// has variables in this table. With this object, Generic recognizes the table. It reports whether it has found the
// table.
func (r *References) Generic(with attach.Address) bool {
	if r.Ask(func() error { return r.o.findGeneric(with) }) != nil {
		return false
	}
	var table uint64
	err := r.Ask(func() (err error) { table, err = r.o.View.Word(r.o.Generic); return err })
	if err == nil {
		r.block(0, blockGeneric, table, TableSize-word, blockPiece, 0)
	}
	return err == nil
}

// HasGeneric reports whether an object has its instance variables in the global table (Generic).
func (r *References) HasGeneric(slot []byte) bool {
	flags := view.U64(slot)
	typ := flags & TypeMask
	return !r.release4 && flags&flagGeneric != 0 && typ != TypeObject && typ < TypeImemo && !CarriesClasses(typ) && typ != TypeNone
}

func (r *References) generic(data []byte) {
	for ; len(data) >= tableEntrySize; data = data[tableEntrySize:] {
		n, slot, ok := r.Object(view.U64(data[8:]))
		if !ok || view.U64(data) == deletedEntry {
			continue
		}
		record, flags := view.U64(data[16:]), view.U64(slot)
		var v int32
		if r.o.places.objectCount >= 0 {
			v = r.ofClass(view.U64(slot[BasicClass:]))
		} else if v = r.byShape(uint32(flags >> 32)); r.complex(uint32(flags >> 32)) {
			r.block(n, blockPointer, record, word, word, 0)
			continue
		}
		r.block(n, blockSlots, record+genericSlots, len(r.names[v])*word, blockPiece, v)
	}
}

// fiber requests an rb_fiber_t, as a Block, unless it was requested before.
func (r *References) fiber(owner uint32, at uint64) {
	if a := attach.Address(at); !r.fibers[a] && len(r.fibers) < maxFiberChain {
		r.fibers[a] = true
		r.block(owner, blockFiber, at, r.o.places.fiberSize&^7, blockPiece, 0)
	}
}

// takeFiber finds what a fiber refers to: the values on its stack, its variables, and the fiber that resumed it.
func (r *References) takeFiber(b Block, data []byte) {
	p := r.o.places
	r.words(b.Owner, data)
	if len(data) < max(p.fiberEC+p.ecSize, p.fiberPrev+word) {
		return
	}
	if prev := view.U64(data[p.fiberPrev:]); prev != 0 {
		r.fiber(b.Owner, prev)
	}
	ec := data[p.fiberEC:][:p.ecSize]
	locals := view.U64(ec[p.ecLocals:])
	if p.localsBySerial {
		r.block(b.Owner, blockLocals, locals, p.idTableSize(), blockPiece, 0)
	} else {
		r.block(b.Owner, blockOldLocals, locals, TableSize-word, blockPiece, 0)
	}
	stack, words, frame := view.U64(ec[p.ecStack:]), view.U64(ec[p.ecStackLen:]), view.U64(ec[p.ecFrame:])
	end := stack + words*word
	if words > maxStack/word || frame < stack || frame >= end {
		return
	}
	r.stacks = append(r.stacks, [2]uint64{stack, end})
	r.block(b.Owner, blockFrames, frame, int(end-frame), maxStack, int32(len(r.stacks)-1))
}

// frames finds what a fiber's control frames refer to, and the values on the fiber's stack below the control frames.
func (r *References) frames(b Block, data []byte) {
	const spPlace, epPlace = 8, 32
	r.words(b.Owner, data)
	stack := r.stacks[b.Names]
	size := r.o.places.frameSize
	for i := 0; i+size <= len(data); i += size {
		ep := view.U64(data[i+epPlace:])
		if ep != 0 && (ep < stack[0] || ep >= stack[1]) { // the variables were moved from the stack to the heap
			r.block(b.Owner, blockWords, ep+word, word, word, 0)
		}
	}
	if len(data) >= size {
		if sp := view.U64(data[spPlace:]); sp >= stack[0] && sp <= uint64(b.At) {
			r.block(b.Owner, blockWords, stack[0], int(sp-stack[0]), word, 0)
		}
	}
}
