package ui

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export/snapshot"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Picture is a copy of the screen.
type Picture struct {
	snapshot.Screen
	// Terminal is the picture as text for a terminal, with escape sequences (SGR) for colours.
	Terminal string
	Options  snapshot.ScreenOptions
}

// pictureKeys are the keys that are written as a name, because they are not characters.
var pictureKeys = map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp,
	"down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp,
	"pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace}

// TakePicture plays a Source (usually a recording) to its end, presses keys, and returns the picture. The picture is
// what the screen would show live at that moment. Keys are single characters or Bubble Tea's names ("down", "enter").
// TakePicture needs no terminal.
func TakePicture(ctx context.Context, o scene.Options, width, height int, keys ...string) (Picture, error) {
	if o.Source == nil {
		return Picture{}, ErrNoSource
	}
	o = o.WithDefaults()
	store, err := newStore(o.Source, o)
	if err != nil {
		return Picture{}, err
	}
	if err := o.Source.Run(ctx, store.Feed); err != nil && !errors.Is(err, sampler.ErrEnded) {
		return Picture{}, fmt.Errorf("playing the recording: %w", err)
	}
	return pictureOf(store, o, width, height, keys...)
}

// pictureOf returns the picture of a screen that shows the data of a store, after the keys were pressed.
func pictureOf(s *store.Store, o scene.Options, width, height int, keys ...string) (Picture, error) {
	m, err := NewModel(s, o)
	if err != nil {
		return Picture{}, err
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for _, k := range keys {
		if _, cmd := m.Update(keyPress(k)); m.Page != scene.PageLive && k != "s" {
			settle(m, cmd)
		}
	}
	return taken(m), nil
}

// taken returns the present screen.
func taken(m *Model) Picture {
	o := screenOptions(&m.Theme, m.Process.Name())
	return Picture{Screen: picturedCells(m), Terminal: m.grid.String(!m.Opt.NoColor), Options: o}
}

// picturedCells copies the cells of the picture that the screen shows.
func picturedCells(m *Model) snapshot.Screen { return pictured(&m.grid, m.Opt.NoColor) }

func pictured(g *canvas.Grid, noColor bool) snapshot.Screen {
	s := snapshot.Screen{Rows: make([][]snapshot.ScreenCell, g.H), Width: g.W, Text: g.Text()}
	for y := range s.Rows {
		s.Rows[y] = make([]snapshot.ScreenCell, g.W)
		for x := range s.Rows[y] {
			c := g.At(x, y)
			if noColor {
				c.Style.FG, c.Style.BG = 0, 0
			}
			cell := snapshot.ScreenCell{Style: screenStyle(c.Style)}
			if c.Rune != 0 {
				cell.Text, cell.Width = string(c.Rune)+c.Marks, canvas.RuneWidth(c.Rune)
			}
			s.Rows[y][x] = cell
		}
	}
	return s
}

func screenStyle(s canvas.Style) snapshot.ScreenStyle {
	hex := func(c canvas.Color) string {
		if !c.IsSet() {
			return ""
		}
		return c.Hex()
	}
	has := func(a canvas.Attr) bool { return s.Attr&a != 0 }
	return snapshot.ScreenStyle{FG: hex(s.FG), BG: hex(s.BG), Bold: has(canvas.Bold), Faint: has(canvas.Faint),
		Italic: has(canvas.Italic), Underline: has(canvas.Underline), Reverse: has(canvas.Reverse)}
}

// TakeListPicture returns a picture of the list from which the user chooses a process. The list first has the processes
// in c.First. A second later it has the processes in the parameter later. Then the keys are pressed.
func TakeListPicture(ctx context.Context, o scene.Options, c Choosing, later []Candidate, width, height int, keys ...string) (Picture, error) {
	theme, err := style.ThemeByName(o.Theme)
	if err != nil {
		return Picture{}, err
	}
	now := time.Now()
	m := newChooser(ctx, o, c, theme, func() time.Time { return now })
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	now = now.Add(time.Second)
	m.Update(candidatesMsg{list: later})
	for _, k := range keys {
		m.Update(keyPress(k))
	}
	return Picture{Screen: pictured(&m.grid, o.NoColor), Terminal: m.grid.String(!o.NoColor), Options: screenOptions(&theme, "list")}, nil
}

// settle runs a command of a page, and then all commands that follow from its result. After that, the picture has all
// the data that it needs.
func settle(m *Model, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			settle(m, c)
		}
	case page.Msg:
		m.Update(msg)
	}
}

// keyPress returns the message that Bubble Tea sends when a key is pressed.
func keyPress(k string) tea.KeyPressMsg {
	if c, ok := pictureKeys[k]; ok {
		text := ""
		if k == "space" {
			text = " "
		}
		return tea.KeyPressMsg{Code: c, Text: text}
	}
	r := []rune(k)
	return tea.KeyPressMsg{Code: r[0], Text: k}
}

// screenOptions returns what a saved picture needs besides its cells: the terminal's default colours, and a title.
func screenOptions(t *style.Theme, program string) snapshot.ScreenOptions {
	return snapshot.ScreenOptions{Foreground: t.Text.Hex(), Background: t.Background.Hex(), Title: "ddtop · " + program}
}
