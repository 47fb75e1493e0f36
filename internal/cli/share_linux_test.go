package cli_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestScreenIsShared: two people can share a screen of ddtop by tmux as documented. The second client sees the redacted
// screen. Keys that the second client presses do nothing, and keys that the first client presses work.
func TestScreenIsShared(t *testing.T) {
	t.Parallel()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		rubytest.Skip(t, "there is no tmux: apt-get install tmux")
	}
	recipe, err := os.ReadFile("../../docs/reference/screen.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"tmux -S /run/ddtop/screen new-session ddtop -p PID --redact", "tmux -S /run/ddtop/screen attach -r"} {
		if !strings.Contains(string(recipe), words) {
			t.Errorf("the docs lack %q", words)
		}
	}
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; Thread.new { loop { sleep 0.1 } }.name = "hunter2's"; puts "up"; STDIN.gets`, rubytest.Options{})
	ruby.Expect(t, "up")
	socket := filepath.Join(t.TempDir(), "s")
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(tmux, append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "TMUX=", "TERM=xterm-256color", "XDG_CONFIG_HOME="+t.TempDir())
		return cmd
	}
	t.Cleanup(func() { _ = run("kill-server").Run() }) // ignore the error: the server of tmux may have ended already
	client := func(args ...string) (*exec.Cmd, *os.File) {
		t.Helper()
		cmd := run(args...)
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 110})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		go func() { _, _ = io.Copy(io.Discard, f) }() // no error check: Wait reports how the client ended
		return cmd, f
	}
	pane := func() string {
		out, _ := run("capture-pane", "-p").Output() // fails until there is a session
		return string(out)
	}
	await := func(what string, so func() bool) {
		t.Helper()
		for deadline := time.Now().Add(rubytest.Timeout); !so(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited for %s:\n%s", what, pane())
			}
		}
	}
	clients := func() int {
		out, _ := run("list-clients").Output()
		return strings.Count(string(out), "\n")
	}
	first, keys := client("new-session", ddtop, "-p", strconv.Itoa(ruby.PID), "--redact")
	await("the screen", func() bool { return strings.Contains(pane(), "thread A") })
	if strings.Contains(pane(), "hunter2") {
		t.Errorf("it is not redacted:\n%s", pane())
	}
	// If keys come within a millisecond, tmux by default assumes that the text was pasted, and ignores its prefix key
	// in it. This option turns that off.
	if out, err := run("set-option", "-g", "assume-paste-time", "0").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	watcher, its := client("attach", "-r")
	await("the second client", func() bool { return clients() == 2 })
	// The second client types "qq" and then detaches. tmux handles keys in order. So when the client has detached, tmux
	// has handled "qq" too.
	fmt.Fprint(its, "qq\x02d")
	if err := watcher.Wait(); err != nil {
		t.Fatalf("the second client: %v", err)
	}
	if clients() != 1 || !strings.Contains(pane(), "thread A") {
		t.Fatalf("the keys of the second client ended the screen:\n%s", pane())
	}
	fmt.Fprint(keys, "q")
	if err := first.Wait(); err != nil {
		t.Errorf("the first client: %v", err)
	}
}
