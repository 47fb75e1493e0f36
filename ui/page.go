package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// pageID names a view.
type pageID string

// The views that keys, findings and other views lead to.
const (
	pageLive      pageID = "live" // timeline and flamegraph together
	pageThreads   pageID = "threads"
	pageThread    pageID = "thread" // one thread; enter leads there
	pageTimeline  pageID = "timeline"
	pageFlame     pageID = "flame"
	pageTop       pageID = "top"
	pageLocks     pageID = "locks"
	pageMemory    pageID = "memory"
	pageRequests  pageID = "requests"
	pageWaits     pageID = "waits"
	pageProcesses pageID = "processes" // absent where there is one process
)

// offers says which views there are that not every process has: that of processes where there are several, that of requests once
// one or a job was seen.
type offers struct{ processes, requests bool }

// sharedKeys are keys that several views have.
type sharedKeys uint8

const (
	noShared sharedKeys = iota
	// weightsShared are the keys that change what the flamegraph shows.
	weightsShared
	// searchShared are the keys that search a list.
	searchShared
)

// page is a view that fills the screen. What it keeps of a person's choices survives a change of pages.
type page interface {
	// keys returns the keys of the view. Of a view with several parts these are the keys of the part with the focus, or of all parts.
	keys(sc *scene, all bool) []*keyMap
	// load takes what the view shows from the store, which is held meanwhile. What the scene holds for all views (threads, states,
	// figures, weights) is loaded before.
	load(sc *scene, r *store.Reading)
	// about says in the rule above the view what it shows.
	about(sc *scene) string
	draw(a canvas.Area, sc *scene)
	// detail describes what is selected. If name is empty, rest says how to select something.
	detail(sc *scene) (name, rest string)
	// stack returns what the clipboard gets: what is selected, and its frames, a line each, the innermost first as Ruby prints them.
	// There are no lines if nothing is selected.
	stack(sc *scene) (title string, lines []string)
}

// plainPage is what pages have in common that have one set of keys and no stack to copy.
type plainPage struct{ keyMap keyMap }

func (p *plainPage) keys(*scene, bool) []*keyMap { return []*keyMap{&p.keyMap} }

func (p *plainPage) stack(*scene) (title string, lines []string) { return "", nil }

// fetching is a page that lacks something that takes a while to read. fetch returns the command that reads it, or nil. fetched gets
// the messages of all such commands.
type fetching interface {
	fetch(h Host) tea.Cmd
	fetched(h Host, msg tea.Msg)
}

// pageMsg is a message for pages: what a command of theirs has read.
type pageMsg interface{ ForPage() }

// timed is a page with a time axis, on which the mouse selects a part of the time. a is the screen under the rule above the page,
// that of the live view all of it.
type timed interface {
	axisArea(a canvas.Area, sc *scene) canvas.Area
}

// wheeled is a page in which the wheel can do something else than the arrow keys. done is false where it does not.
type wheeled interface {
	wheel(h Host, x, y, d int, onAxis bool) (cmd tea.Cmd, done bool)
}

// counted is a page that says what a search has found in it.
type counted interface{ found() string }

// named is a page that keeps names, which namesChanged has it read again.
type named interface{ namesChanged() }

// Host is the screen that a page is on. Keys and clicks of a page change the page itself, the scene, and what the Host does for it.
type Host interface {
	Scene() *scene
	Store() *store.Store
	Message() *message
	// Refresh loads what the page shows and draws it. Draw only draws it.
	Refresh()
	Draw()
	// Open shows another page.
	Open(id pageID) tea.Cmd
	// Leave remembers what is on the screen. It returns what to call when another page is shown: esc leads back from there.
	Leave() (arrived func())
	// GoToFinding shows what a finding is about. ShowFindings lists all findings.
	GoToFinding(id findingID) tea.Cmd
	ShowFindings()
	// ShowWait shows a wait on the timeline.
	ShowWait(e *store.WaitEvent) tea.Cmd
	// OpenProcess shows another process. Act does something with one behind the view of processes.
	OpenProcess(of *member) tea.Cmd
	Act(of *member, a action) tea.Cmd
}

// action is what can be done with a process from the view of all processes.
type action uint8

const (
	saveAction action = iota
	copyAction
	copySummaryAction
	noteAction
	recordAction
)

// focus is the part of the live view that the arrow keys and enter go to.
type focus uint8

const (
	onTimeline focus = iota
	onFlame
)
