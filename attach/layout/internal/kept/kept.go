// Package kept says which structs, fields and constants a layout table holds: those that a reader of Ruby's memory
// follows. The generator of the embedded tables and the deriver from DWARF keep the same ones.
package kept

import "strings"

// keptStructs are the structs that a reader of Ruby's memory follows: VM, ractors, threads and their scheduler, frames,
// code, methods, names, objects, shapes, tables, lock objects, fibers and the garbage collector.
var keptStructs = words(`
	rb_vm_struct rb_ractor_struct rb_ractor_pub rb_ractor_sync rb_ractor_queue rb_ractor_basket ractor_queue
	ractor_basket ractor_port ractor_waiter rb_ractor_selector
	rb_thread_struct rb_native_thread native_thread_data_struct rb_thread_sched rb_thread_sched_item
	rb_thread_sched_waiting rb_global_vm_lock_struct rb_unblock_callback
	rb_execution_context_struct rb_vm_tag rb_control_frame_struct rb_captured_block rb_block rb_proc_t rb_env_t vm_svar
	vm_ifunc rb_cref_struct zjit_jit_frame
	rb_iseq_struct rb_iseq_constant_body rb_iseq_location_struct iseq_insn_info iseq_insn_info_entry succ_index_table
	succ_dict_block iseq_catch_table iseq_catch_table_entry
	rb_callable_method_entry_struct rb_method_entry_struct rb_method_definition_struct rb_method_iseq_struct
	rb_method_cfunc_struct rb_method_bmethod_struct rb_method_alias_struct rb_method_refined_struct rb_method_attr_struct
	rb_symbols_t symbols sym_id_entry rb_id_item rb_id_table st_table st_table_entry ar_table_struct ar_table_entry
	set_table concurrent_set concurrent_set_entry rb_darray_meta
	RBasic RString RArray RObject RClass RClass_and_rb_classext_t RClass_boxable rb_classext_struct RData RTypedData
	RHash RStruct RSymbol RFloat RFile RMoved rb_fields gen_ivtbl rb_iv_index_tbl_entry rb_data_type_struct rb_encoding
	rb_shape rb_shape_tree_t redblack_node rb_const_entry_struct rb_box_struct
	rb_mutex_struct rb_monitor rb_queue rb_szqueue rb_condvar queue_waiter queue_sleep_arg sync_waiter rb_waiting_list
	waiting_fd rb_io rb_io_close_wait_list rb_io_blocking_operation
	rb_context_struct rb_fiber_struct cont_saved_vm_stack coroutine_context
	rb_objspace rb_heap_struct rb_size_pool_struct heap_page heap_page_body heap_page_header
	ractor_newobj_size_pool_cache rb_imemo_tmpbuf_struct
	ccan_list_head ccan_list_node list_head list_node
`)

// sameAs gives structs that appear under two names the one that is kept.
var sameAs = map[string]string{
	"rb_shape_t": "rb_shape", "rb_io_t": "rb_io", "rb_cref_t": "rb_cref_struct", "rb_box_t": "rb_box_struct",
	"rb_data_type_t": "rb_data_type_struct", "rb_global_vm_lock_t": "rb_global_vm_lock_struct",
	"rb_darray_meta_t": "rb_darray_meta",
}

// droppedParts are path components below which nothing is of use: the insides of the C library's locks.
var droppedParts = words(`__data __size __align`)

// jitField tells the fields that only a build with a JIT has. In rb_iseq_constant_body and rb_vm_tag they are the last
// ones, so that without them one table serves both builds. The first of them is kept (see Optional): those behind it move
// with the JITs that are built in.
func jitField(structName, path string) bool {
	switch structName {
	case "rb_iseq_constant_body":
		if Optional(structName + "." + path) {
			return false
		}
		for _, prefix := range []string{"jit_", "mjit_", "rjit_", "yjit_", "zjit_"} {
			if strings.HasPrefix(path, prefix) {
				return true
			}
		}
	case "rb_vm_tag":
		return path == "cfp" || path == "zjit_frame_active"
	}
	return false
}

// keptConstants are names or, with a star at the end, prefixes of constants and enum members.
var keptConstants = words(`
	tLAST_OP_ID tNEXT_ID idLAST_OP_ID tPRESERVED_ID_* ID_ENTRY_* ID_SCOPE_* ID_STATIC_SYM RUBY_ID_*
	RUBY_FL_* RUBY_T_* RUBY_Q* RUBY_SYMBOL_FLAG RUBY_SPECIAL_SHIFT RUBY_FIXNUM_FLAG RUBY_FLONUM_* RUBY_IMMEDIATE_MASK
	RUBY_ENCODING_* RUBY_ENCINDEX_* RUBY_TAG_* RUBY_TYPED_* TYPED_DATA_* FL_USHIFT
	RSTRING_* RARRAY_* ROBJECT_* RSTRUCT_* RHASH_* RCLASS_* RMODULE_* RICLASS_* ELTS_SHARED
	SHAPE_* ROOT_SHAPE_ID INVALID_SHAPE_ID SPECIAL_CONST_SHAPE_ID FIRST_T_OBJECT_SHAPE_ID MAX_SHAPE_ID ATTR_INDEX_NOT_SET
	imemo_* IMEMO_MASK IMEMO_FL_USHIFT
	ISEQ_TYPE_* VM_METHOD_TYPE_* METHOD_VISI_* BUILTIN_ATTR_* PATHOBJ_* OPTIMIZED_METHOD_TYPE_*
	VM_FRAME_* VM_ENV_* VM_INSN_INFO_TABLE_IMPL block_handler_type_* block_type_*
	THREAD_* FIBER_* CONTINUATION_CONTEXT FIBER_CONTEXT ractor_* thread_sched_waiting_* MUTEX_ALLOW_TRAP
	gc_mode_* GPR_* HEAP_* BASE_SLOT_SIZE RVALUE_OVERHEAD BITS_*
	SIZEOF_VALUE SIZEOF_SHAPE_T USE_* OPT_DIRECT_THREADED_CODE VM_CHECK_MODE RUBY_VM_SIZE_ALIGN
	RUBY_VM_THREAD_VM_STACK_SIZE RUBY_VM_FIBER_VM_STACK_SIZE
`)

// Struct returns the name that a struct or typedef stands under in a table; ok is false for one that is not kept.
func Struct(name string) (table string, ok bool) {
	if to, other := sameAs[name]; other {
		name = to
	}
	return name, keptStructs[name]
}

// Alias reports whether a struct stands in tables under another name than its own. The one of the proper name wins where
// both are there.
func Alias(name string) bool { return sameAs[name] != "" }

// Field reports whether a field of a kept struct is kept. path is "sched.node.readyq".
func Field(structName, path string) bool {
	for part := range strings.SplitSeq(path, ".") {
		if droppedParts[part] {
			return false
		}
	}
	return !jitField(structName, path)
}

// Optional tells the fields, by struct and path, that a table has and a build of the same release may lack: where code
// that a JIT has compiled begins.
func Optional(field string) bool {
	return field == "rb_iseq_constant_body.jit_func" || field == "rb_iseq_constant_body.jit_entry"
}

// Constant reports whether a constant or enum member is kept.
func Constant(name string) bool {
	if keptConstants[name] {
		return true
	}
	for i := len(name); i > 0; i-- {
		if keptConstants[name[:i]+"*"] {
			return true
		}
	}
	return false
}

func words(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}
