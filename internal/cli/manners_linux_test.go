package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestMannersOfTheScreen presses keys in a real terminal, while ddtop watches a real Ruby. ddtop must write snapshots
// and recordings to the folder from the settings. If the user adds a note, the screen confirms it. When ddtop has
// ended, the terminal's mouse mode is off.
func TestMannersOfTheScreen(t *testing.T) {
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	folder, config := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(config, "ddtop"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "ddtop", "config.toml"), []byte("snapshots = \""+folder+"\"\ntheme = \"light\"\n[keys]\n\"f\" = \"space\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", config)
	x := inTerminal(t, "-p", strconv.Itoa(p.PID))
	x.see(t, "Integer#times")
	until(t, func() bool { return strings.Contains(x.raw(), "\x1b[?1002h") }, "the question for the mouse, there is %q", tail(x))
	x.press(t, "W")
	x.see(t, "REC")
	x.see(t, "W ends it")
	awaitTicks(t, x.cmd.Process.Pid) // a recording is empty without two samples
	x.press(t, "mhere\r")
	x.see(t, "marked: here")
	x.press(t, "W")
	copies := func(n int) {
		t.Helper()
		until(t, func() bool { return strings.Count(x.raw(), "\x1b]52;c;") >= n }, "%d paths in the clipboard, there is %q", n, tail(x))
	}
	copies(1)
	x.press(t, "s")
	copies(2)
	x.press(t, "f")
	x.see(t, "FROZEN")
	x.press(t, "q")
	x.leaves(t, 0)
	bundles, err := filepath.Glob(filepath.Join(folder, "*", "history.ddtop"))
	if err != nil || len(bundles) != 1 {
		t.Fatalf("snapshots: %v, %v", bundles, err)
	}
	recordings, err := filepath.Glob(filepath.Join(folder, "*.ddtop"))
	if err != nil || len(recordings) != 1 {
		t.Fatalf("recordings: %v, %v", recordings, err)
	}
	for _, path := range append(bundles, recordings...) {
		r := run(t, "report", path)
		if r.code != 0 || !strings.Contains(r.out, "spinner") || strings.Contains(r.err, "lost") {
			t.Errorf("report %s: code %d, %s%s", path, r.code, r.out, r.err)
		}
	}
}

func TestWithoutTheMouse(t *testing.T) {
	t.Parallel()
	path, _ := record(t)
	x := inTerminal(t, "replay", "--no-mouse", path)
	x.see(t, "REPLAY")
	x.press(t, "q")
	x.leaves(t, 0)
	if strings.Contains(x.raw(), "\x1b[?1002h") || strings.Contains(x.raw(), "\x1b[?1000h") {
		t.Error("the mouse is asked for")
	}
}
