package attach

// Rights are what decides which processes ddtop may read.
type Rights struct {
	// EUID is the effective user, User its name.
	EUID int
	User string
	// Ptrace: we have CAP_SYS_PTRACE; OpensFiles: CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE; Nice: CAP_SYS_NICE.
	Ptrace, OpensFiles, Nice bool
	// CanBecomeRoot: we are not root, and sudo could give us CAP_SYS_PTRACE.
	CanBecomeRoot bool
	// Yama is kernel.yama.ptrace_scope; -1 without Yama.
	Yama int
	// Container: we seem to run in one. InnerUsers: in a user namespace that is not the machine's first. Filtered: a
	// seccomp filter applies to us. HidesProcesses: /proc is mounted with hidepid.
	Container, InnerUsers, Filtered, HidesProcesses bool
}
