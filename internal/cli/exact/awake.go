package exact

import (
	"os/signal"
	"syscall"
)

// StayAwake keeps job control from stopping ddtop: by ctrl-z, or because ddtop writes to a terminal from the
// background. If ddtop were stopped during a pause, the target would be stopped too until the user types "fg".
func StayAwake() { signal.Ignore(syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGTTIN) }
