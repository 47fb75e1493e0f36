package kernel

import (
	"sync"

	"github.com/ddtop/ddtop/sampler"
)

// sharedNS is how long, in ns, figures of a cgroup are reused after a reading, if several processes share the cgroup.
// So for fifty workers, the cgroup's four files are read at most ten times a second.
const sharedNS = 100e6

// groupFigures are the figures that all processes of a cgroup have in common: its throttling and its pressure. Any
// goroutine may use them.
type groupFigures struct {
	text string // /proc/PID/cgroup of its processes

	mu       sync.Mutex
	cgroup   cgroup
	pressure pressure
	// throttled and pressed are from the last reading, at the time atNS, which is zero before the first reading.
	throttled throttling
	pressed   sampler.Pressure
	atNS      int64
	// processes is how many ProcReaders use these figures. The mutex of allFigures protects it.
	processes int
}

// allFigures has the figures of each cgroup that a ProcReader uses. The key is the text of /proc/PID/cgroup.
var allFigures struct {
	sync.Mutex
	of map[string]*groupFigures
}

// figuresOf returns the figures of the cgroup that /proc/PID/cgroup names. The caller calls leave after the last use.
func figuresOf(mounts []cgroupMount, text string) *groupFigures {
	allFigures.Lock()
	defer allFigures.Unlock()
	g := allFigures.of[text]
	if g == nil {
		g = &groupFigures{text: text}
		g.cgroup.open(mounts, text)
		g.pressure.init()
		g.pressure.follow(mounts, text)
		if allFigures.of == nil {
			allFigures.of = make(map[string]*groupFigures)
		}
		allFigures.of[text] = g
	}
	g.processes++
	return g
}

// leave ends a ProcReader's use of the figures. After the last use, leave closes the files.
func (g *groupFigures) leave() {
	allFigures.Lock()
	defer allFigures.Unlock()
	if g.processes--; g.processes > 0 {
		return
	}
	delete(allFigures.of, g.text)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cgroup.close()
	g.pressure.close()
}

// shared reports whether several ProcReaders use these figures.
func (g *groupFigures) shared() bool {
	allFigures.Lock()
	defer allFigures.Unlock()
	return g.processes > 1
}

// read returns the figures. nowNS is CLOCK_MONOTONIC. If the cgroup has several processes, figures that were read less
// than sharedNS ago are returned again. Otherwise read reads them each time.
func (g *groupFigures) read(mounts []cgroupMount, nowNS int64, buf []byte) (throttling, sampler.Pressure) {
	shared := g.shared()
	g.mu.Lock()
	defer g.mu.Unlock()
	if age := nowNS - g.atNS; !shared || g.atNS == 0 || age < 0 || age >= sharedNS {
		g.throttled = g.cgroup.read(buf)
		g.pressure.follow(mounts, g.text)
		g.pressed = g.pressure.read(buf)
		g.atNS = nowNS
	}
	return g.throttled, g.pressed
}
