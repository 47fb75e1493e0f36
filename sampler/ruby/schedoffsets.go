package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach/layout"
)

// bitField is a bit field, or a whole word when size is 0: offset in bytes of the word, width of the word in bytes.
type bitField struct {
	off, width int
	shift      uint
	size       uint
}

// get reads the field from a struct's bytes.
func (b bitField) get(buf []byte) uint64 {
	v := le(buf[b.off:], b.width)
	if b.size == 0 {
		return v
	}
	return v >> b.shift & (1<<b.size - 1)
}

func (b bitField) known() bool { return b.off >= 0 }

// le reads a little-endian number of 1, 2, 4 or 8 bytes.
func le(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(b[0]) | uint64(b[1])<<8
	case 4:
		return uint64(le32(b))
	}
	return le64(b)
}

// schedOffsets are the places that a tick reads, resolved once from the release's table. -1: this release has none.
type schedOffsets struct {
	// rb_vm_t
	vmRactorSet, vmRactorCnt     int // 3.0+
	vmLiving, vmLivingNum, vmGVL int // 2.x
	vmObjspace                   int
	vmWaitingPids, vmWaitingGrps int // 2.6 to 3.2

	// the GVL, relative to the struct that holds it (schedBase): owner, acquired (2.5), waiters
	gvlOwner, gvlAcquired, gvlWaiting, gvlQueue int
	gvlQueueCount                               bitField

	// rb_ractor_t, 3.0+
	ractorID, ractorNode, ractorSet, ractorCnt int
	ractorBlock, ractorBlockEnd                int

	// rb_thread_t
	thNode, thSelf, thVM, thEC, thName, thNT          int
	thPthread, thTID, thRootFiber                     int
	thRegion, thLockingMutex, thUnblockFunc, thRactor int
	thReadyNode, thRunningNode                        int
	thStatus                                          bitField
	thWaitFlags, thWaitFD                             bitField
	thWaitTimeout                                     int
	thSpan                                            int

	ntTID int

	ecSpan, ecFiber, ecThread int
	fiberSavedEC, fiberPrev   int
	frameSize                 int
	mutexFiber, mutexThread   int
	monitorMutex              int
	dataPayload               int
}

func newSchedOffsets(t *layout.Table) (*schedOffsets, error) {
	o := &schedOffsets{}
	var missing []string
	need := func(names ...string) int {
		for _, n := range names {
			if v := t.Offset(n); v >= 0 {
				return v
			}
		}
		missing = append(missing, names[0])
		return -1
	}
	field := func(name string) bitField {
		f, ok := t.Field(name)
		if !ok {
			return bitField{off: -1}
		}
		return bitField{off: f.Offset, width: f.Size, shift: uint(f.BitOffset), size: uint(f.BitSize)}
	}
	o.vmRactorSet = t.Offset("rb_vm_struct.ractor.set")
	o.vmLiving, o.vmGVL = -1, -1
	var holder string
	if o.vmRactorSet >= 0 {
		o.vmRactorCnt = need("rb_vm_struct.ractor.cnt")
		o.ractorID = need("rb_ractor_struct.pub.id")
		o.ractorNode = need("rb_ractor_struct.vmlr_node")
		o.ractorSet = need("rb_ractor_struct.threads.set")
		o.ractorCnt = need("rb_ractor_struct.threads.cnt")
		o.ractorBlock = o.ractorSet
		o.ractorBlockEnd = need("rb_ractor_struct.threads.main")
		holder = "rb_ractor_struct.threads.sched"
		if t.Offset(holder+".running") < 0 {
			holder = "rb_ractor_struct.threads.gvl"
		}
	} else {
		o.vmLiving = need("rb_vm_struct.living_threads")
		o.vmLivingNum = need("rb_vm_struct.living_thread_num")
		o.vmGVL = need("rb_vm_struct.gvl")
		holder = "rb_vm_struct.gvl"
	}
	o.gvlAcquired = t.Offset(holder + ".acquired")
	o.gvlWaiting = t.Offset(holder + ".waiting")
	o.gvlOwner, o.gvlQueue = -1, -1
	if o.gvlAcquired < 0 {
		o.gvlOwner = need(holder+".running", holder+".owner")
		o.gvlQueue = need(holder+".readyq", holder+".waitq")
	}
	o.gvlQueueCount = field(holder + ".readyq_cnt")
	o.vmObjspace = need("rb_vm_struct.gc.objspace", "rb_vm_struct.objspace")
	o.vmWaitingPids = t.Offset("rb_vm_struct.waiting_pids")
	o.vmWaitingGrps = t.Offset("rb_vm_struct.waiting_grps")

	th := "rb_thread_struct."
	o.thNode = need(th+"lt_node", th+"vmlt_node")
	o.thSelf = need(th + "self")
	o.thVM = need(th + "vm")
	o.thRactor = t.Offset(th + "ractor")
	o.thEC = need(th + "ec")
	o.thName = need(th + "name")
	o.thNT = t.Offset(th + "nt")
	o.thPthread = t.Offset(th + "thread_id")
	o.thTID = t.Offset(th + "tid")
	o.thRootFiber = t.Offset(th + "root_fiber")
	o.thRegion = need(th + "blocking_region_buffer")
	o.thLockingMutex = need(th + "locking_mutex")
	o.thUnblockFunc = need(th + "unblock.func")
	o.thReadyNode = t.Offset(th + "sched.node.readyq")
	if o.thReadyNode < 0 {
		o.thReadyNode = t.Offset(th + "native_thread_data.node.gvl")
	}
	o.thRunningNode = t.Offset(th + "sched.node.running_threads")
	o.thStatus = field(th + "status")
	if !o.thStatus.known() {
		missing = append(missing, th+"status")
	}
	o.thWaitFlags = field(th + "sched.waiting_reason.flags")
	o.thWaitFD = field(th + "sched.waiting_reason.data.fd")
	o.thWaitTimeout = t.Offset(th + "sched.waiting_reason.data.timeout")
	for _, off := range []int{o.thNode + 8, o.thSelf, o.thVM, o.thRactor, o.thEC, o.thName, o.thNT, o.thPthread, o.thTID,
		o.thRootFiber, o.thRegion, o.thLockingMutex, o.thUnblockFunc, o.thReadyNode + 8, o.thRunningNode + 8,
		o.thStatus.off, o.thWaitFlags.off, o.thWaitFD.off, o.thWaitTimeout} {
		o.thSpan = max(o.thSpan, off+8)
	}
	o.ntTID = t.Offset("rb_native_thread.tid")

	o.ecFiber = need("rb_execution_context_struct.fiber_ptr")
	o.ecThread = need("rb_execution_context_struct.thread_ptr")
	o.ecSpan = 24 // vm_stack, vm_stack_size, cfp: the first three words on every release (docs/internals/stacks.md#the-vm-stack)
	o.fiberSavedEC = need("rb_fiber_struct.cont.saved_ec")
	o.fiberPrev = need("rb_fiber_struct.prev")
	o.frameSize = t.Size("rb_control_frame_struct")
	if o.frameSize <= 0 {
		missing = append(missing, "rb_control_frame_struct")
	}
	o.mutexFiber = t.Offset("rb_mutex_struct.fiber")
	o.mutexThread = t.Offset("rb_mutex_struct.th")
	o.monitorMutex = t.Offset("rb_monitor.mutex")
	o.dataPayload = need("RTypedData.data")
	if len(missing) > 0 {
		return nil, fmt.Errorf("the layout table %q has no %v", t.Name, missing)
	}
	return o, nil
}
