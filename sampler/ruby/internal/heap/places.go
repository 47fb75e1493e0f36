package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// This is the layout of RBasic, in bytes. It is the same on every release from 2.5 to head, on x86_64 and arm64.
const (
	BasicClass = 8
	basicSize  = 16
)

// idEntryUnit is the number of IDs on one page of the symbol table (ID_ENTRY_UNIT).
const idEntryUnit = 512

// Places holds the offsets, in bytes, of the fields that ddtop reads in a release's objects. An offset is -1 if the
// release has no such field.
type Places struct {
	// These are fields of RTypedData.
	typedType int `layout:"RTypedData.type"`
	typedFlag int `layout:"RTypedData.typed_flag,optional"`
	typedData int `layout:"RTypedData.data"`

	// rb_queue has a reference to the Array of its items (up to 4.0), or the number of its items.
	queueItems  int `layout:"rb_queue.que,optional"`
	queueLength int `layout:"rb_queue.len,optional"`

	// These are fields of rb_symbols_t and RSymbol.
	symbolsCount    int    `layout:"rb_symbols_t.next_id|last_id"`
	symbolsIDs      int    `layout:"rb_symbols_t.ids"`
	symbolEntrySize int    `layout:"sizeof sym_id_entry,optional"` // head; -1 if the table consists of arrays of pairs
	symbolEntryStr  int    `layout:"sym_id_entry.str,optional"`
	symbolFstr      int    `layout:"RSymbol.fstr"`
	lastOpID        uint64 `layout:"tLAST_OP_ID"`

	// RClass and rb_classext_t: depending on the release, the rb_classext_t of a class is inside RClass, behind RClass
	// in the slot, or at an address to which RClass points. The rb_classext_t has the class's path in fields, or in
	// hidden instance variables. A shape or a table says where these variables are
	// (docs/internals/objects.md#class-names).
	classExt     int          `layout:"RClass_and_rb_classext_t.classext,from=3.3"`
	classSize    int          `layout:"sizeof RClass,from=3.2,before=3.3"`
	classExtPtr  int          `layout:"RClass.ptr,before=3.2"`
	classSuper   int          `layout:"RClass.super,optional"` // or extSuper
	classMethods int          `layout:"RClass.m_tbl,optional"` // or extMethods
	extSuper     int          `layout:"rb_classext_struct.super,optional"`
	extMethods   int          `layout:"rb_classext_struct.m_tbl,optional"`
	extConsts    int          `layout:"rb_classext_struct.const_tbl"`
	extPath      int          `layout:"rb_classext_struct.classpath,from=3.3"`
	extPermanent layout.Field `layout:"rb_classext_struct.permanent_classpath,from=3.3"`
	extAttached  int          `layout:"rb_classext_struct.as.singleton_class.attached_object,from=3.3"`
	extIvPtr     int          `layout:"rb_classext_struct.iv_ptr,from=3.2,before=3.3"`
	extIvTbl     int          `layout:"rb_classext_struct.iv_tbl,before=3.2"`
	singleton    uint64       `layout:"RUBY_FL_SINGLETON"`

	// These fields lead to an object's instance variables. Up to 3.1 a table of the class says in which slots they are.
	// From 3.2 on, shapes say this (docs/internals/objects.md#instance-variables).
	extIvIndex   int          `layout:"rb_classext_struct.iv_index_tbl,before=3.2"`
	entryIndex   int          `layout:"rb_iv_index_tbl_entry.index,from=3.0,before=3.2"`
	vmShapes     int          `layout:"rb_vm_struct.shape_list,from=3.2,before=3.3"`
	treeShapes   int          `layout:"rb_shape_tree_t.shape_list,from=3.3"`
	treeRoot     int          `layout:"rb_shape_tree_t.root_shape,from=3.3,optional"`
	treeNextID   int          `layout:"rb_shape_tree_t.next_shape_id,from=3.3,optional"`
	shapeSize    int          `layout:"sizeof rb_shape,from=3.2"`
	shapeEdge    int          `layout:"rb_shape.edge_name,from=3.2"`
	shapeNext    layout.Field `layout:"rb_shape.next_iv_index|next_field_index,from=3.2"`
	shapeType    layout.Field `layout:"rb_shape.type,from=3.2"`
	shapeParent  layout.Field `layout:"rb_shape.parent_id|parent_offset,from=3.2"`
	objectSlots  int          `layout:"RObject.as.ary"`
	objectCount  int          `layout:"RObject.as.heap.numiv,before=3.2"`
	objectIndex  int          `layout:"RObject.as.heap.iv_index_tbl,before=3.2"`
	objectBehind int          `layout:"RObject.as.heap.ivptr|as.heap.fields|as.extended"`
	extFields    int          `layout:"rb_classext_struct.iv_ptr|fields_obj,from=3.3"`
	fieldsSlots  int          `layout:"rb_fields.as.embed.fields,from=4.0"`
	fieldsBehind int          `layout:"rb_fields.as.external.ptr,from=4.0,optional"`
	fieldsTable  int          `layout:"rb_fields.as.complex.table,from=4.0"`

	// Up to 3.2 an RHash has a pointer to its table. From 3.3 on the table follows the RHash in its slot.
	hashTable int `layout:"RHash.as.st,from=2.7,before=3.3"`
	hashSize  int `layout:"sizeof RHash,from=3.3"`

	// These are fields of rb_execution_context_t.
	ecLocals  int `layout:"rb_execution_context_struct.local_storage"`
	ecStorage int `layout:"rb_execution_context_struct.storage,from=3.2"`
	ecFiber   int `layout:"rb_execution_context_struct.fiber_ptr"`
	fiberSelf int `layout:"rb_fiber_struct.cont.self"`

	// These are further structs that lead to objects: their sizes, and the places of the fields that references.go
	// follows.
	ecSize       int          `layout:"sizeof rb_execution_context_struct"`
	ecStack      int          `layout:"rb_execution_context_struct.vm_stack"`
	ecStackLen   int          `layout:"rb_execution_context_struct.vm_stack_size"`
	ecFrame      int          `layout:"rb_execution_context_struct.cfp"`
	frameSize    int          `layout:"sizeof rb_control_frame_struct"`
	fiberSize    int          `layout:"sizeof rb_fiber_struct"`
	fiberEC      int          `layout:"rb_fiber_struct.cont.saved_ec"`
	fiberPrev    int          `layout:"rb_fiber_struct.prev"`
	threadEC     int          `layout:"rb_thread_struct.ec"`
	threadSize   int          `layout:"sizeof rb_thread_struct"`
	threadStatus layout.Field `layout:"rb_thread_struct.status"`
	threadName   int          `layout:"rb_thread_struct.name"`
	objspaceSize int          `layout:"sizeof rb_objspace,optional"`
	bodySize     int          `layout:"sizeof rb_iseq_constant_body"`
	bodyCount    int          `layout:"rb_iseq_constant_body.iseq_size"`
	bodyCode     int          `layout:"rb_iseq_constant_body.iseq_encoded"`
	extSize      int          `layout:"sizeof rb_classext_struct"`
	vmSize       int          `layout:"sizeof rb_vm_struct"`

	// These are fields of st_table, rb_id_table, and rb_const_entry_t, the entries for constants.
	tableStart    int `layout:"st_table.entries_start"`
	tableBound    int `layout:"st_table.entries_bound"`
	tableEntries  int `layout:"st_table.entries"`
	tableBins     int `layout:"st_table.bins,optional"`
	tableBinPower int `layout:"st_table.bin_power"`
	tableBinSize  int `layout:"st_table.size_ind"`
	idCapacity    int `layout:"rb_id_table.capa"`
	idItems       int `layout:"rb_id_table.items"`
	idItem        int `layout:"sizeof rb_id_item"`
	itemKey       int `layout:"rb_id_item.key"`
	itemValue     int `layout:"rb_id_item.val"`
	constVal      int `layout:"rb_const_entry_struct.value"`

	// Nil is the word for nil: 8 up to 3.1, and 4 from 3.2 on. undef marks an unset or deleted value: 0x34 up to 3.1,
	// and 0x24 from 3.2 on.
	Nil, undef uint64

	// These masks select lengths in an object's flags. They depend only on the release, and layout tables lack them.
	arrayLenMask uint64
	digitsMask   uint64 // for the number of digits of an embedded Bignum
	// localsBySerial is true if fiber-local variables are in an rb_id_table (3.0 and later).
	localsBySerial bool
	// These bits say where an object has its variables. Up to 3.4, flagEmbedded is set if they are in the object. In
	// 4.0, flagBehind is set if they are outside it. In head, they are in the object if the bits shapeLayout of the
	// shape's number are 0. Some objects have their variables in a table by ID instead. This is so if the shape's type
	// is typeComplex (up to 3.4), or if shapeComplex is set in the shape's number.
	flagEmbedded, flagBehind, typeComplex uint64
	shapeLayout, shapeComplex             uint32
	// shapeMask selects the bits of a shape's number that are its index. Shapes refer to their parent by its index. The
	// first shape has no parent, and has noParent instead.
	shapeMask, noParent uint32
	stringLenInFlags    bool
	stringEmbedded      int
}

