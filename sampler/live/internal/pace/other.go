//go:build !linux

package pace

import (
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// samplingStart is the origin of Monotonic on this system, where nothing is sampled.
var samplingStart = time.Now()

// Monotonic returns the time of a monotonic clock, in ns.
func Monotonic() int64 { return int64(time.Since(samplingStart)) }

// A Sleeper sleeps until a time.
type Sleeper struct{}

// NewSleeper returns a Sleeper.
func NewSleeper(_ bool) *Sleeper { return new(Sleeper) }

// Close does nothing.
func (*Sleeper) Close() {}

// Wakes returns false, because Wake does nothing.
func (*Sleeper) Wakes() bool { return false }

// Wake does nothing.
func (*Sleeper) Wake() {}

// Until sleeps until a time of Monotonic.
func (*Sleeper) Until(ns int64) (woken bool) {
	time.Sleep(time.Duration(ns - Monotonic()))
	return false
}

// RaisePriority does nothing.
func RaisePriority() {}

// KernelPriority returns PriorityUnknown on this system.
func KernelPriority() sampler.Priority { return sampler.PriorityUnknown }

// PriorityNote returns "", because this system cannot sample processes.
func PriorityNote() string { return "" }

// A Meter measures nothing on this system, where nothing is sampled.
type Meter struct{}

// NewMeter returns a Meter.
func NewMeter(func() int) *Meter { return new(Meter) }

// Since returns 0 on this system.
func (*Meter) Since() int64 { return 0 }

// OwnCPU returns 0 on this system.
func OwnCPU() int64 { return 0 }
