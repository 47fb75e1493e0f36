package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplayAgainst: `ddtop replay --against` compares two recordings on the screen. If the other recording is broken
// or missing, or if two recordings are replayed at once, ddtop ends with an error that says why.
func TestReplayAgainst(t *testing.T) {
	t.Parallel()
	a, b := valuesFile(t), valuesFile(t)
	x := inTerminal(t, "replay", a, "--against", b)
	x.see(t, "pid 42")
	x.press(t, "4")
	x.seeWords(t, "own time against "+filepath.Base(b))
	x.press(t, "5")
	x.seeWords(t, "before")
	x.press(t, "q")
	x.leaves(t, 0)

	broken := filepath.Join(t.TempDir(), "broken.ddtop")
	if err := os.WriteFile(broken, []byte("ddtoprec, but no more"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"replay", a, "--against", broken}, "--against"},
		{[]string{"replay", a, "--against", filepath.Join(t.TempDir(), "none.ddtop")}, "no such file"},
		{[]string{"replay", a, b, "--against", b}, "compares one recording"},
	} {
		x := inTerminal(t, c.args...)
		x.see(t, c.says)
		code := 1
		if len(c.args) == 5 {
			code = 2
		}
		x.leaves(t, code)
	}
}
