package ui

import (
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
)

// idleEachNS is how old the picture of an idle process may be: one tick in four is drawn.
const idleEachNS = int64(900e6)

// tickOn is refresh at a tick. Where nothing runs or waits, so that the clock has slowed down, one picture a second is enough.
// Where no sample came since the last one there is a last full picture and then none, so that a recording at its end, a target
// that has ended and one that is stopped cost nothing.
func tickOn(m *Model) {
	state := m.store.State()
	last, slow := m.store.Newest()
	changed := m.exactKey.look(&m.scene, &m.message)
	changed = m.lookAtSwitches() || changed || m.fleet != nil || m.playing || state.Done != m.source.Done || state.Ended != m.source.Ended ||
		state.Silent != m.source.Silent || state.FailingNS != m.source.FailingNS
	if slow && !changed && last > m.lastNS && last-m.lastNS < idleEachNS {
		return
	}
	if changed || last != m.lastNS {
		m.settled = false
		loadScene(m, false)
		return
	}
	if !m.settled {
		m.settled = true
		loadScene(m, true)
	}
}

// loadScene is Refresh; without force, parts that change slowly may stay as they are.
func loadScene(m *Model, force bool) {
	if m.frozen && !force { // only the newest sample moves on
		m.source = m.store.State()
		m.store.Read(func(r *store.Reading) { m.lastNS = r.LastNS })
		m.Draw()
		return
	}
	if m.width < minWidth || m.height < minHeight {
		m.Draw()
		return
	}
	m.source = m.store.State()
	m.exactKey.look(&m.scene, &m.message)
	m.store.Hold(m.frozen || m.flame.base != nil)
	if m.frozen && m.atNS != m.heldNS {
		recall(m)
	}
	flame := force // another filter or search needs another tree, of the same weights
	names := m.timeline.longest()
	m.store.Read(func(r *store.Reading) {
		m.lastNS = r.LastNS
		m.oldestNS, _ = r.Timeline.Range()
		m.exactSpans = append(m.exactSpans[:0], r.Exact...)
		m.recordKey.failing(r, &m.message)
		if !m.frozen {
			m.atNS = m.lastNS
			m.states = append(m.states[:0], r.States...)
			if r.Sample != nil {
				if m.moment == nil {
					m.moment = new(sampler.Sample)
				}
				m.moment.CopyFrom(r.Sample)
			}
			m.heldNS = m.lastNS
		}
		loadFindings(m, r)
		if m.lastNS == 0 {
			m.regions = newRegions(m.width, m.height, demand{lanes: 1, spaced: m.presenting})
			flame = false
			return
		}
		// The width of the time axis decides the edges of its columns, so the threads come after it.
		d := demand{spaced: m.presenting, rows: 1, lanes: len(r.Timeline.Ractors()), flameRows: m.flame.wanted(m.lastNS),
			longest: m.timeline.longest()}
		cells, span := axis(m.axisNS(), newRegions(m.width, m.height, d).cellsW, r.Timeline.ColumnNS())
		m.cells = cells
		m.fromNS, m.toNS = m.timeWindow(r.Timeline, span, cells)
		known := m.states
		if m.frozen && m.atNS != m.heldNS {
			known = nil
		}
		m.threads.load(r, known, m.fromNS, m.toNS)
		m.threads.waitForPool(m.findings.current())
		m.timeline.fromNS, m.timeline.toNS = m.fromNS, m.toNS
		budget := 0
		if m.width >= wideWidth {
			budget = newRegions(m.width, m.height, d).rowBudget
		}
		m.threads.search(m.flame.listed(), &m.weights, m.dict)
		m.flame.endpoint = m.route.number(r)
		m.threads.serve(m.flame.endpoint, &m.weights)
		m.timeline.buildRows(m.threads, budget)
		d.rows, d.longest = len(m.timeline.rows), m.timeline.longest()
		m.regions = newRegions(m.width, m.height, d)
		m.figures.load(r, m.atNS-m.windowNS, m.atNS)
		stale := m.weightsStale()
		if stale {
			r.Rolling.SnapshotRange(m.atNS-m.windowNS, m.atNS, &m.weights)
			m.weightsOf = flameRange{m.atNS, m.windowNS, m.frozen}
			flame = true
			m.timeline.shares.loadBlame(&m.scene)
		}
		m.served.load(&m.scene, r, stale)
		if (m.served.seen || m.served.server.met) && !m.offers.requests {
			setKeys(m, offers{processes: m.offers.processes, requests: true})
		}
		m.timeline.shares.choose(m.threads, m.regions.sharesW, m.figures.waiting)
		m.current().load(&m.scene, r)
	})
	switch {
	case !m.hasFlame():
	case flame:
		buildFlame(m, force)
	default:
		m.panel.place(&m.scene, force)
	}
	switch m.timeline.frameCells = nil; {
	case m.components.highlightsFrame(&m.scene):
		m.store.Read(func(r *store.Reading) {
			m.timeline.loadFrameCells(r, m.flame.selNode.Text(), m.flame.metric, m.flame.under(r.Dict, m.flame.selNode))
		})
	case m.page == pageLive && m.route != endpointKey{}:
		m.store.Read(func(r *store.Reading) {
			m.timeline.loadFrameCells(r, m.route.String(), flamegraph.Wall, func(k flamegraph.Key) bool { return k.Endpoint == m.flame.endpoint })
		})
	}
	if names == 0 && m.timeline.longest() > 0 { // the names decide where the axis begins, and are known only now
		loadScene(m, force)
		return
	}
	m.Draw()
}

// recall takes what every thread did at the moment that is shown from the history.
func recall(m *Model) {
	sample, states, err := m.store.Moment(m.atNS)
	if err != nil {
		m.message.fail(err.Error())
	}
	if sample != nil {
		m.moment, m.states, m.heldNS = sample, states, m.atNS
	}
}

