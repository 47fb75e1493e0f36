package ui

import (
	"errors"

	"golang.org/x/sys/unix"
)

// dropUnread throws away what was written to a terminal and not read from it, so that a write that waits for room goes
// on. That there is room the kernel tells a waiting write when output is started, which it has to be stopped for.
func dropUnread(fd uintptr) error {
	return errors.Join(unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCOFLUSH),
		unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOOFF), unix.IoctlSetInt(int(fd), unix.TCXONC, unix.TCOON))
}
