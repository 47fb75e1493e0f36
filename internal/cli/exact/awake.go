package exact

import (
	"os/signal"
	"syscall"
)

// StayAwake keeps job control from stopping ddtop in the middle of a pause, with the process stopped until the user
// says "fg": ctrl-z, and writing to a terminal from the background.
func StayAwake() { signal.Ignore(syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGTTIN) }
