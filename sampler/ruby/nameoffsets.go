package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach/layout"
)

// Places that are the same on every release, 2.5 to head, on both machines (docs/internals/stacks.md#control-frames and what
// follows there, docs/internals/code.md#method-entries): measured on running processes.
const (
	// rb_control_frame_t
	cfPC, cfSP, cfISeq, cfSelf, cfEP = 0, 8, 16, 24, 32
	// an environment: three words (method, outer environment, flags), of which ep points to the last
	envBelow, envSize = 16, 24
	// rb_iseq_t, and the head that proves an iseq
	iseqFlags, iseqBody, iseqHead = 0, 16, 24
	// rb_callable_method_entry_t
	meDef, meOwner, meSize = 16, 32, 40
	// rb_method_definition_t
	defType, defBody, defOriginalID, defSize = 0, 8, 32, 40
	// vm_svar
	svarCrefOrMe = 8
	// succ_dict_block and succ_index_table
	succBlockSize, succImmediateWords, succImmediate, succBlockBits = 80, 6, 54, 512
	// RBasic
	basicFlags, basicClass, basicSize = 0, 8, 16
	// idEntryUnit is the number of serials a page of the symbol table holds (ID_ENTRY_UNIT).
	idEntryUnit = 512
)

// nameOffsets are the places, in bytes, of what names and lines are read from; resolved once. -1: not on this release.
type nameOffsets struct {
	frameSize, frameJIT int

	bodyType, bodyISeqSize, bodyEncoded            int
	bodyPath, bodyBaseLabel, bodyLabel             int
	bodyFirstLine, bodyFirstLineSize               int
	bodyInsns, bodyInsnsSize, bodySucc             int
	bodyParent, bodyLocal, bodyAttrs               int
	bodyJIT                                        int // where what JITs keep begins: jit_func up to 3.2, jit_entry
	entrySize, entryLine, entryPosition            int
	symbolsCount, symbolsIDs                       int
	symbolEntrySize, symbolEntryStr                int // head; -1: arrays of pairs
	typedType, typedFlag, typedData                int
	symbolFstr                                     int
	classExt                                       int // the ext inside the class; -1: behind classExtPtr
	classExtPtr                                    int
	classSuper, extSuper                           int
	extPath, extPermanent, extAttached             int
	extIvTbl, extIvPtr                             int
	permanentBit                                   uint
	tableStart, tableBound, tableEntries           int
	vmShapes                                       int
	shapeSize, shapeEdge, shapeNext, shapeType     int
	shapeParent                                    int
	arrayLenMask                                   uint64
	stringLenInFlags                               bool
	stringEmbedded                                 int
	lastOpID                                       uint64
	singleton                                      uint64
	cTrace                                         uint32
	magicMask, magicCFunc, magicDummy, magicRescue uint64
}

