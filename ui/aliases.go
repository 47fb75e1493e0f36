package ui

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// CheckKey reports whether a key, by the name that Bubble Tea gives it ("f", "ctrl+f", "f5"), can be made to do what
// another does ("space"): a terminal has to send the one, and the other has to do something in one of the views. ctrl+c
// always quits.
func CheckKey(key, does string) error {
	if key == "" || key == "ctrl+c" {
		return fmt.Errorf("the key %q can't be given another meaning", key)
	}
	if err := checkName(key); err != nil {
		return err
	}
	maps := []scene.KeyMap{globalKeys(scene.Offers{Processes: true, Requests: true}), weightKeys(), searchKeys()}
	for _, p := range newPages(widget.NewParts(new(scene.Selection))) {
		for _, k := range p.Keys(nil, true) {
			maps = append(maps, *k)
		}
	}
	known := func(key string) bool {
		return slices.ContainsFunc(maps, func(k scene.KeyMap) bool { return k.Find(key) != nil })
	}
	if known(does) {
		return nil
	}
	near := slices.DeleteFunc(nearestKeys(does), func(key string) bool { return !known(key) })
	if len(near) > 0 {
		return fmt.Errorf("no key %q does anything that %q could do: is it %s?", does, key, quotedList(near))
	}
	return fmt.Errorf("no key %q does anything that %q could do; ? on the screen lists them", does, key)
}

// aliasHelp lists the keys that the person's settings gave a meaning.
func aliasHelp(m *Model) scene.KeyMap {
	k := scene.KeyMap{Title: "your keys (config.toml)"}
	for _, key := range slices.Sorted(maps.Keys(m.Opt.Keys)) {
		k.Bindings = append(k.Bindings, scene.Binding{Show: key, Help: "as " + m.Opt.Keys[key]})
	}
	return k
}
