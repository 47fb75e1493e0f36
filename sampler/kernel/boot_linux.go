package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is the time since the machine was started, suspension included: the clock of Identity.StartTicks.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // can't fail with a valid clock
	}
	return time.Duration(ts.Nano())
}
