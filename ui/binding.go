package ui

import (
	tea "charm.land/bubbletea/v2"
)

// binding is one key of a view: the same value makes the key work, names it in the footer and explains it in the help,
// so the three can't disagree.
type binding struct {
	// keys are what tea.KeyPressMsg.String gives.
	keys []string
	// show is how the keys are written for people; short the one or two words of the footer ("" keeps it out of
	// there); help the line of the help overlay.
	show, short, help string
	// footer is how the footer writes the keys when it means others with them; "": as show.
	footer string
	// always: the footer has room for it whatever else has none.
	always bool
	// when, if set, says whether the key does anything now: the footer leaves it out otherwise.
	when func(Host) bool
	do   func(Host) tea.Cmd
}

// keyMap is a view's bindings, the more important first.
type keyMap struct {
	title    string
	bindings []binding
}

// find returns the binding of a key.
func (k *keyMap) find(key string) *binding {
	for i := range k.bindings {
		for _, s := range k.bindings[i].keys {
			if s == key {
				return &k.bindings[i]
			}
		}
	}
	return nil
}

// ofFirst returns the bindings of key maps without those whose key an earlier map has: what is shown of keys is what they do.
func ofFirst(maps []*keyMap) []keyMap {
	taken := make(map[string]bool)
	out := make([]keyMap, len(maps))
	for i, k := range maps {
		out[i].title = k.title
		for _, b := range k.bindings {
			if len(b.keys) == 0 || !taken[b.keys[0]] {
				out[i].bindings = append(out[i].bindings, b)
			}
		}
		for _, b := range k.bindings {
			for _, key := range b.keys {
				taken[key] = true
			}
		}
	}
	return out
}
