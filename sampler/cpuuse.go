package sampler

// MaxCPUUsers bounds how many programs a CPUUse names.
const MaxCPUUsers = 3

// CPUUse lists the other processes that used the machine's CPUs between two readings. ddtop takes a reading every few
// seconds while a thread of the target has to wait for a CPU.
type CPUUse struct {
	// FromNS and AtNS are when the two readings were taken, CLOCK_MONOTONIC in ns.
	FromNS, AtNS int64
	// CPUs is how many CPUs the machine has.
	CPUs int64
	// AllNS is the CPU time of all processes of the machine, in ns. UnseenNS is the part of it that ddtop can assign to
	// no listed process. It belongs to processes that ended, that ddtop cannot read, or that only the first reading
	// saw.
	AllNS, UnseenNS int64
	// OthersNS is the CPU time of all processes that ddtop saw, without the target and ddtop itself.
	OthersNS int64
	// StolenNS is the time in which a CPU of this machine had work, but the hypervisor gave the CPU to another virtual
	// machine.
	StolenNS int64
	// Contained is true if ddtop runs in a PID namespace of its own, as in a container. Then it sees only the
	// processes in it.
	Contained bool
	// LimitMilli is the tightest CPU limit of the target's cgroups, in thousandths of a CPU. It is zero if there is
	// none, or if it cannot be read.
	LimitMilli int64
	// Users are the programs with the largest parts of OthersNS, the largest first. There are at most MaxCPUUsers.
	Users []CPUUser
}

// CPUUser describes all processes that have the same name, and their CPU time between the two readings of a CPUUse.
type CPUUser struct {
	// PID is the process that used most of this CPU time. Processes is how many processes have this Name.
	PID       int32
	Processes int64
	// Name is the kernel's name for these processes, 15 bytes at most (/proc/PID/stat).
	Name string
	NS   int64
}
