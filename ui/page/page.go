package page

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// sharedKeys names a set of keys that several views share. Zero means that a view uses none of these sets.
type sharedKeys uint8

const (
	// WeightsShared is the set of keys that change what the flamegraph shows.
	WeightsShared sharedKeys = iota + 1
	// SearchShared is the set of keys that search a list.
	SearchShared
)

// Page is a view that fills the screen. It keeps the user's choices, such as the sort order, while another page is
// open.
type Page interface {
	// Keys returns the keys of the view. In a view with several parts, keys go only to the part with the focus. If all
	// is false, Keys returns only the keys of this part.
	Keys(sc *scene.Scene, all bool) []*scene.KeyMap
	// Load reads the view's own data from the store, which is locked during the call. The data that all views need
	// (threads, states, figures, weights) has already been loaded.
	Load(sc *scene.Scene, r *store.Reading)
	// About returns the text for the line above the view (the rule).
	About(sc *scene.Scene) string
	Draw(a canvas.Area, sc *scene.Scene)
	// Detail describes what the user has selected, in two parts: name and rest. If nothing is selected, name is empty,
	// and rest explains how to select something.
	Detail(sc *scene.Scene) (name, rest string)
	// Stack returns the selected stack for the clipboard. title names the selection. lines are the frames, one per
	// line, the innermost first as Ruby prints them. There are no lines if nothing is selected.
	Stack(sc *scene.Scene) (title string, lines []string)
}

// Plain is a base type for pages that have one set of keys and no stack to copy.
type Plain struct{ KeyMap scene.KeyMap }

func (p *Plain) Keys(*scene.Scene, bool) []*scene.KeyMap { return []*scene.KeyMap{&p.KeyMap} }

func (p *Plain) Stack(*scene.Scene) (title string, lines []string) { return "", nil }

// Fetching is a page with data that is read in the background. Fetch returns the command that reads the data, or nil if
// no data is needed. Fetched receives the messages that these commands return.
type Fetching interface {
	Fetch(h scene.Host) tea.Cmd
	Fetched(h scene.Host, msg tea.Msg)
}

// Msg is a message for pages: the result of a command that a page has started.
type Msg interface{ ForPage() }

// Timed is a page with a time axis, on which the user can select a time span with the mouse. AxisArea returns the area
// of the axis. a is the area of the page: for the live view the whole screen, and for other views the rows below the
// line with the views' names.
type Timed interface {
	AxisArea(a canvas.Area, sc *scene.Scene) canvas.Area
}

// Wheeled is a page that handles the mouse wheel itself. If Wheel returns false for done, the wheel acts like the arrow
// keys instead.
type Wheeled interface {
	Wheel(h scene.Host, x, y, d int, onAxis bool) (cmd tea.Cmd, done bool)
}

// Parted is a page with several parts, some of which are not lists. Lists reports whether the page shows a list now. If
// it does, a search filters this list.
type Parted interface{ Lists() bool }

// Counted is a page that counts the results of a search. Found returns the number of results as text.
type Counted interface{ Found() string }

// Named is a page that caches names. NamesChanged is called when the screen begins to hide names, or stops hiding them.
// The page then reads its names again.
type Named interface{ NamesChanged() }

// View describes a page to the screen: its name, its key and how to make it.
type View struct {
	ID scene.PageID
	// Key is the key that opens the page. It is empty for a page that can only be opened from other pages.
	Key    string
	Help   string // what the page shows, in the help
	Shared sharedKeys
	// Offered reports whether the page makes sense for a process. It is nil if the page is offered for every process.
	Offered func(o scene.Offers) bool
	// Make returns a new page. Make is nil for a page that is made by code outside the list of views.
	Make func(c *widget.Parts) Page
}

// Makes converts a constructor that returns a type of page to a function that returns a Page, as View.Make needs it.
func Makes[P Page](construct func(*widget.Parts) P) func(*widget.Parts) Page {
	return func(c *widget.Parts) Page { return construct(c) }
}
