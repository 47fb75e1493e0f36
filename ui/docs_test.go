package ui

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/page/processes"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// documentedKeys returns the keys in the first column of the tables in one section of docs/reference/screen.md.
func documentedKeys(doc, heading string) []string {
	_, rest, found := strings.Cut(doc, "\n## "+heading+"\n")
	if !found {
		return nil
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	var keys []string
	for line := range strings.Lines(section) {
		if cells := strings.SplitN(line, "|", 3); len(cells) == 3 && cells[0] == "" {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				keys = append(keys, m[1])
			}
		}
	}
	return keys
}

// TestDocsNameEveryKey: each view's section of docs/reference/screen.md lists the same keys as the view's help.
func TestDocsNameEveryKey(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/screen.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	pages := newPages(widget.NewParts(new(scene.Selection)))
	sections := map[string][]scene.KeyMap{
		"Everywhere":                       {globalKeys(scene.Offers{Processes: true, Requests: true})},
		"View 1: live":                     allKeys(pages[scene.PageLive]),
		"The flamegraph, on views 1 and 4": {weightKeys()},
		"One thread":                       allKeys(pages[scene.PageThread]),
		"View 8: processes":                allKeys(processes.New(nil)),
	}
	for _, tab := range tabs(scene.Offers{Processes: true, Requests: true}) {
		if pages[tab.ID] != nil {
			name := map[string]string{"flame": "flamegraph"}[string(tab.ID)]
			if name == "" {
				name = string(tab.ID)
			}
			sections["View "+tab.Key+": "+name] = allKeys(pages[tab.ID])
			if tab.Shared == page.SearchShared {
				sections["Search, on views 2, 3, 5, 6, 7, 9 and 0"] = []scene.KeyMap{searchKeys()}
			}
		}
	}
	names := map[string]string{"↑": "up", "↓": "down", "←": "left", "→": "right", "pgdn": "pgdown", "ctrl-l": "ctrl+l", "ctrl-z": "ctrl+z"}
	for heading, maps := range sections {
		documented := documentedKeys(doc, heading)
		if len(documented) == 0 {
			t.Errorf("docs/reference/screen.md names no keys under %q", heading)
		}
		for _, m := range maps {
			for _, b := range m.Bindings {
				for _, key := range strings.Fields(b.Show) {
					if b.Help != "" && !slices.Contains(documented, key) {
						t.Errorf("docs/reference/screen.md: under %q %q is missing", heading, key)
					}
				}
			}
		}
		for _, key := range documented {
			name := key
			if names[key] != "" {
				name = names[key]
			}
			if !slices.ContainsFunc(maps, func(m scene.KeyMap) bool { return m.Find(name) != nil }) {
				t.Errorf("docs/reference/screen.md: under %q is %q, which does nothing there", heading, key)
			}
		}
	}
}

// TestEveryStateHasItsPlace: the legend lists each state of threads exactly once. Each theme has a colour for each
// state.
func TestEveryStateHasItsPlace(t *testing.T) {
	for s := range gvl.NumStates {
		if n := len(slices.DeleteFunc(slices.Clone(stateHelp[:]), func(x gvl.State) bool { return x != s })); n != 1 {
			t.Errorf("the legend has %q %d times", s, n)
		}
	}
	for _, name := range style.Themes {
		theme, err := style.ThemeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for s, c := range theme.States {
			if c == 0 {
				t.Errorf("the theme %s has no colour for %q", name, gvl.State(s))
			}
		}
	}
}

// allKeys are the keys of a page.
func allKeys(p page.Page) []scene.KeyMap {
	var out []scene.KeyMap
	for _, k := range p.Keys(nil, true) {
		out = append(out, *k)
	}
	return out
}
