package rubyvm

import (
	"fmt"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// Offsets has the offsets, in bytes, of everything in a release's structs that ddtop reads. They are resolved once for
// a VM. An offset is -1 if the release does not have the field. The offsets of the collector are in package gc.
type Offsets struct {
	// These are fields of rb_vm_t.
	VMMainThread  int `layout:"rb_vm_struct.ractor.main_thread|main_thread"`
	vmMainRactor  int `layout:"rb_vm_struct.ractor.main_ractor,from=3.0"`
	VMRactorSet   int `layout:"rb_vm_struct.ractor.set,from=3.0"`
	vmRactorCnt   int `layout:"rb_vm_struct.ractor.cnt,from=3.0"`
	VMLiving      int `layout:"rb_vm_struct.living_threads,before=3.0"`
	VMLivingNum   int `layout:"rb_vm_struct.living_thread_num,before=3.0"`
	VMGVL         int `layout:"rb_vm_struct.gvl,before=3.0"`
	VMObjspace    int `layout:"rb_vm_struct.gc.objspace|objspace"`
	VMWaitingPids int `layout:"rb_vm_struct.waiting_pids,optional"` // 2.6 to 3.2
	VMWaitingGrps int `layout:"rb_vm_struct.waiting_grps,optional"`

	// These are the fields of the GVL, in rb_vm_t or in rb_ractor_t. In 2.5 the GVL has a flag and a number of waiters.
	// From 2.6 on it has an owner and a list of waiters.
	GVLAcquired   int          `layout:"rb_vm_struct.gvl.acquired,before=2.6"`
	GVLWaiting    int          `layout:"rb_vm_struct.gvl.waiting,before=2.6"`
	GVLOwner      int          `layout:"rb_ractor_struct|rb_vm_struct.threads.sched.running|threads.gvl.owner|gvl.owner,from=2.6"`
	GVLQueue      int          `layout:"rb_ractor_struct|rb_vm_struct.threads.sched.readyq|threads.gvl.waitq|gvl.waitq,from=2.6"`
	GVLQueueCount layout.Field `layout:"rb_ractor_struct.threads.sched.readyq_cnt,optional"`
	GVLLock       int          `layout:"rb_ractor_struct|rb_vm_struct.threads.sched.lock_|threads.sched.lock|threads.gvl.lock|gvl.lock,from=2.6"`

	// These are fields of rb_ractor_t.
	RactorID   int `layout:"rb_ractor_struct.pub.id,from=3.0"`
	RactorNode int `layout:"rb_ractor_struct.vmlr_node,from=3.0"`
	// Each tick reads the memory from the field RactorSet up to the field RactorMain as one range.
	RactorSet  int `layout:"rb_ractor_struct.threads.set,from=3.0"`
	RactorCnt  int `layout:"rb_ractor_struct.threads.cnt,from=3.0"`
	RactorMain int `layout:"rb_ractor_struct.threads.main,from=3.0"`

	// These are fields of rb_thread_t.
	ThNode         int          `layout:"rb_thread_struct.lt_node|vmlt_node"`
	ThSelf         int          `layout:"rb_thread_struct.self"`
	ThVM           int          `layout:"rb_thread_struct.vm"`
	ThRactor       int          `layout:"rb_thread_struct.ractor,from=3.0"`
	ThEC           int          `layout:"rb_thread_struct.ec"`
	ThName         int          `layout:"rb_thread_struct.name"`
	ThNT           int          `layout:"rb_thread_struct.nt,optional"`
	ThPthread      int          `layout:"rb_thread_struct.thread_id,optional"`
	ThTID          int          `layout:"rb_thread_struct.tid,optional"`
	ThRootFiber    int          `layout:"rb_thread_struct.root_fiber,optional"`
	ThScheduler    int          `layout:"rb_thread_struct.scheduler,optional"`
	ThRegion       int          `layout:"rb_thread_struct.blocking_region_buffer"`
	ThLockingMutex int          `layout:"rb_thread_struct.locking_mutex"`
	ThUnblockFunc  int          `layout:"rb_thread_struct.unblock.func"`
	ThReadyNode    int          `layout:"rb_thread_struct.sched.node.readyq|native_thread_data.node.gvl,optional"`
	ThRunningNode  int          `layout:"rb_thread_struct.sched.node.running_threads,optional"`
	ThStatus       layout.Field `layout:"rb_thread_struct.status"`
	ThWaitFlags    layout.Field `layout:"rb_thread_struct.sched.waiting_reason.flags,optional"`
	ThWaitFD       layout.Field `layout:"rb_thread_struct.sched.waiting_reason.data.fd,optional"`
	ThWaitTimeout  int          `layout:"rb_thread_struct.sched.waiting_reason.data.timeout,optional"`
	ThSpan         int          // how many bytes of rb_thread_t are read
	NTTID          int          `layout:"rb_native_thread.tid,optional"`

	// These are fields of rb_execution_context_t and rb_fiber_t.
	ecStack      int `layout:"rb_execution_context_struct.vm_stack"`
	ecStackSize  int `layout:"rb_execution_context_struct.vm_stack_size"`
	ecFrame      int `layout:"rb_execution_context_struct.cfp"`
	ECFiber      int `layout:"rb_execution_context_struct.fiber_ptr"`
	ECThread     int `layout:"rb_execution_context_struct.thread_ptr"`
	FiberSavedEC int `layout:"rb_fiber_struct.cont.saved_ec"`
	FiberPrev    int `layout:"rb_fiber_struct.prev"`

	// These are fields of rb_mutex_t and rb_monitor.
	MutexFiber   int `layout:"rb_mutex_struct.fiber,optional"`
	MutexThread  int `layout:"rb_mutex_struct.th,optional"`
	MonitorMutex int `layout:"rb_monitor.mutex,optional"`

	Objects heap.Places
	Code    code.Places
}

// ResolveOffsets finds every offset in a release's table. Its error names all that the table lacks.
func ResolveOffsets(t *layout.Table, rel places.Release) (*Offsets, error) {
	o := new(Offsets)
	if err := places.Resolve(t, rel, o, &o.Objects, &o.Code); err != nil {
		return nil, err
	}
	if err := o.Objects.Complete(rel); err != nil {
		return nil, err
	}
	o.Code.Complete(rel)
	if o.VMRactorSet >= 0 && o.vmRactorCnt != o.VMRactorSet+16 {
		// Each tick reads ractor.set and ractor.cnt as one range, so they must be next to each other. This is so in all
		// releases until now.
		return nil, fmt.Errorf("in the layout %q of Ruby %s ractor.cnt does not follow ractor.set in rb_vm_struct", t.Name, rel)
	}
	for _, off := range []int{o.ThNode + 8, o.ThSelf, o.ThVM, o.ThRactor, o.ThEC, o.ThName, o.ThNT, o.ThPthread, o.ThTID,
		o.ThRootFiber, o.ThScheduler, o.ThRegion, o.ThLockingMutex, o.ThUnblockFunc, o.ThReadyNode + 8, o.ThRunningNode + 8,
		o.ThStatus.Offset, o.ThWaitFlags.Offset, o.ThWaitFD.Offset, o.ThWaitTimeout} {
		o.ThSpan = max(o.ThSpan, off+8)
	}
	return o, nil
}
