package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// largeRecording returns a recording with many zeros at its end, as a file system may leave it after a crash. ddtop
// searches the whole file for complete blocks, which takes long. The file is sparse, so the zeros take no room on the
// disk.
func largeRecording(t *testing.T, bytes int64) string {
	t.Helper()
	data, err := os.ReadFile("../../recording/testdata/version1.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "large.ddtop")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReplayOfALargeRecording: while ddtop opens a large recording, a bar shows the progress. A key or a signal ends
// the opening.
func TestReplayOfALargeRecording(t *testing.T) {
	t.Parallel()
	path := largeRecording(t, 1<<42)
	for _, c := range []struct {
		name  string
		leave func(x *terminal)
	}{
		{"q", func(x *terminal) { x.press(t, "q") }},
		{"esc", func(x *terminal) { x.press(t, "\x1b") }},
		{"ctrl-c", func(x *terminal) { x.press(t, "\x03") }},
		{"SIGTERM", signalled(t, syscall.SIGTERM)},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := inTerminal(t, "replay", path)
			x.see(t, "opening large.ddtop")
			x.see(t, "B of 4398.0 GB") // MB, or GB on a fast machine
			c.leave(x)
			x.leaves(t, 0)
		})
	}
	small, err := filepath.Abs("../../recording/testdata/version1.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("two", func(t *testing.T) {
		x := inTerminal(t, "replay", small, path)
		x.see(t, "opening 2 recordings")
		x.see(t, "2 of 2: large.ddtop")
		x.press(t, "q")
		x.leaves(t, 0)
	})
}

// TestReplayComesAfterTheBar: when the recording is open, its screen replaces the progress bar. The screen then gets
// the keys that the user presses.
func TestReplayComesAfterTheBar(t *testing.T) {
	t.Parallel()
	x := inTerminal(t, "replay", largeRecording(t, 1<<29))
	x.see(t, "bytes are lost; all else is whole")
	x.press(t, "3")
	x.see(t, "cursor")
	x.press(t, "q")
	x.leaves(t, 0)
}

// TestWaitingForACommand: ddtop starts a command. Until the command has a Ruby VM, the screen shows that ddtop waits
// for one. If the user leaves this screen, ddtop still waits until the command ends, as after other screens.
func TestWaitingForACommand(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // for the output's file
	x := inTerminal(t, "--", "/bin/sh", "-c", "echo started; exec sleep 1000")
	x.see(t, "waiting for a Ruby VM in process ")
	x.see(t, "esc cancels")
	x.press(t, "\x1b")
	x.see(t, "ddtop: sh still runs")
	x.press(t, "\x03")
	x.leaves(t, 128+int(syscall.SIGINT))
	output, err := filepath.Glob(filepath.Join(os.TempDir(), "ddtop-sh-*.log"))
	if err != nil || len(output) != 1 || !strings.Contains(x.text(), "the output of sh is in "+output[0]) {
		t.Fatalf("the output's files are %v, %v: %s", output, err, tail(x))
	}
	if text, err := os.ReadFile(output[0]); err != nil || string(text) != "started\n" {
		t.Errorf("the output's file holds %q, %v", text, err)
	}
}

// TestACommandWithoutRuby: if a command ends without a Ruby VM, ddtop ends with the exit code of the command.
func TestACommandWithoutRuby(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	seen := filepath.Join(t.TempDir(), "seen")
	x := inTerminal(t, "--", "/bin/sh", "-c", `until [ -e "$0" ]; do sleep 0.1; done; exit 9`, seen)
	x.see(t, "waiting for a Ruby VM in process ")
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.see(t, "the program ended before it had started a Ruby VM")
	x.leaves(t, 9)
}
