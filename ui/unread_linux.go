package ui

import (
	"errors"

	"golang.org/x/sys/unix"
)

// dropUnread throws away what was written to a terminal but not read from it, so that a blocked write continues. The
// kernel tells a blocked write that there is room only when output is started, so dropUnread stops and starts it.
func dropUnread(fd uintptr) error {
	return errors.Join(unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCOFLUSH),
		unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOOFF), unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOON))
}
