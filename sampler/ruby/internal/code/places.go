package code

import (
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// These offsets are the same on every release from 2.5 to head, on x86_64 and aarch64. They were measured in running
// processes. See docs/internals/stacks.md#control-frames and the sections after it, and
// docs/internals/code.md#method-entries.
const (
	// These are offsets in rb_control_frame_t.
	FramePC, FrameSP, FrameISeq, FrameSelf, FrameEP = 0, 8, 16, 24, 32
	// These are offsets in struct zjit_jit_frame.
	jitFramePC, JITFrameISeq = 0, 8
	// An environment has three words: method, outer environment and flags. ep points to the flags.
	envBelow, envSize = 16, 24
	// iseqBody is the offset of the body in rb_iseq_t, and iseqHead the size of the head of rb_iseq_t. The head shows
	// that the object is an iseq.
	iseqBody, iseqHead = 16, 24
	// These are offsets in rb_callable_method_entry_t, and its size.
	meDef, meCalledID, meOwner, meSize = 16, 24, 32, 40
	// These are offsets in rb_method_definition_t, and its size.
	defType, defBody, defOriginalID, defSize = 0, 8, 32, 40
	// This is an offset in vm_svar, the special variables of a method.
	svarCrefOrMe = 8
	// These are sizes of the parts of the succinct index. A succ_dict_block has succBlockSize bytes, for succBlockBits
	// positions. The immediate part of succ_index_table has succImmediateWords words, for succImmediate positions.
	succBlockSize, succImmediateWords, succImmediate, succBlockBits = 80, 6, 54, 512
)

// Places are the offsets, in bytes, of the fields of a release's structs that this package reads. An offset is -1 if
// the release has no such field.
type Places struct {
	// These are the size of rb_control_frame_t, and a field in it.
	FrameSize int `layout:"sizeof rb_control_frame_struct"`
	FrameJIT  int `layout:"rb_control_frame_struct.jit_return,optional"`

	// These are fields of rb_iseq_constant_body and iseq_insn_info_entry.
	bodyType        int          `layout:"rb_iseq_constant_body.type"`
	bodyISeqSize    int          `layout:"rb_iseq_constant_body.iseq_size"`
	bodyEncoded     int          `layout:"rb_iseq_constant_body.iseq_encoded"`
	bodyPath        int          `layout:"rb_iseq_constant_body.location.pathobj"`
	bodyBaseLabel   int          `layout:"rb_iseq_constant_body.location.base_label"`
	bodyLabel       int          `layout:"rb_iseq_constant_body.location.label"`
	bodyFirstLine   layout.Field `layout:"rb_iseq_constant_body.location.first_lineno"`
	bodyInsns       int          `layout:"rb_iseq_constant_body.insns_info.body,from=2.6"`
	bodyInsnsSize   int          `layout:"rb_iseq_constant_body.insns_info.size,from=2.6"`
	bodySucc        int          `layout:"rb_iseq_constant_body.insns_info.succ_index_table,from=2.6"`
	bodyInsns25     int          `layout:"rb_iseq_constant_body.insns_info,before=2.6"`
	bodyInsnsSize25 int          `layout:"rb_iseq_constant_body.insns_info_size,before=2.6"`
	bodyParent      int          `layout:"rb_iseq_constant_body.parent_iseq"`
	bodyLocal       int          `layout:"rb_iseq_constant_body.local_iseq"`
	bodyLocals      int          `layout:"rb_iseq_constant_body.local_table"`
	bodyLocalsSize  int          `layout:"rb_iseq_constant_body.local_table_size"`
	bodyAttrs       int          `layout:"rb_iseq_constant_body.builtin_attrs,optional"`
	// bodyJIT is the first of the fields that JITs use.
	bodyJIT       int `layout:"rb_iseq_constant_body.jit_func|jit_entry,optional"`
	entrySize     int `layout:"sizeof iseq_insn_info_entry"`
	entryLine     int `layout:"iseq_insn_info_entry.line_no"`
	entryPosition int `layout:"iseq_insn_info_entry.position,before=2.6"`

	// This is a field of rb_execution_context_t.
	ecErrinfo int `layout:"rb_execution_context_struct.errinfo"`

	// vmLoadPath is the offset of $LOAD_PATH in the VM. From 4.0 on, $LOAD_PATH is in a box instead, at the offset
	// boxLoadPath. This is the main box, or the root box if there is no main box yet.
	vmLoadPath  int `layout:"rb_vm_struct.load_path,optional"`
	boxLoadPath int `layout:"rb_box_struct.load_path,optional"`
	vmMainBox   int `layout:"rb_vm_struct.main_box,optional"`
	vmRootBox   int `layout:"rb_vm_struct.root_box,optional"`

	// These bits mark the kinds and attributes of frames. Layout tables lack them, so Complete sets them.
	cTrace                            uint32
	magicMask, magicCFunc, magicDummy uint64
}

// Complete sets the offsets that depend on other offsets, or only on the release. All others come from the release's
// layout table.
func (p *Places) Complete(rel places.Release) {
	p.magicMask, p.magicCFunc, p.magicDummy = 0x7fff0001, 0x55550001, 0x79990001
	if !rel.AtLeast(2, 6) {
		p.bodyInsns, p.bodyInsnsSize = p.bodyInsns25, p.bodyInsnsSize25
		p.magicMask, p.magicDummy = 0xffff0001, 0x99990001
	}
	if rel.AtLeast(3, 4) && !rel.AtLeast(4, 0) {
		p.cTrace = 8 // BUILTIN_ATTR_C_TRACE, which debug information lacks
	}
}
