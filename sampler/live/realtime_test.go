package live

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// TestWatchdog lets a thread tick in simulated time and says when real-time priority is taken from it.
func TestWatchdog(t *testing.T) {
	const second = int(time.Second / realTimeWatch)
	for _, c := range []struct {
		name string
		// each look: how many beats passed since the last one, and how much of a CPU was used.
		beats func(look int) uint64
		cpu   float64
		why   sampler.Priority
		least int // looks
	}{
		{"ticks at 1 kHz", func(int) uint64 { return 100 }, 0.03, 0, 0},
		{"ticks at 10 kHz", func(int) uint64 { return 1000 }, 0.3, 0, 0},
		{"takes a whole CPU", func(int) uint64 { return 1000 }, 1, sampler.PriorityDroppedBusy, int(realTimeWindow / realTimeWatch)},
		{"takes more than it may", func(int) uint64 { return 1000 }, realTimeShare + .05, sampler.PriorityDroppedBusy, int(realTimeWindow / realTimeWatch)},
		{"sleeps for long between ticks", func(look int) uint64 { return uint64(look % second / (second - 1) * 2) }, 0, 0, 0},
		{"stays in a tick", func(look int) uint64 {
			if look < second {
				return 2
			}
			return uint64(b2i(look == second))
		}, 0, sampler.PriorityDroppedSilent, second + int(realTimeSilence/realTimeWatch)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w watchdog
			var beats uint64
			var cpu, now int64
			for look := range 5 * second {
				beats += c.beats(look)
				now += realTimeWatch.Nanoseconds()
				cpu += int64(c.cpu * float64(realTimeWatch))
				if why := w.look(beats, cpu, now); why != 0 {
					if why != c.why || look < c.least || look > c.least+int(realTimeWindow/realTimeWatch) {
						t.Errorf("look %d says %v, want %v after %d", look, why, c.why, c.least)
					}
					return
				}
			}
			if c.why != 0 {
				t.Errorf("never given up, want %v", c.why)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
