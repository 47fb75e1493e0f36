//go:build !linux

package pace

import (
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// samplingStart is the origin of Monotonic where the kernel's clock is not asked: nothing is sampled there.
var samplingStart = time.Now()

// Monotonic is a monotonic clock in ns.
func Monotonic() int64 { return int64(time.Since(samplingStart)) }

// A Sleeper sleeps.
type Sleeper struct{}

func NewSleeper(_ bool) Sleeper { return Sleeper{} }

func (*Sleeper) Close() {}

func (*Sleeper) Until(ns int64) { time.Sleep(time.Duration(ns - Monotonic())) }

func RaisePriority() {}

func KernelPriority() sampler.Priority { return sampler.PriorityUnknown }

// PriorityNote is "": processes can be sampled on Linux only.
func PriorityNote() string { return "" }

// meter says what ticks take of the CPU: nothing, since nothing is sampled here.
type meter struct{}

func NewMeter(func() int) *meter { return new(meter) }

func (*meter) Since() int64 { return 0 }

func OwnCPU() int64 { return 0 }
