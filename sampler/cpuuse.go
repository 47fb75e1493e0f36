package sampler

// MaxCPUUsers limits how many other programs a CPUUse lists by name.
const MaxCPUUsers = 3

// CPUUse says which other processes used the machine's CPUs between two readings. While a thread of the target has to
// wait for a CPU, ddtop makes such a reading every few seconds.
type CPUUse struct {
	// FromNS and AtNS are when the two readings were taken, CLOCK_MONOTONIC in ns.
	FromNS, AtNS int64
	// CPUs is how many CPUs the machine has.
	CPUs int64
	// AllNS is the CPU time of all processes of the machine, in ns. UnseenNS is the part that belongs to no listed
	// process. The processes of this part have ended, or cannot be read, or were seen only by the first reading.
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
	// Users are the programs with the largest parts of OthersNS, the largest first. There are at most MaxCPUUsers.
	Users []CPUUser
}

// CPUUser describes all processes that have the same name, and their CPU time between the two readings of a CPUUse.
type CPUUser struct {
	// PID is the process that used most of this CPU time. Processes is the number of processes that have this Name.
	PID       int32
	Processes int64
	// Name is the kernel's name for these processes, 15 bytes at most (/proc/PID/stat).
	Name string
	NS   int64
}
