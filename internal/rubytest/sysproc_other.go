//go:build !linux

package rubytest

import "syscall"

// sysProcAttr makes a program start in its own process group, and inside root unless root is "".
func sysProcAttr(root string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: root, Setpgid: true}
}

func ownMounts(*syscall.SysProcAttr) {}

func ownPIDs(*syscall.SysProcAttr) {}
