package scene

import (
	tea "charm.land/bubbletea/v2"
)

// Binding is one key of a view: the same value makes the key work, names it in the footer and explains it in the help,
// so the three can't disagree.
type Binding struct {
	// Keys are what tea.KeyPressMsg.String gives.
	Keys []string
	// Show is how the keys are written for people; short the one or two words of the footer ("" keeps it out of
	// there); help the line of the help overlay.
	Show, Short, Help string
	// Footer is how the footer writes the keys when it means others with them; "": as show.
	Footer string
	// always: the footer has room for it whatever else has none.
	Always bool
	// when, if set, says whether the key does anything now: the footer leaves it out otherwise.
	When func(Host) bool
	Do   func(Host) tea.Cmd
}

// KeyMap is a view's bindings, the more important first.
type KeyMap struct {
	Title    string
	Bindings []Binding
}

// Find returns the binding of a key.
func (k *KeyMap) Find(key string) *Binding {
	for i := range k.Bindings {
		for _, s := range k.Bindings[i].Keys {
			if s == key {
				return &k.Bindings[i]
			}
		}
	}
	return nil
}

// OfFirst returns the bindings of key maps without those whose key an earlier map has: what is shown of keys is what they do.
func OfFirst(maps []*KeyMap) []KeyMap {
	taken := make(map[string]bool)
	out := make([]KeyMap, len(maps))
	for i, k := range maps {
		out[i].Title = k.Title
		for _, b := range k.Bindings {
			if len(b.Keys) == 0 || !taken[b.Keys[0]] {
				out[i].Bindings = append(out[i].Bindings, b)
			}
		}
		for _, b := range k.Bindings {
			for _, key := range b.Keys {
				taken[key] = true
			}
		}
	}
	return out
}
