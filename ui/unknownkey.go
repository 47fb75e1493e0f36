package ui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ddtop/ddtop/ui/scene"
)

// moving are keys that move the cursor. If such a key has no effect, the user sees the reason: there is nothing in
// which the cursor can move. So no message is needed.
var moving = []string{"up", "down", "left", "right", "enter", "esc", "tab", "shift+tab", "backspace", "pgup", "pgdown", "home", "end"}

// unknownKey tells the user that a key does nothing in this view. The message names a similar key that the user may
// have meant, or the views in which the key works.
func unknownKey(m *Model, key string) {
	if slices.Contains(moving, key) {
		return
	}
	text := strings.ReplaceAll(key, "ctrl+", "ctrl-") + " does nothing here"
	if other := otherCase(key); other != "" && m.binding(other) != nil {
		text += fmt.Sprintf("; %s: %s", other, firstWords(helpOf(m, m.binding(other))))
	} else if views := viewsOf(m, key); len(views) > 0 {
		text += ", but on view " + strings.Join(views, " ")
	}
	m.message.Tell(text + " · ? lists keys")
}

// otherCase returns the same letter in upper case if key is in lower case, or the reverse. It returns "" if key is not
// a letter that has a case.
func otherCase(key string) string {
	key = strings.TrimPrefix(key, "shift+")
	r, n := utf8.DecodeRuneInString(key)
	switch {
	case n != len(key):
		return ""
	case unicode.IsLower(r):
		return string(unicode.ToUpper(r))
	case unicode.IsUpper(r):
		return string(unicode.ToLower(r))
	}
	return ""
}

// helpOf returns the help text of a key. If two keys belong together, such as up and down, only the first of them has a
// help text. This text is for both keys.
func helpOf(m *Model, b *scene.Binding) string {
	if b.Help != "" {
		return b.Help
	}
	for _, k := range m.maps() {
		for i := range k.Bindings {
			if &k.Bindings[i] == b {
				for ; i > 0 && k.Bindings[i].Help == ""; i-- {
				}
				return k.Bindings[i].Help
			}
		}
	}
	return ""
}

// firstWords returns a help text up to its first colon, semicolon, parenthesis or comma.
func firstWords(s string) string {
	if i := strings.IndexAny(s, ":;(,"); i > 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// viewsOf returns the views in which a key does something. A view is given by the digit that opens it.
func viewsOf(m *Model, key string) []string {
	var out []string
	for _, t := range tabs(m.Offers) {
		p := m.pages[t.ID]
		if p == nil {
			continue
		}
		maps := append(p.Keys(&m.Scene, false), mapsBeside(m, t.ID)...)
		if slices.ContainsFunc(maps, func(k *scene.KeyMap) bool { return k.Find(key) != nil }) {
			out = append(out, t.Key)
		}
	}
	return out
}
