package scene

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// Member is one of several processes.
type Member struct {
	Store *store.Store
	// Number is its place in the order of joining, from 1 on. path are the numbers of the processes it descends from,
	// the outermost first, and its own: the order in which a tree is read.
	Number int
	Parent int // PID; zero if not known
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
	PageProcesses PageID = "processes" // absent if there is one process
)

// Offers says which of the views that not every process has are there. There is a view of processes if there are
// several, and a view of requests once a request or a job was seen.
type Offers struct{ Processes, Requests bool }

// Host is the screen that a page is on. Keys and clicks of a page change the page itself, the scene, and what the Host
// does for it.
type Host interface {
	Showing() *Scene
	Store() *store.Store
	Message() *Message
	// Refresh loads what the page shows and draws it. Draw only draws it.
	Refresh()
	Draw()
	// Open shows another page.
	Open(id PageID) tea.Cmd
	// Leave remembers what is on the screen. It returns what to call when another page is shown: esc leads back from
	// there.
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

// Message is what the last key has to say; the next key takes it away.
type Message struct {
	Text    string
	Problem bool     // it reports a failure
	Hint    bool     // nothing was done: it says what could be
	Paths   []string // in text
}

func (l *Message) Say(text string, paths ...string) { *l = Message{Text: text, Paths: paths} }

func (l *Message) Tell(text string) { *l = Message{Text: text, Hint: true} }

func (l *Message) Fail(text string, paths ...string) {
	*l = Message{Text: text, Problem: true, Paths: paths}
}

func (l *Message) Clear() { *l = Message{} }

// Binding is one key of a view: the same value makes the key work, names it in the footer and explains it in the help,
// so the three can't disagree.
type Binding struct {
	// Keys are what tea.KeyPressMsg.String gives.
	Keys []string
	// Show is how the keys are written for people. Short has the one or two words of the footer. If it is empty, the
	// footer does not have the keys. Help is the line of the help overlay.
	Show, Short, Help string
	// Footer is how the footer writes the keys together with others. If it is empty, the footer writes Show.
	Footer string
	// Always: the footer has room for it whatever else has none.
	Always bool
	// When, if set, says whether the key does anything now: the footer leaves it out otherwise.
	When func(Host) bool
	Do   func(Host) tea.Cmd
}

// KeyMap is a view's bindings, the more important first.
type KeyMap struct {
	Title    string
	Bindings []Binding
}

// Find returns the binding of a key.
func (k *KeyMap) Find(key string) *Binding {
	for i := range k.Bindings {
		for _, s := range k.Bindings[i].Keys {
			if s == key {
				return &k.Bindings[i]
			}
		}
	}
	return nil
}

// OfFirst returns the bindings of key maps without those whose key an earlier map has: what is shown of keys is what
// they do.
func OfFirst(maps []*KeyMap) []KeyMap {
	taken := make(map[string]bool)
	out := make([]KeyMap, len(maps))
	for i, k := range maps {
		out[i].Title = k.Title
		for _, b := range k.Bindings {
			if len(b.Keys) == 0 || !taken[b.Keys[0]] {
				out[i].Bindings = append(out[i].Bindings, b)
			}
		}
		for _, b := range k.Bindings {
			for _, key := range b.Keys {
				taken[key] = true
			}
		}
	}
	return out
}

// MaxTerminal bounds the size of a picture.
const MaxTerminal = 1000

// Drag is a span of the time axis being selected with the mouse: columns of it.
type Drag struct {
	From, To int
	// Before and zoom are what was selected when the button went down: only a press that does not become a drag
	// selects.
	Before Selection
	Zoom   flamegraph.Path
}

// Inside reports whether a place of the screen is in an area of it.
func Inside(a canvas.Area, x, y int) bool { return x >= a.X && x < a.X+a.W && y >= a.Y && y < a.Y+a.H }

// DrawDrag marks the columns being selected.
func (sc *Scene) DrawDrag(a canvas.Area) {
	if sc.Drag == nil || sc.Drag.From == sc.Drag.To {
		return
	}
	from, to := min(sc.Drag.From, sc.Drag.To), max(sc.Drag.From, sc.Drag.To)
	a.Sub(from, 0, to-from+1, a.H).Restyle(func(s canvas.Style) canvas.Style { return canvas.Style{FG: s.FG, Attr: s.Attr ^ canvas.Reverse} })
}

// Zone is a part of the picture that a click does something in. What draws it says so while it draws, so that picture
// and clicks can't disagree.
type Zone struct {
	At    canvas.Area
	Press func(h Host, x, y int) tea.Cmd
}

// maxZones bounds the zones of a picture: a few for each row of the largest terminal.
const maxZones = 4 * MaxTerminal

// OnPress makes a part of the picture being drawn answer clicks; press gets the place within it.
func (sc *Scene) OnPress(a canvas.Area, press func(h Host, x, y int) tea.Cmd) {
	if a.W > 0 && a.H > 0 && len(sc.Zones) < maxZones {
		sc.Zones = append(sc.Zones, Zone{a, press})
	}
}
