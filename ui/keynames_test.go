package ui

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// keyNames is a Bubble Tea program for the test. It collects the names of the pressed keys, and ends at ctrl+c.
type keyNames struct{ names []string }

func (k *keyNames) Init() tea.Cmd  { return nil }
func (k *keyNames) View() tea.View { return tea.NewView("") }

func (k *keyNames) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		if key.String() == "ctrl+c" {
			return k, tea.Quit
		}
		k.names = append(k.names, key.String())
	}
	return k, nil
}

// TestKeysThatTerminalsSend: the settings accept the name of every key that a terminal can send.
func TestKeysThatTerminalsSend(t *testing.T) {
	// The input has keys of xterm and the VT220 with and without modifiers, alt with letters, the kitty protocol, and
	// text.
	sent := "aZ5ö€,+ \t\r\x7f\x01\x1d\x1bf\x1bF\x1b[A\x1b[1;5C\x1b[1;2D\x1b[Z\x1b[5~\x1b[6;5~\x1b[3~\x1bOP\x1b[15~\x1b[24;2~\x1b[H\x1bOF" +
		"\x1b[102;6u\x1b[57428u\x1b[97;9u日e\u0301"
	k := &keyNames{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := tea.NewProgram(k, tea.WithContext(ctx), tea.WithInput(io.MultiReader(strings.NewReader(sent), strings.NewReader("\x03"))), tea.WithOutput(new(bytes.Buffer)), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if len(k.names) < 30 || !slices.Contains(k.names, "ctrl+shift+f") || !slices.Contains(k.names, "ctrl+pgdown") {
		t.Fatalf("%d keys: %q", len(k.names), k.names)
	}
	for _, name := range k.names {
		if err := CheckKey(name, "space"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestKeysThatNoTerminalSends: if the settings name a key that no terminal can send, ddtop refuses the settings. The
// error suggests a similar key, or shows an example.
func TestKeysThatNoTerminalSends(t *testing.T) {
	for wrong, near := range map[string]string{
		"zz": `a character such as "f"`, "page-down": `is it "pgdown"?`, "escape": `is it "esc"?`, "Control-F": `is it "ctrl+f"?`, "alt+ctrl+x": `is it "ctrl+alt+x"?`,
		"ctrl+F": `is it "ctrl+f"?`, "F5": `is it "f5"?`, "entre": `is it "enter"?`, "ctrl+bakspace": `is it "ctrl+backspace"?`, " ": `is it "space"?`,
		"\x1b": "a character", "ctrl+": "a character", "+ctrl": "a character", "\xff": "a character", strings.Repeat("x", 1000): "a character",
	} {
		if err := CheckKey(wrong, "space"); err == nil || !strings.Contains(err.Error(), near) {
			t.Errorf("%q: %v, want %s", wrong, err, near)
		}
	}
}
