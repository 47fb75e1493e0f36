//go:build !linux

package kernel

import "time"

// SinceBoot is 0: no process can be identified here.
func SinceBoot() time.Duration { return 0 }
