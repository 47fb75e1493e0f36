package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns the time since the machine booted, including suspends. Identity.StartTicks is from the same clock.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // can't fail with a valid clock
	}
	return time.Duration(ts.Nano())
}
