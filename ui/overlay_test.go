package ui

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestAllFindingsCanBeRead: the key ! lists all findings in full, with their advice. This matters if there is no room
// for them at the top of the screen.
func TestAllFindingsCanBeRead(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		s := hogged(t, size[0], size[1])
		list := s.model.Findings.List
		if len(list) < 2 {
			t.Fatalf("%d findings: the service was to have several", len(list))
		}
		s.press("!")
		var seen strings.Builder
		for range 40 {
			for line := range strings.Lines(s.text()) {
				seen.WriteString(strings.Trim(strings.TrimSpace(line), "│ ") + " ")
			}
			s.press("down")
		}
		all := strings.Join(strings.Fields(seen.String()), " ")
		for _, f := range list {
			for _, want := range []string{f.String(), f.Next} {
				for _, word := range strings.Fields(want) {
					if !strings.Contains(all, word) {
						t.Errorf("%v: no %q of %q", size, word, want)
					}
				}
			}
		}
		s.press("esc")
		s.misses("esc closes")
		checkRows(t, s, "findings")
	}
}

// TestTheHeadSaysThatThereAreMoreFindings: if there is no room for all findings at the top of the screen, the top says
// how many are missing.
func TestTheHeadSaysThatThereAreMoreFindings(t *testing.T) {
	s := hogged(t, 80, 24)
	f := findings.Finding{Title: "Title", Text: strings.Repeat("long text ", 20), Severity: findings.SeverityWarn}
	s.model.Findings.List = []findings.Finding{f, f, f}
	draw(s.model)
	s.sees("+2 more: !")
	s.model.Findings.List = []findings.Finding{{Title: "Short", Text: "text"}, {Title: "Second", Text: "text"}}
	draw(s.model)
	s.sees("Short: text", "Second: text")
	s.misses("more: !")
}

// TestACaptionDoesNotSplitASentence: a finding may need several rows at the top of the screen. A caption must not be
// drawn between these rows.
func TestACaptionDoesNotSplitASentence(t *testing.T) {
	s := hogged(t, 120, 40)
	f := findings.Finding{Title: "Title", Text: strings.Repeat("figures of it ", 12), Severity: findings.SeverityWarn}
	s.model.Findings.List = []findings.Finding{f}
	draw(s.model)
	text := strings.Join(strings.Fields(s.text()), " ")
	if want := strings.TrimSpace(f.String()) + " " + scene.FiguresOf; !strings.Contains(text, want) {
		t.Errorf("no %q:\n%s", want, s.text())
	}
}

// TestOneFindingLeavesTheScreen: the list of all findings covers only the rows that it needs. The rest of the screen
// stays visible.
func TestOneFindingLeavesTheScreen(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("!")
	s.model.Findings.List = []findings.Finding{{Title: "Title", Text: "text", Next: "do it"}}
	draw(s.model)
	s.sees("GVL held by", "do it")
}
