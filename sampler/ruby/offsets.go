package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// Places that are the same on every release, 2.5 to head, on both machines (docs/internals/stacks.md#control-frames and what
// follows there): measured on running processes.
const (
	// rb_control_frame_t and struct zjit_jit_frame
	frameSP, frameISeq, frameSelf, jitFrameISeq = code.FrameSP, code.FrameISeq, code.FrameSelf, code.JITFrameISeq
	// rb_execution_context_t: its first three words (docs/internals/stacks.md#the-vm-stack)
	ecVMStack, ecVMStackSize, ecCFP, ecSpan = 0, 8, 16, 24
)

// offsets are the places, in bytes, of what ddtop reads of a release, resolved once for a VM. The collector's are in gc.go and
// beside what reads them. -1: not on this release.
type offsets struct {
	// rb_vm_t
	vmMainThread  int `layout:"rb_vm_struct.ractor.main_thread|main_thread"`
	vmMainRactor  int `layout:"rb_vm_struct.ractor.main_ractor,from=3.0"`
	vmRactorSet   int `layout:"rb_vm_struct.ractor.set,from=3.0"`
	vmRactorCnt   int `layout:"rb_vm_struct.ractor.cnt,from=3.0"`
	vmLiving      int `layout:"rb_vm_struct.living_threads,before=3.0"`
	vmLivingNum   int `layout:"rb_vm_struct.living_thread_num,before=3.0"`
	vmGVL         int `layout:"rb_vm_struct.gvl,before=3.0"`
	vmObjspace    int `layout:"rb_vm_struct.gc.objspace|objspace"`
	vmWaitingPids int `layout:"rb_vm_struct.waiting_pids,optional"` // 2.6 to 3.2
	vmWaitingGrps int `layout:"rb_vm_struct.waiting_grps,optional"`

	// the GVL, in rb_vm_t, or in rb_ractor_t: a flag and a number of waiters in 2.5, then owner and waiters
	gvlAcquired   int          `layout:"rb_vm_struct.gvl.acquired,before=2.6"`
	gvlWaiting    int          `layout:"rb_vm_struct.gvl.waiting,before=2.6"`
	gvlOwner      int          `layout:"rb_ractor_struct|rb_vm_struct.threads.sched.running|threads.gvl.owner|gvl.owner,from=2.6"`
	gvlQueue      int          `layout:"rb_ractor_struct|rb_vm_struct.threads.sched.readyq|threads.gvl.waitq|gvl.waitq,from=2.6"`
	gvlQueueCount layout.Field `layout:"rb_ractor_struct.threads.sched.readyq_cnt,optional"`
	gvlLock       int          `layout:"rb_ractor_struct|rb_vm_struct.threads.sched.lock_|threads.sched.lock|threads.gvl.lock|gvl.lock,from=2.6"`

	// rb_ractor_t
	ractorID   int `layout:"rb_ractor_struct.pub.id,from=3.0"`
	ractorNode int `layout:"rb_ractor_struct.vmlr_node,from=3.0"`
	ractorSet  int `layout:"rb_ractor_struct.threads.set,from=3.0"` // the part that each tick reads goes from here to ractorMain
	ractorCnt  int `layout:"rb_ractor_struct.threads.cnt,from=3.0"`
	ractorMain int `layout:"rb_ractor_struct.threads.main,from=3.0"`

	// rb_thread_t
	thNode         int          `layout:"rb_thread_struct.lt_node|vmlt_node"`
	thSelf         int          `layout:"rb_thread_struct.self"`
	thVM           int          `layout:"rb_thread_struct.vm"`
	thRactor       int          `layout:"rb_thread_struct.ractor,from=3.0"`
	thEC           int          `layout:"rb_thread_struct.ec"`
	thName         int          `layout:"rb_thread_struct.name"`
	thNT           int          `layout:"rb_thread_struct.nt,optional"`
	thPthread      int          `layout:"rb_thread_struct.thread_id,optional"`
	thTID          int          `layout:"rb_thread_struct.tid,optional"`
	thRootFiber    int          `layout:"rb_thread_struct.root_fiber,optional"`
	thRegion       int          `layout:"rb_thread_struct.blocking_region_buffer"`
	thLockingMutex int          `layout:"rb_thread_struct.locking_mutex"`
	thUnblockFunc  int          `layout:"rb_thread_struct.unblock.func"`
	thReadyNode    int          `layout:"rb_thread_struct.sched.node.readyq|native_thread_data.node.gvl,optional"`
	thRunningNode  int          `layout:"rb_thread_struct.sched.node.running_threads,optional"`
	thStatus       layout.Field `layout:"rb_thread_struct.status"`
	thWaitFlags    layout.Field `layout:"rb_thread_struct.sched.waiting_reason.flags,optional"`
	thWaitFD       layout.Field `layout:"rb_thread_struct.sched.waiting_reason.data.fd,optional"`
	thWaitTimeout  int          `layout:"rb_thread_struct.sched.waiting_reason.data.timeout,optional"`
	thSpan         int          // the bytes of it that are read
	ntTID          int          `layout:"rb_native_thread.tid,optional"`

	// rb_execution_context_t and rb_fiber_t
	ecStack      int `layout:"rb_execution_context_struct.vm_stack"`
	ecStackSize  int `layout:"rb_execution_context_struct.vm_stack_size"`
	ecFrame      int `layout:"rb_execution_context_struct.cfp"`
	ecFiber      int `layout:"rb_execution_context_struct.fiber_ptr"`
	ecThread     int `layout:"rb_execution_context_struct.thread_ptr"`
	fiberSavedEC int `layout:"rb_fiber_struct.cont.saved_ec"`
	fiberPrev    int `layout:"rb_fiber_struct.prev"`

	// rb_mutex_t, rb_monitor
	mutexFiber   int `layout:"rb_mutex_struct.fiber,optional"`
	mutexThread  int `layout:"rb_mutex_struct.th,optional"`
	monitorMutex int `layout:"rb_monitor.mutex,optional"`

	objects heap.Places
	code    code.Places
}

// resolveOffsets finds every place in a release's table. Its error names all that the table lacks.
func resolveOffsets(t *layout.Table, rel places.Release) (*offsets, error) {
	o := new(offsets)
	if err := places.Resolve(t, rel, o, &o.objects, &o.code); err != nil {
		return nil, err
	}
	if err := o.objects.Complete(rel); err != nil {
		return nil, err
	}
	o.code.Complete(rel)
	if o.vmRactorSet >= 0 && o.vmRactorCnt != o.vmRactorSet+16 {
		// A tick reads both in one piece, on all releases so far.
		return nil, fmt.Errorf("in the layout %q of Ruby %s ractor.cnt does not follow ractor.set in rb_vm_struct", t.Name, rel)
	}
	for _, off := range []int{o.thNode + 8, o.thSelf, o.thVM, o.thRactor, o.thEC, o.thName, o.thNT, o.thPthread, o.thTID,
		o.thRootFiber, o.thRegion, o.thLockingMutex, o.thUnblockFunc, o.thReadyNode + 8, o.thRunningNode + 8,
		o.thStatus.Offset, o.thWaitFlags.Offset, o.thWaitFD.Offset, o.thWaitTimeout} {
		o.thSpan = max(o.thSpan, off+8)
	}
	return o, nil
}
