package attach

// Rights are the facts about ddtop and this machine that decide which processes ddtop may read.
type Rights struct {
	// EUID is the effective user, User its name.
	EUID int
	User string
	// Ptrace is true if ddtop has CAP_SYS_PTRACE. OpensFiles is true if it has CAP_DAC_READ_SEARCH or
	// CAP_DAC_OVERRIDE. Nice is true if it has CAP_SYS_NICE.
	Ptrace, OpensFiles, Nice bool
	// CanBecomeRoot is true if ddtop is not root, and sudo could give it CAP_SYS_PTRACE.
	CanBecomeRoot bool
	// Yama is kernel.yama.ptrace_scope, or -1 without Yama.
	Yama int
	// Container is true if ddtop seems to run in a container. InnerUsers is true if it is in a user namespace that is
	// not the machine's first. Filtered is true if a seccomp filter applies to it. HidesProcesses is true if /proc is
	// mounted with hidepid.
	Container, InnerUsers, Filtered, HidesProcesses bool
}
