package ui

import (
	"errors"

	"golang.org/x/sys/unix"
)

// dropUnread throws away output that the terminal has not read, so that a blocked write can continue. Then it stops the
// terminal's output and starts it again. Only this start wakes the blocked write.
func dropUnread(fd uintptr) error {
	return errors.Join(unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCOFLUSH),
		unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOOFF), unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOON))
}
