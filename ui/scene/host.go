package scene

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// Member is one of several processes that ddtop shows.
type Member struct {
	Store *store.Store
	// Number is 1 for the first process that joined, 2 for the second, and so on. Path has the numbers of the process's
	// ancestors, the outermost first, and at the end its own Number. If processes are sorted by Path, each process is
	// followed by its descendants.
	Number int
	Parent int // PID; zero if not known
	Path   []int
}

// PageID names a view.
type PageID string

// These are the views that can be opened by keys, by findings and from other views.
const (
	PageLive      PageID = "live" // timeline and flamegraph together
	PageThreads   PageID = "threads"
	PageThread    PageID = "thread" // one thread; enter opens this page
	PageTimeline  PageID = "timeline"
	PageFlame     PageID = "flame"
	PageTop       PageID = "top"
	PageLocks     PageID = "locks"
	PageMemory    PageID = "memory"
	PageRequests  PageID = "requests"
	PageWaits     PageID = "waits"
	PageProcesses PageID = "processes" // absent if there is only one process
)

// Offers says which of the optional views the screen has. Processes is true if ddtop shows several processes. Requests
// is true as soon as ddtop has seen a request or a job.
type Offers struct{ Processes, Requests bool }

// Host is the screen around a page. The keys and clicks of a page change the page itself and the scene. To change
// anything else, they call methods of the Host.
type Host interface {
	Showing() *Scene
	Store() *store.Store
	Message() *Message
	// Refresh loads the data that the page shows, and draws them. Draw draws the data that are already loaded.
	Refresh()
	Draw()
	// Open shows another page.
	Open(id PageID) tea.Cmd
	// Leave remembers the present screen, so that esc can return to it. The caller then opens another page, and after
	// that calls arrived.
	Leave() (arrived func())
	// GoToFinding shows what a finding is about. ShowFindings lists all findings.
	GoToFinding(id FindingID) tea.Cmd
	ShowFindings()
	// ShowWait shows a wait on the timeline.
	ShowWait(e *store.WaitEvent) tea.Cmd
	// OpenProcess shows another process. Act does an action, such as saving, with a process, while the view of all
	// processes stays open.
	OpenProcess(of *Member) tea.Cmd
	Act(of *Member, a Action) tea.Cmd
}

// Action is something that the user can do with a process in the view of all processes, such as saving.
type Action uint8

const (
	SaveAction Action = iota
	CopyAction
	CopySummaryAction
	NoteAction
	RecordAction
)

// Focus says which part of the live view receives the arrow keys and enter.
type Focus uint8

const (
	OnTimeline Focus = iota
	OnFlame
)

// Message is a text in the last line of the screen that says what the last key did. It disappears at the next key
// press.
type Message struct {
	Text    string
	Problem bool     // the text reports a failure
	Hint    bool     // nothing was done, and the text says what the user can do
	Paths   []string // paths in Text
}

func (l *Message) Say(text string, paths ...string) { *l = Message{Text: text, Paths: paths} }

func (l *Message) Tell(text string) { *l = Message{Text: text, Hint: true} }

func (l *Message) Fail(text string, paths ...string) {
	*l = Message{Text: text, Problem: true, Paths: paths}
}

func (l *Message) Clear() { *l = Message{} }

// Binding is one key of a view. The same Binding makes the key work, names it in the footer and explains it in the
// help, so these three always agree.
type Binding struct {
	// Keys are the names of the keys, as tea.KeyPressMsg.String returns them.
	Keys []string
	// Show is how the screen writes the keys, such as "enter". Short is a text of one or two words for the footer. If
	// Short is empty, the footer does not show the keys. Help is the text in the help.
	Show, Short, Help string
	// Footer is how the footer writes this key when it shows it together with related keys. If Footer is empty, the
	// footer writes Show.
	Footer string
	// Always is true if the footer shows the key even if there is no room for other keys.
	Always bool
	// When reports whether the key has an effect now. The footer leaves out a key without effect. A nil When means that
	// the key always has an effect.
	When func(Host) bool
	Do   func(Host) tea.Cmd
}

// KeyMap has the key bindings of a view, the most important first.
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

// OfFirst returns copies of the key maps in which each key occurs only once. If several maps have the same key, it
// stays only in the first of them.
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

// MaxTerminal limits the width and the height of a picture, in cells.
const MaxTerminal = 1000

// Drag is the part of the time axis that the user is selecting with the mouse. From and To are columns of the axis.
type Drag struct {
	From, To int
	// Before and Zoom are the selection and the zoom from before the mouse button was pressed. The press itself may
	// have changed them. If the user then drags the mouse, they are restored, because only a click selects.
	Before Selection
	Zoom   flamegraph.Path
}

// Inside reports whether the cell at x, y of the screen is in an area.
func Inside(a canvas.Area, x, y int) bool { return x >= a.X && x < a.X+a.W && y >= a.Y && y < a.Y+a.H }

// DrawDrag marks the columns being selected.
func (sc *Scene) DrawDrag(a canvas.Area) {
	if sc.Drag == nil || sc.Drag.From == sc.Drag.To {
		return
	}
	from, to := min(sc.Drag.From, sc.Drag.To), max(sc.Drag.From, sc.Drag.To)
	a.Sub(from, 0, to-from+1, a.H).Restyle(func(s canvas.Style) canvas.Style { return canvas.Style{FG: s.FG, Attr: s.Attr ^ canvas.Reverse} })
}

// Zone is a part of the picture that reacts to clicks. The code that draws this part also adds its Zone, so that the
// zones always agree with the picture.
type Zone struct {
	At    canvas.Area
	Press func(h Host, x, y int) tea.Cmd
}

// maxZones limits how many zones a picture has: four for each row of the largest terminal.
const maxZones = 4 * MaxTerminal

// OnPress makes an area of the picture react to clicks: a click into the area calls press. The parameters x and y of
// press are relative to the area.
func (sc *Scene) OnPress(a canvas.Area, press func(h Host, x, y int) tea.Cmd) {
	if a.W > 0 && a.H > 0 && len(sc.Zones) < maxZones {
		sc.Zones = append(sc.Zones, Zone{a, press})
	}
}
