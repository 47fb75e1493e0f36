//go:build !linux

package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func setAppend(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_APPEND)
	}
	return err
}

func removeBegin(*os.File, int64, int64) error { return errors.ErrUnsupported }

func punchHole(*os.File, int64) error { return errors.ErrUnsupported }
