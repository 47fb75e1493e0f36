package ui

import (
	"context"
	"errors"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/sampler"
)

// Picture is one screen: text with SGR sequences, as it went to the terminal.
type Picture struct {
	Screen        string
	Text          string // the same without colours
	Width, Height int
	Options       export.ScreenOptions
}

// pictureKeys are the keys that have a name instead of a character.
var pictureKeys = map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp,
	"down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp,
	"pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace}

// TakePicture plays a Source (a recording, as a rule) to its end, presses keys, and returns what the screen shows then:
// what it showed live at that moment. Keys are single characters or the names that Bubble Tea gives keys ("down",
// "enter"). No terminal is needed.
func TakePicture(ctx context.Context, o Options, width, height int, keys ...string) (Picture, error) {
	if o.Source == nil {
		return Picture{}, ErrNoSource
	}
	o = o.withDefaults()
	store, err := newStore(o.Source, o)
	if err != nil {
		return Picture{}, err
	}
	if err := o.Source.Run(ctx, store.Feed); err != nil && !errors.Is(err, sampler.ErrEnded) {
		return Picture{}, fmt.Errorf("playing the recording: %w", err)
	}
	return store.picture(o, width, height, keys...)
}

// picture is what a screen over the store shows after the keys.
func (s *Store) picture(o Options, width, height int, keys ...string) (Picture, error) {
	m, err := NewModel(s, o)
	if err != nil {
		return Picture{}, err
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for _, k := range keys {
		if _, cmd := m.Update(keyPress(k)); m.page != pageLive && k != "s" {
			settle(m, cmd)
		}
	}
	return m.taken(), nil
}

// taken is what the screen shows.
func (m *Model) taken() Picture {
	return Picture{Screen: m.grid.String(!m.opt.NoColor), Text: m.grid.Text(), Width: m.width, Height: m.height,
		Options: m.theme.screenOptions(m.process.Title)}
}

// settle runs a command of a page, and those that it leads to: what they read is in the picture.
func settle(m *Model, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			settle(m, c)
		}
	case fineMsg, instantMsg, sourceMsg:
		m.Update(msg)
	}
}

// keyPress is the message of a key.
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

// screenOptions are the terminal's own colours in a picture.
func (t *Theme) screenOptions(program string) export.ScreenOptions {
	return export.ScreenOptions{Foreground: t.Text.Hex(), Background: t.Background.Hex(), Title: "ddtop · " + program}
}
