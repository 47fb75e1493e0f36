package pace

import "golang.org/x/sys/unix"

// SliceNS is the time slice that the sampling thread requests, in ns. It is the shortest that the kernel allows
// (kernel/sched/syscalls.c). A thread with a short slice runs soon after it wakes up. From Linux 6.12 on, it even
// interrupts a running thread with a longer slice (PREEMPT_SHORT in kernel/sched/features.h). With a usual slice, the
// sampling thread would wait until the running thread blocks or has used up its slice. Ruby threads block when they
// hand the GVL over, so most samples would come at these moments. The request needs no privilege and gives no more CPU.
const SliceNS = 100_000

// setSlice requests a time slice for a thread. Zero selects the kernel's own choice. Kernels before 6.12 accept the
// request and do nothing.
func setSlice(tid int, ns uint64) error {
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return err
	}
	if a.Policy != unix.SCHED_NORMAL {
		return nil // for other policies sched_runtime means something else, or nothing
	}
	return unix.SchedSetAttr(tid, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: a.Policy, Flags: a.Flags & unix.SCHED_FLAG_RESET_ON_FORK, Nice: a.Nice, Runtime: ns,
	}, 0)
}
