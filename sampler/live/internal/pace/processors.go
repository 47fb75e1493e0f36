package pace

import (
	"runtime"
	"sync"
)

// maxExtraProcessors limits how many processors of Go's scheduler (GOMAXPROCS) ddtop adds for its sampling goroutines.
const maxExtraProcessors = 8

// Processors adds a processor to Go's scheduler for each sampling goroutine. Such a goroutine keeps a processor while
// it sleeps between ticks (see Sleeper). All Sources of a Group share one Processors, because it reads and writes
// GOMAXPROCS.
type Processors struct {
	mu      sync.Mutex
	running int
	added   int
}

// Enter adds a processor. The returned function removes it.
func (p *Processors) Enter() (leave func()) {
	p.change(+1)
	return func() { p.change(-1) }
}

func (p *Processors) change(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running += n
	if want := min(p.running, maxExtraProcessors); want != p.added {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + want - p.added)
		p.added = want
	}
}
