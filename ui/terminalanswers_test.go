package ui

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// unknown imitates Bubble Tea's event for a sequence that Bubble Tea does not understand.
type unknown string

// TestTornAnswersAreNoKeyPresses: a terminal's answer can arrive in pieces, which Bubble Tea takes for key presses.
// ddtop joins the pieces, and passes on only real key presses.
func TestTornAnswersAreNoKeyPresses(t *testing.T) {
	typed := func(s string) (out []tea.Msg) {
		for _, r := range s {
			out = append(out, tea.KeyPressMsg{Code: r, Text: string(r)})
		}
		return out
	}
	esc, st, bel := tea.KeyPressMsg{Code: tea.KeyEscape}, tea.KeyPressMsg{Code: '\\', Mod: tea.ModAlt}, tea.KeyPressMsg{Code: 'g', Mod: tea.ModCtrl}
	alt := func(r rune) tea.Msg { return tea.KeyPressMsg{Code: r, Mod: tea.ModAlt} }
	const light = "]11;rgb:ffff/ffff/ffff"
	join := func(parts ...any) (out []tea.Msg) {
		for _, p := range parts {
			if list, ok := p.([]tea.Msg); ok {
				out = append(out, list...)
			} else {
				out = append(out, p)
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		in   []tea.Msg
		want []string // keys that get through, or "light" for a reported background
		wait time.Duration
	}{
		"in the middle":       {join(unknown("\x1b]11;rgb:ffff/f"), typed("fff/ffff"), st), []string{"light"}, 0},
		"ended by BEL":        {join(unknown("\x1b]11;rgb:ffff/f"), typed("fff/ffff"), bel), []string{"light"}, 0},
		"before the last":     {join(unknown("\x1b]11;rgb:ffff/ffff/ffff"), typed(`\`)), []string{"light"}, 0},
		"after ESC":           {join(esc, typed(light), st), []string{"esc", "light"}, 0},
		"after ESC ]":         {join(alt(']'), typed("11;rgb:ffff/ffff/ffff"), st), []string{"light"}, 0},
		"a mode's":            {join(unknown("\x1b[?2026"), typed(";2$yq")), []string{"q"}, 0},
		"a mode's, after ESC": {join(esc, typed("[?2026;2$yq")), []string{"esc", "q"}, 0},
		"never ended, a key":  {join(unknown("\x1b]11;rgb:ff"), typed("q/")), []string{"q", "/"}, 0},
		"another key":         {join(unknown("\x1b]11;rgb:ff"), esc, typed("/")), []string{"esc", "/"}, 0},
		"too late":            {join(unknown("\x1b]11;rgb:ff"), typed("/f")), []string{"/", "f"}, tornWithin},
		"no answer":           {join(unknown("\x1b[25~"), typed("/f")), []string{"/", "f"}, 0},
		"keys alone":          {join(typed("11;/"), esc, typed("/")), []string{"1", "1", ";", "/", "esc", "/"}, 0},
		"long after start":    {join(esc, typed("]/")), []string{"esc", "]", "/"}, answersWithin},
	} {
		now := time.Now()
		f := newTornAnswers(func() time.Time { return now })
		if c.wait == answersWithin {
			now = now.Add(c.wait)
		}
		var got []string
		for _, msg := range c.in {
			switch msg := f.filter(msg).(type) {
			case tea.KeyPressMsg:
				got = append(got, msg.String())
			case tea.BackgroundColorMsg:
				if msg.IsDark() {
					t.Errorf("%s: a dark ground", name)
				}
				got = append(got, "light")
			}
			if c.wait == tornWithin {
				now = now.Add(c.wait)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}

// TestTornAnswerThroughBubbleTea sends a terminal's answers in two pieces to the real Bubble Tea. The second piece
// comes only after Bubble Tea has stopped waiting for it. No piece may become a key press.
func TestTornAnswerThroughBubbleTea(t *testing.T) {
	k := &keyNames{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in, out := io.Pipe()
	torn := newTornAnswers(time.Now)
	heads := make(chan struct{}, 8)
	filter := func(_ tea.Model, msg tea.Msg) tea.Msg {
		was := torn.answer == nil
		msg = torn.filter(msg)
		if was && torn.answer != nil {
			heads <- struct{}{} // Bubble Tea has passed on the first piece alone
		}
		return msg
	}
	p := tea.NewProgram(k, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(new(bytes.Buffer)), tea.WithoutSignalHandler(), tea.WithFilter(filter))
	go func() {
		for _, pieces := range [][2]string{{"\x1b]11;rgb:ffff/f", "fff/ffff\x1b\\"}, {"\x1b[?2026", ";2$y"}} {
			io.WriteString(out, pieces[0])
			select {
			case <-heads:
			case <-ctx.Done():
			}
			io.WriteString(out, pieces[1])
		}
		io.WriteString(out, "x\x03")
	}()
	if _, err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(k.names, []string{"x"}) {
		t.Errorf("key presses: %q", k.names)
	}
}
