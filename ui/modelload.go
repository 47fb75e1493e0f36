package ui

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// idleEachNS is the least time between two pictures of an idle process, in ns. With it, only one tick in four draws a
// picture.
const idleEachNS = int64(900e6)

// tickOn refreshes the scene at a tick. If no thread runs or waits, ddtop takes fewer samples, and tickOn draws one
// picture per second. If no sample came since the last tick, tickOn draws one complete picture, and after that none. So
// a recording at its end, or a target that has ended or is stopped, costs no CPU time.
func tickOn(m *Model) {
	state := m.store.State()
	last, slow := m.store.Newest()
	changed := m.exactKey.update(&m.Scene, &m.message)
	changed = m.nativeKey.update(&m.Scene, &m.message) || changed
	changed = m.LookAtSwitches() || changed || m.fleet != nil || m.Playing || state.Done != m.Source.Done || state.Ended != m.Source.Ended ||
		state.Silent != m.Source.Silent || state.FailingNS != m.Source.FailingNS
	if slow && !changed && last > m.LastNS && last-m.LastNS < idleEachNS {
		return
	}
	if changed || last != m.LastNS {
		m.settled = false
		loadScene(m, false)
		return
	}
	if !m.settled {
		m.settled = true
		loadScene(m, true)
	}
}

// loadScene loads the data to show from the Store, and draws them. If force is true, it loads all data again. If force
// is false, a frozen screen keeps its data, and parts that change slowly may keep theirs.
func loadScene(m *Model, force bool) {
	if m.Frozen && !force { // only the time of the newest sample changes
		m.Source = m.store.State()
		m.store.Read(func(r *store.Reading) { m.LastNS = r.LastNS })
		m.Draw()
		return
	}
	if m.Width < scene.MinWidth || m.Height < scene.MinHeight {
		m.Draw()
		return
	}
	m.Source, m.Process = m.store.State(), m.store.Process()
	if m.Opt.Below {
		m.Below = m.store.Below()
	}
	m.exactKey.update(&m.Scene, &m.message)
	m.store.Hold(m.Frozen || m.Flame.Base != nil)
	if m.Frozen && m.AtNS != m.HeldNS {
		recall(m)
	}
	flame := force // even the same weights need a new tree if the filter or the search has changed
	names := m.Timeline.Longest()
	m.store.Read(func(r *store.Reading) {
		m.LastNS = r.LastNS
		m.OldestNS, _ = r.Timeline.Range()
		m.ExactSpans = append(m.ExactSpans[:0], r.Exact...)
		m.recordKey.failing(r, &m.message)
		if !m.Frozen {
			m.AtNS = m.LastNS
			m.States = append(m.States[:0], r.States...)
			if r.Sample != nil {
				if m.Moment == nil {
					m.Moment = new(sampler.Sample)
				}
				m.Moment.CopyFrom(r.Sample)
			}
			m.HeldNS = m.LastNS
		}
		loadFindings(m, r)
		if m.LastNS == 0 {
			m.Regions = scene.NewRegions(m.Width, m.Height, scene.Demand{Lanes: 1, Spaced: m.Presenting})
			flame = false
			return
		}
		// The data of the threads can be loaded only if the beginning and end of the time axis are known. They depend
		// on the axis's width. So a first layout computes this width.
		d := scene.Demand{Spaced: m.Presenting, Rows: 1, Lanes: len(r.Timeline.Ractors()), FlameRows: m.Flame.RowsWanted(m.LastNS),
			Longest: m.Timeline.Longest(), Timeline: m.Page == scene.PageTimeline}
		cells, span := scene.Axis(m.AxisNS(), scene.NewRegions(m.Width, m.Height, d).CellsW, r.Timeline.ColumnNS())
		m.Cells = cells
		m.FromNS, m.ToNS = m.TimeWindow(r.Timeline, span, cells)
		known := m.States
		if m.Frozen && m.AtNS != m.HeldNS {
			known = nil
		}
		m.Threads.Load(r, known, m.FromNS, m.ToNS)
		m.Threads.WaitForOthers(r.Resting, m.Moment)
		m.Timeline.FromNS, m.Timeline.ToNS = m.FromNS, m.ToNS
		budget := 0
		if m.Width >= scene.WideWidth {
			budget = scene.NewRegions(m.Width, m.Height, d).RowBudget
		}
		m.Threads.Search(m.Flame.Listed(), &m.Weights, m.Dict)
		m.Flame.Endpoint = m.Route.Number(r)
		m.Threads.Serve(m.Flame.Endpoint, &m.Weights)
		m.Timeline.BuildRows(m.Threads, budget)
		d.Rows, d.Longest = len(m.Timeline.Rows), m.Timeline.Longest()
		m.Regions = scene.NewRegions(m.Width, m.Height, d)
		m.Figures.Load(r, m.AtNS-m.WindowNS, m.AtNS)
		stale := m.WeightsStale()
		if stale {
			r.Rolling.SnapshotRange(m.AtNS-m.WindowNS, m.AtNS, &m.Weights)
			m.WeightsOf = scene.FlameRange{AtNS: m.AtNS, WindowNS: m.WindowNS, Frozen: m.Frozen}
			flame = true
			m.Timeline.Shares.LoadBlame(&m.Scene)
		}
		m.Served.Load(&m.Scene, r, stale)
		if (m.Served.Seen || m.Served.Server.Met) && !m.Offers.Requests {
			setKeys(m, scene.Offers{Processes: m.Offers.Processes, Requests: true})
		}
		m.Timeline.Shares.Choose(m.Threads, m.Regions.SharesW, m.Figures.Waiting)
		m.current().Load(&m.Scene, r)
	})
	switch {
	case !hasFlame(m):
	case flame:
		buildFlame(m, force)
	default:
		m.Panel.Place(&m.Scene, force)
	}
	switch m.Timeline.FrameCells = nil; {
	case m.Parts.HighlightsFrame(&m.Scene):
		m.store.Read(func(r *store.Reading) {
			m.Timeline.LoadFrameCells(r, m.Flame.SelNode.Text(), m.Flame.Metric, m.Flame.Under(r.Dict, m.Flame.SelNode))
		})
	case m.Page == scene.PageLive && m.Route != scene.EndpointKey{}:
		m.store.Read(func(r *store.Reading) {
			m.Timeline.LoadFrameCells(r, m.Route.String(), flamegraph.Wall, func(k flamegraph.Key) bool { return k.Endpoint == m.Flame.Endpoint })
		})
	}
	if names == 0 && m.Timeline.Longest() > 0 { // the axis begins behind the names, which are known only now
		loadScene(m, force)
		return
	}
	m.Draw()
}

