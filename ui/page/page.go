package page

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// sharedKeys are keys that several views have. Zero means none.
type sharedKeys uint8

const (
	// WeightsShared are the keys that change what the flamegraph shows.
	WeightsShared sharedKeys = iota + 1
	// SearchShared are the keys that search a list.
	SearchShared
)

// Page is a view that fills the screen. What it keeps of a person's choices survives a change of pages.
type Page interface {
	// Keys returns the keys of the view. Of a view with several parts these are the keys of the part with the focus, or
	// of all parts.
	Keys(sc *scene.Scene, all bool) []*scene.KeyMap
	// Load takes what the view shows from the store, which is held meanwhile. What the scene holds for all views
	// (threads, states, figures, weights) is loaded before.
	Load(sc *scene.Scene, r *store.Reading)
	// About says in the rule above the view what it shows.
	About(sc *scene.Scene) string
	Draw(a canvas.Area, sc *scene.Scene)
	// Detail describes what is selected. If name is empty, rest says how to select something.
	Detail(sc *scene.Scene) (name, rest string)
	// Stack returns what the clipboard gets: what is selected, and its frames, a line each, the innermost first as Ruby
	// prints them. There are no lines if nothing is selected.
	Stack(sc *scene.Scene) (title string, lines []string)
}

// Plain is what pages have in common that have one set of keys and no stack to copy.
type Plain struct{ KeyMap scene.KeyMap }

func (p *Plain) Keys(*scene.Scene, bool) []*scene.KeyMap { return []*scene.KeyMap{&p.KeyMap} }

func (p *Plain) Stack(*scene.Scene) (title string, lines []string) { return "", nil }

// Fetching is a page that lacks something that takes a while to read. Fetch returns the command that reads it, or nil.
// Fetched gets the messages of all such commands.
type Fetching interface {
	Fetch(h scene.Host) tea.Cmd
	Fetched(h scene.Host, msg tea.Msg)
}

// Msg is a message for pages: what a command of theirs has read.
type Msg interface{ ForPage() }

// Timed is a page with a time axis, on which the mouse selects a part of the time. a is the screen under the rule above
// the page, that of the live view all of it.
type Timed interface {
	AxisArea(a canvas.Area, sc *scene.Scene) canvas.Area
}

// Wheeled is a page in which the wheel can do something else than the arrow keys. done is false where it does not.
type Wheeled interface {
	Wheel(h scene.Host, x, y, d int, onAxis bool) (cmd tea.Cmd, done bool)
}

// Counted is a page that says what a search has found in it.
type Counted interface{ Found() string }

// Named is a page that keeps names, which NamesChanged has it read again.
type Named interface{ NamesChanged() }

// View registers a page.
type View struct {
	ID scene.PageID
	// Key leads to the page. It is empty for a page that only other pages lead to.
	Key    string
	Help   string // what the page shows, in the help
	Shared sharedKeys
	// Offered reports whether a process has the view. It is nil if every process has it.
	Offered func(o scene.Offers) bool
	// Make returns the page, or nil if something else makes it.
	Make func(c *widget.Parts) Page
}

// Makes is a constructor of a page as views want it.
func Makes[P Page](construct func(*widget.Parts) P) func(*widget.Parts) Page {
	return func(c *widget.Parts) Page { return construct(c) }
}
