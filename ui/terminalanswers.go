package ui

import (
	"reflect"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

const (
	// tornWithin is how late the rest of a terminal's answer may come, for example over a slow connection. Bubble Tea
	// waits only 50 ms. After that it reports the late bytes as key presses. The bytes of the answer about the
	// background (ESC ] 11 ; rgb:ffff/ffff/ffff ESC \) would then open views and the search.
	tornWithin = 3 * time.Second
	// answersWithin is how long after the start a terminal's answer can begin. ddtop asks the terminal only at the
	// start. During this time, ESC followed by ] or [ is treated as the beginning of an answer. Later it is treated as
	// key presses.
	answersWithin = 10 * time.Second
	// maxAnswer limits the length of a terminal's answer, in bytes.
	maxAnswer = 64
)

// tornAnswers joins the pieces of a terminal's answer if they arrive as key presses.
type tornAnswers struct {
	now    func() time.Time
	start  time.Time
	escape time.Time // when esc was pressed last
	last   time.Time // when a piece came last
	answer []byte    // the parts so far, or nil between answers
}

func newTornAnswers(now func() time.Time) *tornAnswers { return &tornAnswers{now: now, start: now()} }

// filter handles a message of Bubble Tea. If the message is a piece of an answer, filter returns nil. At the last piece
// it returns the whole answer. It returns any other message unchanged.
func (t *tornAnswers) filter(msg tea.Msg) tea.Msg {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		return t.key(key)
	}
	// If Bubble Tea does not understand a sequence, it passes the sequence on as a string of an unexported type (2.0.9:
	// uv.UnknownEvent).
	if v := reflect.ValueOf(msg); v.Kind() == reflect.String {
		if s := v.String(); strings.HasPrefix(s, "\x1b]") || strings.HasPrefix(s, "\x1b[?") {
			t.begin(s)
			return nil
		}
	}
	return msg
}

func (t *tornAnswers) begin(s string) { t.answer, t.last = []byte(s), t.now() }

func (t *tornAnswers) key(msg tea.KeyPressMsg) tea.Msg {
	key, now := msg.String(), t.now()
	if t.answer != nil && now.Sub(t.last) < tornWithin && len(t.answer) < maxAnswer {
		t.last = now
		ended, ok := t.add(key)
		if !ok {
			t.answer = nil // the user presses keys
			return msg
		}
		if !ended {
			return nil
		}
		text := string(t.answer)
		t.answer = nil
		if c := ansi.XParseColor(strings.TrimPrefix(text, "\x1b]11;")); c != nil && text[1] == ']' {
			return tea.BackgroundColorMsg{Color: c}
		}
		return nil
	}
	t.answer = nil
	early := now.Sub(t.start) < answersWithin
	switch {
	case key == "esc":
		t.escape = now
	case early && (key == "alt+]" || key == "]" && now.Sub(t.escape) < tornWithin):
		t.begin("\x1b]")
		return nil
	case early && (key == "alt+[" || key == "[" && now.Sub(t.escape) < tornWithin):
		t.begin("\x1b[")
		return nil
	}
	return msg
}

// add appends a key press to the answer. ok is false if the key cannot be a part of an answer. ended is true if the
// answer ends with this key.
func (t *tornAnswers) add(key string) (ended, ok bool) {
	if t.answer[1] == ']' { // OSC: ended by ST or BEL
		if key == `alt+\` || key == `\` || key == "ctrl+g" {
			return true, true
		}
		ok = len(key) == 1 && strings.Contains("0123456789abcdefABCDEFrg:;/", key)
	} else { // CSI: a private sequence begins with ? and ends with a letter
		switch {
		case len(key) != 1:
		case len(t.answer) == 2:
			ok = key == "?"
		case strings.Contains("0123456789;:$", key):
			ok = true
		default:
			return true, key[0] >= '@' && key[0] <= '~'
		}
	}
	if ok {
		t.answer = append(t.answer, key...)
	}
	return false, ok
}
