package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// pumas returns processes for the tests: a Puma server with two workers, and a Sidekiq that ddtop cannot read.
func pumas() []Candidate {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	return []Candidate{
		{PID: 100, PPID: 1, Threads: 3, CPU: time.Second, Started: at, Ruby: "3.4.1", User: "app", Title: "puma", Command: "puma 6.4.0 (tcp://0.0.0.0:80) [shop]"},
		{PID: 101, PPID: 1, Threads: 12, Started: at, Title: "sidekiq", Command: "sidekiq 7.1", User: "jobs", Why: "it belongs to user jobs, and we are app. Run `sudo ddtop -p 101`."},
		{PID: 117, PPID: 100, Threads: 13, CPU: 20 * time.Second, Started: at, Ruby: "3.4.1", User: "app", Title: "puma", Command: "puma: cluster worker 0: 100 [shop]"},
		{PID: 118, PPID: 100, Threads: 13, CPU: 20 * time.Second, Started: at, Ruby: "3.4.1", User: "app", Title: "puma", Command: "puma: cluster worker 1: 100 [shop]"},
	}
}

// chooserOf returns a chooser on a screen of the given size. Its clock stands still unless the test moves it.
func chooserOf(t *testing.T, w, h int, filter string) (m *chooser, clock *time.Time) {
	t.Helper()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	theme, err := style.ThemeByName("dark")
	if err != nil {
		t.Fatal(err)
	}
	m = newChooser(t.Context(), scene.Options{}, Choosing{First: pumas(), Filter: filter, Verb: "attach"}, theme, func() time.Time { return now })
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return m, &now
}

// typed presses keys in the list. A key is a name such as "down", or letters. typed reports whether the keys have
// closed the list.
func (m *chooser) typed(keys ...string) (left bool) {
	named := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab,
		"backspace": tea.KeyBackspace, "end": tea.KeyEnd, "home": tea.KeyHome, "pgdown": tea.KeyPgDown}
	for _, k := range keys {
		msgs := []tea.KeyPressMsg{{Code: named[k]}}
		if named[k] == 0 {
			msgs = nil
			for _, r := range k {
				msgs = append(msgs, tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
		for _, msg := range msgs {
			_, cmd := m.Update(msg)
			left = left || cmd != nil
		}
	}
	return left
}

// TestWhatIsPastedIsTyped: text that the user pastes has the same effect as typed text. It is appended to the filter,
// without control characters.
func TestWhatIsPastedIsTyped(t *testing.T) {
	m, _ := chooserOf(t, 120, 40, "")
	m.Update(tea.PasteMsg{Content: "pu\tma\n"})
	if got := string(m.filter); got != "puma" {
		t.Errorf("the filter is %q", got)
	}
}

func TestChooserShowsWhatThereIs(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}} {
		m, clock := chooserOf(t, size[0], size[1], "")
		text := m.grid.Text()
		for _, want := range []string{"4 Ruby processes", "  100 ", "2h00m", "3.4.1", "puma 6.4.0 (tcp:", "└ puma: cluster worker 1", "✗", "attach with 2 processes below (--children)", "q leave"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q is not in\n%s", size, want, text)
			}
		}
		// Workers must be listed below their master, whatever their PIDs are.
		if strings.Index(text, "sidekiq") < strings.Index(text, "worker 1") {
			t.Errorf("%v: the order is\n%s", size, text)
		}
		if strings.Contains(text, "%") {
			t.Errorf("%v: a CPU share before there was a time to measure it in:\n%s", size, text)
		}
		*clock = clock.Add(2 * time.Second)
		next := pumas()
		next[2].CPU += time.Second
		// the start time differs, so this is another process with the same PID
		next[3].Started = next[3].Started.Add(time.Hour)
		m.Update(candidatesMsg{list: next})
		text = m.grid.Text()
		if !strings.Contains(text, "50 %") || strings.Count(text, "0 %") != 3 {
			t.Errorf("%v: one took half of a CPU, of another nothing is known yet:\n%s", size, text)
		}
		m.typed("end")
		if text = m.grid.Text(); !strings.Contains(text, "it belongs to user jobs") {
			t.Errorf("%v: why a process can't be read is not in\n%s", size, text)
		}
	}
}

func TestChooserIsFilteredByTyping(t *testing.T) {
	for _, c := range []struct {
		typed string
		pids  []int
	}{{"", []int{100, 117, 118, 101}}, {"17", []int{117}}, {"SIDEKIQ", []int{101}}, {"worker shop", []int{117, 118}}, {"/1 worker", []int{117, 118}}, {"[shop]", []int{100, 117, 118}}, {"nothing", nil}} {
		m, _ := chooserOf(t, 120, 40, "")
		m.typed(c.typed)
		var got []int
		for _, r := range m.table.Rows {
			got = append(got, r.PID)
		}
		if len(got) != len(c.pids) {
			t.Errorf("%q leaves %v, want %v", c.typed, got, c.pids)
			continue
		}
		for i := range got {
			if got[i] != c.pids[i] {
				t.Errorf("%q leaves %v, want %v", c.typed, got, c.pids)
			}
		}
	}
	m, _ := chooserOf(t, 80, 24, "sidek")
	if m.typed("i", "q") {
		t.Error("a q in a name left the list")
	}
	if m.typed("esc") || len(m.table.Rows) != 4 {
		t.Error("esc does not first take the filter away")
	}
	if !m.typed("esc") || m.chosen.PID != 0 {
		t.Error("esc does not leave the list")
	}
}

