package exact

import (
	"os/signal"
	"syscall"
)

// StayAwake prevents job control from stopping ddtop. The reason for a stop would be ctrl-z, or a write to the terminal
// from the background. If ddtop were stopped while it pauses the target, the target would stay stopped until the user
// types "fg".
func StayAwake() { signal.Ignore(syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGTTIN) }
