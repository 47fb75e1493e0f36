package cli

import (
	"os"
	"runtime/debug"
)

// memoryAim is the memory of its own, in bytes, beyond which ddtop collects its garbage more often rather than take more.
// What is kept of a process is below it as a rule (docs/internals/reading.md has the limits); half as much again would be garbage.
const memoryAim = 400 << 20

// boundMemory sets memoryAim, unless the environment has another one.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryAim)
	}
}