// flameRange is the stretch of time that the flamegraph's weights are of.
type flameRange struct {
	atNS, windowNS int64
	frozen         bool
}

// weightsStale reports whether the flamegraph needs new weights: at another time or stretch of time, and while live only
// every now and then, since what it shows covers many seconds, though not at first.
func (sc *scene) weightsStale() bool {
	const leastNS, secondNS, parts = int64(500e6), int64(1e9), 120
	of := sc.weightsOf
	if of.windowNS != sc.windowNS || of.frozen != sc.frozen || sc.atNS < of.atNS || sc.frozen && sc.atNS != of.atNS {
		return true
	}
	return sc.atNS-of.atNS >= min(max(leastNS, min(secondNS, sc.windowNS/30), sc.windowNS/parts), (sc.atNS-sc.oldestNS)/2)
}

// axis returns how many cells the time axis has and the stretch of time it covers. A cell is a whole number of kept
// columns, so that the picture moves by whole cells and does not shimmer; there are as many as come nearest to the
// window and fit the terminal's columns.
func axis(windowNS int64, cols int, columnNS int64) (cells int, spanNS int64) {
	cols = max(cols, 1)
	each := max((windowNS+int64(cols)*columnNS-1)/(int64(cols)*columnNS), 1) * columnNS
	cells = max(1, min(int((windowNS+each/2)/each), cols))
	return cells, each * int64(cells)
}

const (
	// shiftNS is how long the time axis of a live picture stands at least before it moves on: a move repaints nearly every cell of
	// the timeline, which makes most of the bytes to the terminal, and unrest.
	shiftNS = int64(500e6)
	// shiftShare: a move is at most one in so many of the cells.
	shiftShare = 20
)

// timeWindow returns the edges of the time axis, which ends with the moment that is shown. That of a live picture with short cells
// moves by several of them at a time and has only whole ones, so that it stands between two moves.
func (sc *scene) timeWindow(tl *gvl.Timeline, spanNS int64, cells int) (fromNS, toNS int64) {
	fromNS, toNS = tl.Window(sc.atNS, spanNS, cells)
	if sc.frozen || sc.source.Done {
		return fromNS, toNS
	}
	each := (toNS - fromNS) / int64(cells)
	step := each * min((shiftNS+each-1)/each, int64(cells/shiftShare))
	if step <= each { // a cell stands long enough
		return fromNS, toNS
	}
	end := sc.atNS / step * step
	if end-sc.oldestNS < step { // there would be nothing in it
		return fromNS, toNS
	}
	return end - (toNS - fromNS), end
}

func loadFindings(m *Model, r *store.Reading) {
	m.findings = findingsView{}
	switch {
	case r.LastNS == 0 && m.source.Err == nil:
		m.findings.note = "waiting for the first sample"
	case m.frozen:
		if k := r.Marks.Before(m.atNS); k != nil {
			m.findings.list, m.findings.note = k.Findings, k.Unjudged.Note(true)
		}
	default:
		m.findings.list = r.Findings.Told()
		m.findings.note = store.WhyUnjudged(r.Findings, r.LastNS-m.oldestNS).Note(m.source.Done)
	}
	m.findings.young = m.atNS-m.oldestNS < store.MemoryWatchNS
	m.findings.list = m.showableFindings(m.store, m.findings.list)
	if k := r.Marks.Before(m.atNS); k != nil {
		if h := haltOf(&k.Proc); h != nil {
			m.findings.list = append([]gvl.Finding{h.finding}, m.findings.list...)
		}
	}
}

// halt is something that holds all threads of a process from outside. Its finding leads the others: no rule looks at the process
// then, and all of its threads seem to wait for what they did last.
type halt struct {
	word    string
	finding gvl.Finding
}

// haltOf is what holds a process; nil: nothing does.
func haltOf(p *sampler.Proc) *halt {
	switch {
	case p.Frozen:
		return &processFrozen
	case p.Stopped:
		return &processStopped
	}
	return nil
}

var (
	processStopped = halt{"stopped", gvl.Finding{
		Severity: gvl.SeverityCrit, Title: "The process is stopped",
		Text: "a signal (SIGSTOP, SIGTSTP) or a debugger holds all of its threads: nothing runs",
		Next: "kill -CONT lets it go on after a signal; after a debugger, its own detach",
	}}
	processFrozen = halt{"frozen", gvl.Finding{
		Severity: gvl.SeverityCrit, Title: "Frozen by its cgroup",
		Text: "the cgroup of the process, or a parent of it, is frozen (docker pause, systemctl freeze): nothing runs",
		Next: "docker unpause or systemctl thaw lets it go on",
	}}
)

func buildFlame(m *Model, force bool) {
	var threads map[sampler.ThreadID]bool
	m.flame.filter = ""
	if m.filter != (rowKey{}) {
		threads, m.flame.filter = m.threads.members(m.filter)
		if threads == nil { // all of them are gone
			threads = map[sampler.ThreadID]bool{m.filter.thread: true}
			m.flame.filter = "a thread that is gone"
		}
	}
	if m.route != (endpointKey{}) {
		m.flame.filter = strings.TrimPrefix(m.flame.filter+between+m.route.String(), between)
	}
	roots := m.timeline.roots()
	m.flame.build(&m.weights, m.dict, threads, func(id sampler.ThreadID) string {
		if s, ok := roots[id]; ok {
			return s
		}
		return gvl.ThreadName(id, m.dict)
	}, m.width, m.panel.room(&m.scene))
	m.panel.place(&m.scene, force)
	m.flame.fit(m.panel.flameRows(&m.scene))
}