func TestChooserChooses(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want Choice
	}{
		{[]string{"enter"}, Choice{PID: 100}}, {[]string{"down", "enter"}, Choice{PID: 117}}, {[]string{"end", "up", "enter"}, Choice{PID: 118}},
		{[]string{"tab"}, Choice{PID: 100, Children: true}}, {[]string{"down", "tab"}, Choice{}}, {[]string{"worker 118", "enter"}, Choice{PID: 118}},
		{[]string{"nothing", "enter"}, Choice{}},
	} {
		m, _ := chooserOf(t, 80, 24, "")
		if left := m.typed(c.keys...); m.chosen != c.want || left != (c.want.PID != 0) {
			t.Errorf("%v chose %+v (left: %v), want %+v", c.keys, m.chosen, left, c.want)
		}
	}
	// If the process under the cursor ends, the cursor goes to the next process. If a process starts, the cursor stays
	// on its process.
	m, _ := chooserOf(t, 80, 24, "")
	m.typed("down")
	m.Update(candidatesMsg{list: append([]Candidate{{PID: 50, Title: "irb"}}, pumas()...)})
	if m.cursor != 117 {
		t.Errorf("the cursor is on %d", m.cursor)
	}
	m.Update(candidatesMsg{list: append([]Candidate{{PID: 50, Title: "irb"}}, append(pumas()[:2:2], pumas()[3])...)})
	if m.cursor != 118 {
		t.Errorf("the cursor is on %d", m.cursor)
	}
	// A click moves the cursor, and a double click chooses the process.
	click := tea.MouseClickMsg{X: 30, Y: m.rowsFrom + 3, Button: tea.MouseLeft}
	m.Update(click)
	if m.cursor != 101 || m.chosen.PID != 0 {
		t.Errorf("a click: the cursor is on %d, chosen %d", m.cursor, m.chosen.PID)
	}
	m.Update(click)
	if m.chosen.PID != 101 {
		t.Errorf("a double click chose %d", m.chosen.PID)
	}
	m.Update(candidatesMsg{err: errors.New("no /proc")})
	if text := m.grid.Text(); !strings.Contains(text, "no /proc") {
		t.Errorf("that the list can't be made is not in\n%s", text)
	}
}

// TestChooserBearsAnything: the list can be drawn at any size, even at sizes that no terminal has. Very long names and
// names with control characters do not spoil the picture.
func TestChooserBearsAnything(t *testing.T) {
	hostile := []Candidate{{PID: 2, PPID: 3, Title: "\x1b[2J\u202e", Command: strings.Repeat("a\nb", 9999)}, {PID: 3, PPID: 2, Why: strings.Repeat("x", 9999)}, {PID: 4, PPID: 4}}
	for w := 0; w < 130; w += 7 {
		for h := 0; h < 30; h += 3 {
			m, _ := chooserOf(t, w, h, "")
			m.Update(candidatesMsg{list: hostile})
			m.typed("end", "up", "pgdown")
			if len(m.table.Rows) != 3 || strings.ContainsAny(m.grid.Text(), "\x1b\u202e") {
				t.Fatalf("%dx%d: %d rows\n%q", w, h, len(m.table.Rows), m.grid.Text())
			}
			m.Update(candidatesMsg{})
		}
	}
}

// TestChooseOnATerminal: Choose shows the list on a real terminal, and removes it again at the end. A signal ends
// Choose.
func TestChooseOnATerminal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, way := range []string{"\r", "q", "signal"} {
		x := openTerminal(t)
		var got Choice
		go func() {
			c, err := Choose(ctx, scene.Options{Input: x.slave, Output: x.slave}, Choosing{First: pumas(), Verb: "attach",
				List: func(context.Context) ([]Candidate, error) { return pumas(), nil }})
			got = c
			x.done <- err
		}()
		x.waitFor("worker 1")
		// wait for the second list, because the first list cannot show how much of a CPU each process uses
		x.waitFor("0 %")
		if way == "signal" {
			cancel()
		} else {
			x.keys(way)
		}
		if way == "\r" {
			x.left(nil)
			if got.PID != 100 {
				t.Errorf("it chose %+v", got)
			}
			continue
		}
		x.left(ErrCancelled)
	}
	cancel()
}