// Complete sets the offsets that depend on other offsets, or only on the release. All other offsets come from the
// release's layout table.
func (p *Places) Complete(rel places.Release) error {
	if p.classSuper < 0 && p.extSuper < 0 {
		return fmt.Errorf("the layout of Ruby %s lacks RClass.super", rel)
	}
	if p.symbolEntryStr < 0 {
		p.symbolEntrySize = -1
	}
	if rel.AtLeast(3, 2) && !rel.AtLeast(3, 3) {
		p.classExt = p.classSize
	}
	p.Nil, p.undef, p.arrayLenMask, p.stringLenInFlags, p.stringEmbedded = 8, 0x34, 3, true, 16
	if rel.AtLeast(3, 2) {
		p.Nil, p.undef, p.arrayLenMask, p.stringLenInFlags, p.stringEmbedded = 4, 0x24, 0x7f, false, 24
	}
	p.digitsMask, p.shapeMask, p.noParent = 7, 0xffffffff, noShape
	if rel.AtLeast(4, 0) {
		p.digitsMask, p.shapeMask = 0x1ff, 0x7ffff
	}
	p.localsBySerial = rel.AtLeast(3, 0)
	p.flagEmbedded, p.typeComplex = flagEmbed, 6
	switch {
	case rel.AtLeast(4, 1):
		p.noParent = 0x7ffff
		p.flagEmbedded, p.shapeLayout, p.shapeComplex = 0, 3<<29, 1<<26
	case rel.AtLeast(4, 0):
		p.flagEmbedded, p.flagBehind, p.shapeComplex = 0, 0x10000, 1<<27
	case rel.AtLeast(3, 3):
		p.typeComplex = 4
	}
	return nil
}
