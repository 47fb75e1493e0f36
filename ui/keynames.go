package ui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/internal/units"
)

// modifiers are the prefixes of a key's name, such as "ctrl+". Bubble Tea writes them in this order
// (uv.Key.Keystroke).
var modifiers = [...]string{"ctrl", "alt", "shift", "meta", "hyper", "super"}

// otherNames maps names that users may write for keys and modifiers, such as "escape", to Bubble Tea's names.
var otherNames = map[string]string{"escape": "esc", "return": "enter", "spacebar": "space", "pageup": "pgup", "pagedown": "pgdown", "pgdn": "pgdown",
	"del": "delete", "ins": "insert", "control": "ctrl", "option": "alt", "command": "super", "cmd": "super"}

// specialNames returns the names of all keys that are not characters, such as "enter". Each name appears once. They are
// the names under which Bubble Tea reports key presses.
func specialNames() []string {
	var names []string
	add := func(code rune) {
		name := tea.Key{Code: code}.String()
		if utf8.RuneCountInString(name) > 1 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, code := range []rune{tea.KeySpace, tea.KeyEnter, tea.KeyEscape, tea.KeyTab, tea.KeyBackspace} {
		add(code)
	}
	for code := rune(tea.KeyExtended) + 1; code <= tea.KeyIsoLevel5Shift; code++ {
		add(code)
	}
	return names
}

// isSent reports whether a terminal can send a key with this name.
func isSent(key string) bool {
	base, modified := key, false
	for _, m := range modifiers {
		if rest, ok := strings.CutPrefix(base, m+"+"); ok && rest != "" {
			base, modified = rest, true
		}
	}
	if slices.Contains(specialNames(), base) {
		return true
	}
	r, n := utf8.DecodeRuneInString(base)
	cluster, _ := ansi.FirstGraphemeCluster(base, ansi.GraphemeWidth)
	if cluster != base || !unicode.IsGraphic(r) || r == utf8.RuneError || r == ' ' {
		return false
	}
	// after a modifier, letters are in lower case, as in ctrl+shift+f
	return !modified || n == len(base) && unicode.ToLower(r) == r
}

// checkName returns an error if no terminal can send a key with this name.
func checkName(key string) error {
	if isSent(key) {
		return nil
	}
	if near := nearestKeys(key); len(near) > 0 {
		return fmt.Errorf("no terminal sends a key %q: is it %s?", key, quotedList(near))
	}
	return fmt.Errorf("no terminal sends a key %q: it is a character such as \"f\", or a name such as \"f5\", \"pgup\" or \"enter\", with \"ctrl+\", \"alt+\" or \"shift+\" before it", key)
}

// maxNearest limits how many similar names are suggested when the user writes a wrong name for a key.
const maxNearest = 3

// nearestKeys returns the names of keys that are most similar to a wrong name, as suggestions. It returns none if no
// name is similar.
func nearestKeys(key string) []string {
	parts := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return strings.ContainsRune("+-_ ", r) })
	for i, p := range parts {
		if name, ok := otherNames[p]; ok {
			parts[i] = name
		}
	}
	before := ""
	for _, m := range modifiers {
		if i := slices.Index(parts, m); i >= 0 {
			before += m + "+"
			parts = slices.Delete(parts, i, i+1)
		}
	}
	base := strings.Join(parts, "")
	if name, ok := otherNames[base]; ok {
		base = name
	}
	var near []string
	switch best := max(1, len(base)/2); {
	case base == "":
		if strings.TrimSpace(key) == "" && key != "" {
			near = []string{"space"}
		}
	case utf8.RuneCountInString(base) == 1:
		near = []string{base}
	case len(base) <= maxName:
		for _, name := range specialNames() {
			switch d := units.Distance(base, name); {
			case d < best:
				best, near = d, []string{name}
			case d == best:
				near = append(near, name)
			}
		}
	}
	for i := range near {
		near[i] = before + near[i]
	}
	near = slices.DeleteFunc(near, func(key string) bool { return !isSent(key) })
	return near[:min(len(near), maxNearest)]
}

// maxName limits the length of a wrong key name, in bytes. For longer names ddtop suggests no similar names.
const maxName = 40

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, " or ")
}
