//go:build !linux

package rubytest

import "syscall"

// sysProcAttr starts a program in a process group of its own, inside root unless root is "".
func sysProcAttr(root string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: root, Setpgid: true}
}

func ownMounts(*syscall.SysProcAttr) {}

func ownPIDs(*syscall.SysProcAttr) {}
