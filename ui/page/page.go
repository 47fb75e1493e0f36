package page

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// sharedKeys names a set of keys that several views share. Zero means that a view has no such set.
type sharedKeys uint8

const (
	// WeightsShared are the keys that change what the flamegraph shows.
	WeightsShared sharedKeys = iota + 1
	// SearchShared are the keys that search a list.
	SearchShared
)

// Page is a view that fills the screen. The user's choices on a page are kept when another page is opened.
type Page interface {
	// Keys returns the keys of the view. Some views have several parts, of which only the part with the focus gets
	// keys. If all is false, Keys returns only this part's keys.
	Keys(sc *scene.Scene, all bool) []*scene.KeyMap
	// Load reads the view's data from the store, which is locked during the call. The data that all views share
	// (threads, states, figures, weights) has already been loaded.
	Load(sc *scene.Scene, r *store.Reading)
	// About returns the text for the rule, the line above the view.
	About(sc *scene.Scene) string
	Draw(a canvas.Area, sc *scene.Scene)
	// Detail describes the selection in two parts, name and rest. If nothing is selected, name is empty, and rest
	// explains how to select something.
	Detail(sc *scene.Scene) (name, rest string)
	// Stack returns a text for the clipboard. title is the selection. lines are its frames, one per line, the innermost
	// first as Ruby prints them. There are no lines if nothing is selected.
	Stack(sc *scene.Scene) (title string, lines []string)
}

// Plain is a base for pages that have only one set of keys and no stack to copy.
type Plain struct{ KeyMap scene.KeyMap }

func (p *Plain) Keys(*scene.Scene, bool) []*scene.KeyMap { return []*scene.KeyMap{&p.KeyMap} }

func (p *Plain) Stack(*scene.Scene) (title string, lines []string) { return "", nil }

// Fetching is a page with data that is read in the background. Fetch returns the command that reads the data, or nil if
// none is needed. Fetched receives the messages of all such commands.
type Fetching interface {
	Fetch(h scene.Host) tea.Cmd
	Fetched(h scene.Host, msg tea.Msg)
}

// Msg is a message for pages: the result of a command that a page has started.
type Msg interface{ ForPage() }

// Timed is a page with a time axis, on which the user can select a time span with the mouse. AxisArea returns the area
// of the axis. The parameter a is the area of the page. It is below the line with the views' names. For the live view
// it is the whole screen.
type Timed interface {
	AxisArea(a canvas.Area, sc *scene.Scene) canvas.Area
}

// Wheeled is a page that handles the mouse wheel itself. If Wheel returns false for done, the wheel does the same as
// the arrow keys.
type Wheeled interface {
	Wheel(h scene.Host, x, y, d int, onAxis bool) (cmd tea.Cmd, done bool)
}

// Parted is a page that shows a list only at times. Lists reports whether it shows one now. If it does, a search
// filters the list.
type Parted interface{ Lists() bool }

// Counted is a page that counts the results of a search. Found returns the count as text.
type Counted interface{ Found() string }

// Named is a page that caches names. NamesChanged is called when names are hidden or shown again, so that the page
// reads its names again.
type Named interface{ NamesChanged() }

// View describes a page to the screen: its name, its key and how to make it.
type View struct {
	ID scene.PageID
	// Key is the key that opens the page. It is empty for a page that can only be opened from other pages.
	Key    string
	Help   string // what the page shows, in the help
	Shared sharedKeys
	// Offered reports whether the page is offered for a process. It is nil if the page is offered for every process.
	Offered func(o scene.Offers) bool
	// Make returns a new page. Make is nil if other code makes the page.
	Make func(c *widget.Parts) Page
}

// Makes converts a constructor of a page into a function of the type of View.Make.
func Makes[P Page](construct func(*widget.Parts) P) func(*widget.Parts) Page {
	return func(c *widget.Parts) Page { return construct(c) }
}
