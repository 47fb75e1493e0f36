package ui

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/export/snapshot"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// savedMsg is the result of saving a snapshot.
type savedMsg struct {
	path    string
	without string // which names the snapshot leaves out
	err     error
}

// pageHint is a line in a snapshot's summary. It names the command that makes an HTML page from the snapshot. ddtop
// does not make this page together with the snapshot. For the page, it would have to read ten minutes of history again.
// This takes seconds of CPU time, while the process to be examined is often in trouble.
const pageHint = "\n`ddtop report history.ddtop -o incident.html` makes a page for the postmortem of this folder's recording.\n"

// save copies at once what the screen shows, and returns the command that writes this copy to disk.
func save(m *Model) tea.Cmd {
	if m.LastNS == 0 {
		m.message.Fail("nothing to save yet: no sample has come")
		return nil
	}
	if first, last := m.store.History.Span(); first == last {
		m.message.Fail("nothing to save yet: one sample alone has no duration")
		return nil
	}
	if !hasFlame(m) { // the flamegraph's data are as old as its last drawing, so draw it now
		buildFlame(m, true)
	}
	at := m.Process.WallTime(m.AtNS)
	s := snapshot.Snapshot{
		Program: m.Process.Title, PID: m.Process.PID, At: at,
		Tree:          m.Flame.Tree,
		SVGTitle:      m.Process.Name() + " · " + style.MetricName(m.Flame.Metric) + " · " + at.Format("2006-01-02 15:04:05"),
		SVGColors:     m.Flame.SVGColors(m.Theme, m.Dict.View()),
		Summary:       summary(m) + pageHint,
		Screen:        screenToSave(m),
		ScreenOptions: screenOptions(&m.Theme, m.Process.Name()),
	}
	// Copy the data now, because the views change them later, while the files are being written.
	fromNS, toNS := m.Weights.FromNS, m.Weights.ToNS
	dict := m.Dict.View()
	if sample := m.Moment; sample != nil && (!m.Frozen || m.AtNS == m.HeldNS) {
		s.Dump = export.NewDump(m.Shareable(), dict, sample, m.States)
	}
	for _, p := range m.pages {
		if p, ok := p.(interface{ LastCount() *export.Heap }); ok {
			s.Heap = p.LastCount()
		}
	}
	history, process, notes := m.store.History, m.Shareable(), slices.Clone(m.Notes)
	var end *sampler.End
	if m.Source.Ended {
		e := m.Source.End
		end = &e
	}
	// The snapshot's recording also includes the samples that come between the key press and the writing of the
	// recording. Without them, a snapshot right after the start could have a recording of only one sample.
	s.Recording = func(w io.Writer) error {
		return history.SaveAs(w, process, dict, math.MinInt64, math.MaxInt64, end, notes)
	}
	folder := m.Opt.Folder
	without := m.LeftOut()
	m.message.Say("saving …")
	return func() tea.Msg {
		var err error
		if s.Profile, err = profileOf(history, process, dict, fromNS, toNS); err != nil {
			return savedMsg{err: err}
		}
		path, err := saveSnapshot(folder, s)
		return savedMsg{store.Absolute(path), without, err}
	}
}

// screenToSave returns a copy of the screen for a file. It hides the values of objects, which must not be in a file.
func screenToSave(m *Model) snapshot.Screen {
	m.Saving = true
	m.Draw()
	s := picturedCells(m)
	m.Saving = false
	m.Draw()
	return s
}

// profileOf makes a profile of a time span from the history, as `ddtop record` does. The weights on the screen are not
// enough for this, because they lack some data: a tracer's spans, the reasons why collections began, and which threads
// were at rest.
func profileOf(history *recording.History, process sampler.Process, dict *sampler.Dictionary, fromNS, toNS int64) (*profile.Measured, error) {
	rolling, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		return nil, err
	}
	class, stream := gvl.NewClassifier(process, dict), stream.New(process)
	rolling.DivideBy(dict)
	collector := flamegraph.NewCollector(stream, nil, rolling)
	collector.BySpan(dict, rolling.Crowded)
	collector.ByGC()
	collector.ByRest(findings.NewResting(dict).Rests)
	if err := history.Range(fromNS, toNS+1, func(s *sampler.Sample) { stream.Feed(s, class.Classify(s)) }); err != nil {
		return nil, err
	}
	stream.Finish()
	collector.Finish()
	weights := new(flamegraph.Snapshot)
	rolling.Snapshot(weights)
	return &profile.Measured{Process: process, Dict: dict, Weights: weights, Served: collector.Served()}, nil
}

// saveSnapshot writes a snapshot into a folder, and returns the snapshot's path. If the folder is missing, it makes the
// folder (mode 0700). It creates all files relative to the open folder and not by path. Otherwise the folder's owner
// could replace a folder inside it by a link, and ddtop would write elsewhere.
func saveSnapshot(parent string, s snapshot.Snapshot) (string, error) {
	folder, err := safefile.MakeFolder(parent)
	if err != nil {
		return "", fmt.Errorf("%w: choose a folder you may write to", err)
	}
	defer folder.Close()
	s.Made = safefile.HandOver
	name, err := snapshot.WriteSnapshot(folder, s)
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, name), nil
}

// saved tells the user where the snapshot is, and copies its path to the clipboard of the user's terminal (OSC 52).
func saved(m *Model, msg savedMsg) tea.Cmd {
	if msg.err != nil {
		m.message.Fail("not saved: " + msg.err.Error())
		m.Draw()
		return nil
	}
	m.message.Say("saved"+msg.without+", and its path copied: "+msg.path, msg.path)
	m.Draw()
	return copyPath(&m.Scene, msg.path)
}