// recall reads from the history what every thread did at the moment that the screen shows.
func recall(m *Model) {
	sample, states, err := m.store.Moment(m.AtNS)
	if err != nil {
		m.message.Fail(err.Error())
	}
	if sample != nil {
		m.Moment, m.States, m.HeldNS = sample, states, m.AtNS
	}
}

func loadFindings(m *Model, r *store.Reading) {
	m.Findings = scene.Findings{}
	switch {
	case r.LastNS == 0 && m.Source.Err == nil:
		m.Findings.Note = "waiting for the first sample"
	case m.Frozen:
		if k := r.Marks.LastBefore(m.AtNS); k != nil {
			m.Findings.List, m.Findings.Note, m.Findings.Growing = k.Findings, k.Unjudged.Note(true), k.Growing
		}
	default:
		m.Findings.List, m.Findings.Growing = r.Findings.Told(), r.Findings.Growing()
		m.Findings.Note = store.WhyUnjudged(r.Findings, r.LastNS-m.OldestNS).Note(m.Source.Done)
	}
	if m.Below > 0 {
		m.Findings.Below = scene.BelowText(&m.Process, m.Below)
	}
	m.Findings.Young = m.AtNS-m.OldestNS < store.MemoryWatchNS
	m.Findings.List = withNative(m.ShowableFindings(m.store, m.Findings.List), &m.Scene)
	if p, ok := m.pages[scene.PageMemory].(interface{ Growing([]findings.Finding) }); ok && !m.Frozen {
		m.Findings.List = slices.Clone(m.Findings.List)
		p.Growing(m.Findings.List)
	}
	if k := r.Marks.LastBefore(m.AtNS); k != nil {
		if h := scene.HaltOf(&k.Proc); h != nil {
			m.Findings.List = append([]findings.Finding{h.Finding}, m.Findings.List...)
		}
	}
	if m.fleet != nil && m.Page != scene.PageProcesses {
		m.fleet.page.Together(&m.Scene, r, &m.Findings)
	}
}

func buildFlame(m *Model, force bool) {
	var threads map[sampler.ThreadID]bool
	m.Flame.Filter = ""
	if m.Filter != (scene.RowKey{}) {
		threads, m.Flame.Filter = m.Threads.Members(m.Filter)
		if threads == nil { // all threads of the selected row have ended
			threads = map[sampler.ThreadID]bool{m.Filter.Thread: true}
			m.Flame.Filter = "a thread that is gone"
		}
	}
	if m.Route != (scene.EndpointKey{}) {
		m.Flame.Filter = strings.TrimPrefix(m.Flame.Filter+style.Between+m.Route.String(), style.Between)
	}
	roots := m.Timeline.Roots()
	m.Flame.Build(&m.Weights, m.Dict, threads, func(id sampler.ThreadID) string {
		if s, ok := roots[id]; ok {
			return s
		}
		return gvl.ThreadName(id, m.Dict)
	}, m.Width, m.Panel.Room(&m.Scene))
	m.Panel.Place(&m.Scene, force)
	m.Flame.Fit(m.Panel.FlameRows(&m.Scene))
}

// withNative adds to active findings the C functions in which their threads have been for a while. It does this for the
// first threads of each finding.
func withNative(list []findings.Finding, sc *scene.Scene) []findings.Finding {
	if sc.Moment == nil {
		return list
	}
	own := false
	for i := range list {
		if list[i].AgoNS != 0 || len(list[i].Threads) == 0 {
			continue
		}
		for k := range sc.Moment.Threads {
			if th := &sc.Moment.Threads[k]; th.ID == list[i].Threads[0] && th.Native != 0 {
				if !own {
					list, own = slices.Clone(list), true
				}
				stack := sc.Dict.NativeStack(th)
				list[i].Native = gvl.NativePlace(&stack)
			}
		}
	}
	return list
}
