package scene

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/store"
)

// Member is one of several processes.
type Member struct {
	Store *store.Store
	// Number is its place in the order of joining, from 1 on. path are the numbers of the processes it descends from, the
	// outermost first, and its own: the order in which a tree is read.
	Number int
	Parent int // PID; 0: not known
	Path   []int
}

// PageID names a view.
type PageID string

// The views that keys, findings and other views lead to.
const (
	PageLive      PageID = "live" // timeline and flamegraph together
	PageThreads   PageID = "threads"
	PageThread    PageID = "thread" // one thread; enter leads there
	PageTimeline  PageID = "timeline"
	PageFlame     PageID = "flame"
	PageTop       PageID = "top"
	PageLocks     PageID = "locks"
	PageMemory    PageID = "memory"
	PageRequests  PageID = "requests"
	PageWaits     PageID = "waits"
	PageProcesses PageID = "processes" // absent where there is one process
)

// Offers says which views there are that not every process has: that of processes where there are several, that of requests once
// one or a job was seen.
type Offers struct{ Processes, Requests bool }

// Host is the screen that a page is on. Keys and clicks of a page change the page itself, the scene, and what the Host does for it.
type Host interface {
	Showing() *Scene
	Store() *store.Store
	Message() *Message
	// Refresh loads what the page shows and draws it. Draw only draws it.
	Refresh()
	Draw()
	// Open shows another page.
	Open(id PageID) tea.Cmd
	// Leave remembers what is on the screen. It returns what to call when another page is shown: esc leads back from there.
	Leave() (arrived func())
	// GoToFinding shows what a finding is about. ShowFindings lists all findings.
	GoToFinding(id FindingID) tea.Cmd
	ShowFindings()
	// ShowWait shows a wait on the timeline.
	ShowWait(e *store.WaitEvent) tea.Cmd
	// OpenProcess shows another process. Act does something with one behind the view of processes.
	OpenProcess(of *Member) tea.Cmd
	Act(of *Member, a Action) tea.Cmd
}

// Action is what can be done with a process from the view of all processes.
type Action uint8

const (
	SaveAction Action = iota
	CopyAction
	CopySummaryAction
	NoteAction
	RecordAction
)

// Focus is the part of the live view that the arrow keys and enter go to.
type Focus uint8

const (
	OnTimeline Focus = iota
	OnFlame
)
