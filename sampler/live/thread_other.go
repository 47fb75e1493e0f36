//go:build !linux

package live

import (
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// samplingStart is the origin of Monotonic where the kernel's clock is not asked: nothing is sampled there.
var samplingStart = time.Now()

// monotonic is a monotonic clock in ns.
func monotonic() int64 { return int64(time.Since(samplingStart)) }

// sleeper sleeps.
type sleeper struct{}

func newSleeper(_ bool) sleeper { return sleeper{} }

func (*sleeper) close() {}

func (*sleeper) until(ns int64) { time.Sleep(time.Duration(ns - monotonic())) }

func raisePriority() {}

func kernelPriority() sampler.Priority { return sampler.PriorityUnknown }

// priorityNote is "": processes can be sampled on Linux only.
func priorityNote() string { return "" }