// resolveNames finds every place in a release's table. Its error names what the table lacks.
func resolveNames(t *layout.Table, rel Release) (*nameOffsets, error) {
	var missing []string
	need := func(field string) int {
		off := t.Offset(field)
		if off < 0 {
			missing = append(missing, field)
		}
		return off
	}
	needSize := func(name string) int {
		n := t.Size(name)
		if n < 0 {
			missing = append(missing, "sizeof "+name)
		}
		return n
	}
	constant := func(name string) uint64 {
		v, ok := t.Constant(name)
		if !ok {
			missing = append(missing, name)
		}
		return uint64(v)
	}
	const body = "rb_iseq_constant_body."
	o := &nameOffsets{
		frameSize: needSize("rb_control_frame_struct"),
		frameJIT:  t.Offset("rb_control_frame_struct.jit_return"),

		bodyType: need(body + "type"), bodyISeqSize: need(body + "iseq_size"), bodyEncoded: need(body + "iseq_encoded"),
		bodyPath: need(body + "location.pathobj"), bodyBaseLabel: need(body + "location.base_label"),
		bodyLabel: need(body + "location.label"), bodyFirstLine: need(body + "location.first_lineno"),
		bodyParent: need(body + "parent_iseq"), bodyLocal: need(body + "local_iseq"),
		bodyAttrs: t.Offset(body + "builtin_attrs"), bodyJIT: max(t.Offset(body+"jit_func"), t.Offset(body+"jit_entry")),
		entrySize: needSize("iseq_insn_info_entry"), entryLine: need("iseq_insn_info_entry.line_no"),
		entryPosition: t.Offset("iseq_insn_info_entry.position"),

		symbolsIDs:      need("rb_symbols_t.ids"),
		symbolEntrySize: t.Size("sym_id_entry"), symbolEntryStr: t.Offset("sym_id_entry.str"),
		typedType: need("RTypedData.type"), typedFlag: t.Offset("RTypedData.typed_flag"), typedData: need("RTypedData.data"),
		symbolFstr: need("RSymbol.fstr"),

		classExt: -1, classExtPtr: -1,
		classSuper: t.Offset("RClass.super"), extSuper: t.Offset("rb_classext_struct.super"),
		extPath:     t.Offset("rb_classext_struct.classpath"),
		extAttached: t.Offset("rb_classext_struct.as.singleton_class.attached_object"),
		extIvTbl:    -1, extIvPtr: -1, extPermanent: -1,
		tableStart: need("st_table.entries_start"), tableBound: need("st_table.entries_bound"),
		tableEntries: need("st_table.entries"),
		vmShapes:     -1,

		lastOpID:  constant("tLAST_OP_ID"),
		singleton: constant("RUBY_FL_SINGLETON"),
	}
	if f, ok := t.Field(body + "location.first_lineno"); ok {
		o.bodyFirstLineSize = f.Size
	}
	if o.entryPosition >= 0 { // 2.5: positions stand in the entries
		o.bodyInsns, o.bodyInsnsSize, o.bodySucc = need(body+"insns_info"), need(body+"insns_info_size"), -1
	} else {
		o.bodyInsns, o.bodyInsnsSize = need(body+"insns_info.body"), need(body+"insns_info.size")
		o.bodySucc = need(body + "insns_info.succ_index_table")
	}
	o.symbolsCount = t.Offset("rb_symbols_t.next_id")
	if o.symbolsCount < 0 {
		o.symbolsCount = need("rb_symbols_t.last_id")
	}
	if o.symbolEntryStr < 0 || o.symbolEntrySize < 0 {
		o.symbolEntrySize, o.symbolEntryStr = -1, -1
	}
	o.resolveClasses(t, rel, need, needSize)
	o.resolveObjects(rel)
	if rel.atLeast(3, 4) && !rel.atLeast(4, 0) {
		o.cTrace = 8 // BUILTIN_ATTR_C_TRACE, no part of debug information
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the layout %q of Ruby %s lacks %v", t.Name, rel, missing)
	}
	return o, nil
}

// resolveClasses finds where a class keeps its path: three designs so far
// (docs/internals/objects.md#class-names).
func (o *nameOffsets) resolveClasses(t *layout.Table, rel Release, need, needSize func(string) int) {
	switch {
	case rel.atLeast(3, 3): // words of the ext inside the object
		o.classExt = need("RClass_and_rb_classext_t.classext")
		o.extPath = need("rb_classext_struct.classpath")
		o.extAttached = need("rb_classext_struct.as.singleton_class.attached_object")
		o.extPermanent = need("rb_classext_struct.permanent_classpath")
		if f, ok := t.Field("rb_classext_struct.permanent_classpath"); ok {
			o.permanentBit = uint(f.BitOffset)
		}
	case rel.atLeast(3, 2): // hidden instance variables, by shape; the ext follows RClass
		o.classExt = needSize("RClass")
		o.extIvPtr = need("rb_classext_struct.iv_ptr")
		o.vmShapes = need("rb_vm_struct.shape_list")
		o.shapeSize = needSize("rb_shape")
		o.shapeEdge, o.shapeNext = need("rb_shape.edge_name"), need("rb_shape.next_iv_index")
		o.shapeType, o.shapeParent = need("rb_shape.type"), need("rb_shape.parent_id")
	default: // hidden instance variables in a table of the class
		o.classExtPtr = need("RClass.ptr")
		o.extIvTbl = need("rb_classext_struct.iv_tbl")
	}
	if o.classSuper < 0 && o.extSuper < 0 {
		o.classSuper = need("RClass.super")
	}
}

// resolveObjects sets what depends on the release alone: the encodings of lengths and of frame kinds.
func (o *nameOffsets) resolveObjects(rel Release) {
	o.stringLenInFlags = !rel.atLeast(3, 2)
	o.stringEmbedded = 24
	o.arrayLenMask = 0x7f
	if o.stringLenInFlags {
		o.stringEmbedded = 16
		o.arrayLenMask = 3
	}
	o.magicMask, o.magicCFunc, o.magicDummy, o.magicRescue = 0x7fff0001, 0x55550001, 0x79990001, 0x78880001
	if !rel.atLeast(2, 6) {
		o.magicMask, o.magicDummy, o.magicRescue = 0xffff0001, 0x99990001, 0x88880001
	}
}
