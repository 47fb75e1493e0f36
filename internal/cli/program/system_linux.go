package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// adopt makes ddtop the parent of all processes that a started program leaves behind when it ends
// (PR_SET_CHILD_SUBREAPER, prctl(2)). So ddtop can find a program that goes into the background.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// removeBegin shortens a file by removing its beginning: all bytes before an offset, the parameter to. It returns
// errors.ErrUnsupported if the file system cannot do this. Only ext4 and xfs can (fallocate(2)). It also returns
// errors.ErrUnsupported if punchHole has already freed bytes (hole is above 0), because ext4 and xfs refuse in this
// case.
func removeBegin(f *os.File, hole, to int64) error {
	if hole > 0 {
		return errors.ErrUnsupported
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, to)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// punchHole frees the memory of a file's beginning: all bytes before an offset, the parameter to. They read as zeros
// afterwards (fallocate(2): tmpfs, btrfs and others).
func punchHole(f *os.File, to int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, to)
}
