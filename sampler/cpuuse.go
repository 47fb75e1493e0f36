package sampler

// MaxCPUUsers limits how many programs a CPUUse lists by name.
const MaxCPUUsers = 3

// CPUUse says which other processes used the machine's CPUs between two readings. While a thread of the target has to
// wait for a CPU, ddtop takes a reading every few seconds.
type CPUUse struct {
	// FromNS and AtNS are when the two readings were taken, CLOCK_MONOTONIC in ns.
	FromNS, AtNS int64
	// CPUs is how many CPUs the machine has.
	CPUs int64
	// AllNS is the CPU time of all processes of the machine, in ns. UnseenNS is the part that ddtop cannot assign to a
	// process that it lists. It belongs to processes that ended, that ddtop cannot read, or that only the first reading
	// saw.
	AllNS, UnseenNS int64
	// OthersNS is the CPU time in ns of all processes that ddtop saw, except the target and ddtop itself.
	OthersNS int64
	// StolenNS is the time in which a CPU of this machine had work, but the hypervisor gave the CPU to another virtual
	// machine.
	StolenNS int64
	// Contained is true if ddtop runs in a PID namespace of its own, as in a container. ddtop then sees only the
	// processes in the container.
	Contained bool
	// LimitMilli is the tightest CPU limit of the target's cgroups, in thousandths of a CPU. It is zero if there is no
	// limit, or if ddtop cannot read it.
	LimitMilli int64
	// Users are the programs that used most of OthersNS, the largest first. There are at most MaxCPUUsers.
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
