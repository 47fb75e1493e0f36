package rubytest

import "syscall"

// sysProcAttr makes a program start in its own process group, and inside root unless root is "". The kernel kills the
// program when the thread that started it ends.
func sysProcAttr(root string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: root, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// ownMounts makes the process start in its own mount namespace. Its mounts are not visible outside.
func ownMounts(a *syscall.SysProcAttr) { a.Unshareflags |= syscall.CLONE_NEWNS }

// ownPIDs makes the process start as process 1 of a new PID namespace.
func ownPIDs(a *syscall.SysProcAttr) { a.Cloneflags |= syscall.CLONE_NEWPID }
