package cli_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// seeWords is like see, but ignores blanks in both texts. ddtop writes only cells that changed, so blanks are often
// missing from the output.
func (x *terminal) seeWords(t *testing.T, text string) {
	t.Helper()
	packed := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	until(t, func() bool { return strings.Contains(packed(x.text()), packed(text)) }, "%q on the screen, there is %q", text, tail(x))
}

// viewStory lists the keys that a user presses in the views 2 to 7, and the words that the screen must show then.
var viewStory = []struct{ press, see string }{
	{"2", "current frame"},
	{">", "by name"},
	{"t", "threads"},
	{"\x1b[B", "tid"},
	{"\r", "stack"},
	{"\x1b[B", "<main>"},
	{"\x7f", "by name"},
	{"3", "a column"},
	{"\x1b[D", "FROZEN"},
	{"+", "until"},
	{" ", "last"},
	{"4", "callers first"},
	{"i", "callees first"},
	{"i", "callers first"},
	{"f", "at the bottom"},
	{"=", "change of own time, in percentage points"},
	{"=", "callers first"},
	{"5", "functions by self"},
	{">", "functions by total"},
	{"\x1b[C", "lines by total"},
	{"6", "taken"},
	{"7", "objects allocated"},
	{"1", "GVL held by"},
}

// heapStory lists the keys that a user presses to find which objects fill a running process's memory. It also has the
// words that the screen must show after each key.
var heapStory = []struct{ press, see string }{
	{"7", "objects allocated"},
	{"\x1b[C", "pages read in"},
	{"b", "Largest Strings"},
	{"\x7f", "per second"},
	{"\x1b[C", "T_STRING"},
	{"\x1b[C", "slots of"},
	{"\x1b[C", "Resident memory"},
	{"1", "GVL held by"},
}

// TestTheViewsInATerminal goes through all views in a real terminal, with a running Ruby and with a recording.
func TestTheViewsInATerminal(t *testing.T) {
	t.Parallel()
	t.Run("live", func(t *testing.T) {
		t.Parallel() // the test mostly waits
		p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
		p.Expect(t, "up")
		goThroughViews(t, inTerminal(t, "-p", strconv.Itoa(p.PID), "--overhead", "off"), slices.Concat(viewStory, heapStory))
	})
	t.Run("replay", func(t *testing.T) {
		t.Parallel()
		path, _ := record(t)
		goThroughViews(t, inTerminal(t, "replay", path), viewStory)
	})
}

func goThroughViews(t *testing.T, x *terminal, story []struct{ press, see string }) {
	t.Helper()
	x.see(t, "Integer#times")
	for _, s := range story {
		// Drop the output up to now. So the test finds only what ddtop writes after this key.
		x.mu.Lock()
		x.written.Reset()
		x.mu.Unlock()
		x.press(t, s.press)
		x.press(t, "\x0c") // redraws the whole screen
		x.seeWords(t, s.see)
	}
	x.press(t, "q")
	x.leaves(t, 0)
}
