package pace

import "golang.org/x/sys/unix"

// SliceNS is the time slice that the sampling thread asks for, in ns: the shortest that the kernel gives
// (kernel/sched/syscalls.c). From Linux 6.12 on, a thread that wakes up may take the CPU of one whose slice is longer
// at once (PREEMPT_SHORT in kernel/sched/features.h). Otherwise it waits until that one blocks or has used up what it
// was promised, and blocking is what threads do when they hand over the GVL. It takes no privilege and gives no more
// CPU.
const SliceNS = 100_000

// setSlice asks for a slice; 0: the kernel's own choice. Kernels before 6.12 take it and do nothing.
func setSlice(tid int, ns uint64) error {
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return err
	}
	if a.Policy != unix.SCHED_NORMAL {
		return nil // for the others sched_runtime means something else, or nothing
	}
	return unix.SchedSetAttr(tid, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: a.Policy, Flags: a.Flags & unix.SCHED_FLAG_RESET_ON_FORK, Nice: a.Nice, Runtime: ns,
	}, 0)
}
