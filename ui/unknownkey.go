package ui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// moving are the keys that move in what there is: where there is nothing to move in, that can be seen.
var moving = []string{"up", "down", "left", "right", "enter", "esc", "tab", "shift+tab", "backspace", "pgup", "pgdown", "home", "end"}

// unknownKey says that a key does nothing here: which one it may have been meant for, or in which views it does something.
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
	m.message.tell(text + " · ? lists keys")
}

// otherCase is the key of the same letter in the other case; "" where there is none.
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

// helpOf is what the help says of a binding: the second key of a pair stands under the first.
func helpOf(m *Model, b *binding) string {
	if b.help != "" {
		return b.help
	}
	for _, k := range m.maps() {
		for i := range k.bindings {
			if &k.bindings[i] == b {
				for ; i > 0 && k.bindings[i].help == ""; i-- {
				}
				return k.bindings[i].help
			}
		}
	}
	return ""
}

// firstWords is a help's text up to the first sign that ends a thought.
func firstWords(s string) string {
	if i := strings.IndexAny(s, ":;(,"); i > 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// viewsOf are the digits of the views in which a key does something.
func viewsOf(m *Model, key string) []string {
	var out []string
	for _, t := range tabs(m.offers) {
		p := m.pages[t.id]
		if p == nil {
			continue
		}
		maps := append(p.keys(&m.scene, false), mapsBeside(m, t.id)...)
		if slices.ContainsFunc(maps, func(k *keyMap) bool { return k.find(key) != nil }) {
			out = append(out, t.key)
		}
	}
	return out
}
