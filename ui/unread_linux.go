package ui

import (
	"errors"

	"golang.org/x/sys/unix"
)

// dropUnread throws away output that a terminal has not read, so that a blocked write continues. After that, it stops
// and starts output, because only a start of output tells a blocked write that there is room.
func dropUnread(fd uintptr) error {
	return errors.Join(unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCOFLUSH),
		unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOOFF), unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOON))
}
