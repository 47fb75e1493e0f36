package exact

import (
	"os/signal"
	"syscall"
)

// StayAwake makes ddtop ignore the signals with which job control stops a process. One is the signal of ctrl-z. Others
// come when a process in the background uses the terminal. If they stopped ddtop while it pauses the target, the target
// would stay stopped until the user types "fg".
func StayAwake() { signal.Ignore(syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGTTIN) }
