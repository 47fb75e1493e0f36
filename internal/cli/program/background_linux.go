package program

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/kernel"
)

// adopt makes ddtop the parent of what a program leaves behind when it ends (PR_SET_CHILD_SUBREAPER, prctl(2)), so that a program that
// goes into the background can be found.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// adopted returns ddtop's living children but one, and takes the exit codes of those that have ended. Children in ddtop's own process
// group, which ddtop may have started itself, are left alone where the program has a group of its own.
func adopted(but int, ownGroup bool) []int {
	children, err := kernel.Children(os.Getpid())
	if err != nil {
		return nil
	}
	var living []int
	for _, pid := range children {
		if pid == but {
			continue
		}
		if group, err := unix.Getpgid(pid); ownGroup && (err != nil || group == unix.Getpgrp()) {
			continue
		}
		switch id, err := kernel.Identify(pid); {
		case err != nil:
		case !id.Ended:
			living = append(living, pid)
		default:
			// Of a living one whoever asks would take a stop for --pause for its end.
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
	return living
}
