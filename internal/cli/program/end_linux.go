package program

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitReadable waits until a descriptor is readable: a pidfd is when its process has ended.
func waitReadable(fd uintptr) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
