package rubytest

import "syscall"

// sysProcAttr starts a program in a process group of its own, inside root unless root is "". The kernel kills it when
// the thread that started it ends.
func sysProcAttr(root string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: root, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// ownMounts starts the process in a mount namespace of its own. Its mounts are not visible outside.
func ownMounts(a *syscall.SysProcAttr) { a.Unshareflags |= syscall.CLONE_NEWNS }

// ownPIDs starts the process as the first one of a new PID namespace.
func ownPIDs(a *syscall.SysProcAttr) { a.Cloneflags |= syscall.CLONE_NEWPID }
