package live

import (
	"sync"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/kernelview"
)

// ownCost is what ddtop itself takes, which all Sources share.
var ownCost selfCost

// selfCPUNS is how often ddtop's own CPU time is read, in ns. The kernel adds up all threads of ddtop: 2 µs with one
// process, 40 µs with fifty.
const selfCPUNS = 100_000_000

// selfCost keeps what was read of ddtop itself.
type selfCost struct {
	mu   sync.Mutex
	self sampler.Self
	// atNS is when all was read, nextNS from when on the CPU time is read again.
	atNS, nextNS int64
}

// read returns it. With anew, all is read now.
func (c *selfCost) read(now int64, anew bool) sampler.Self {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case anew || now-c.atNS > kernelview.SelfNS:
		c.atNS = now
		if self, err := kernel.ReadSelf(); err == nil {
			c.self = self
		}
	case now >= c.nextNS:
		c.nextNS = now + selfCPUNS
		if cpu, err := kernel.SelfCPU(); err == nil {
			c.self.CPUNS = cpu
		}
	}
	return c.self
}
