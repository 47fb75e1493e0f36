package cli_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// secretStory lists keys that lead through all views and overlays of the screen, and the words that the screen must
// show after each key.
var secretStory = []struct{ press, see string }{
	{"1", "GVL held by"},
	{"?", "keys and signs"}, {"?\x0c", "GVL held by"},
	{"!", "findings"}, {"!\x0c", "GVL held by"}, // the overlay is small and covers no row of the timeline
	{"/kept_\r", "GVL held by"},
	{"Y", "copied a summary"}, {"/\x15\r", "GVL held by"}, // a search hides the threads that do not match
	{"2", "current frame"}, {"j", "current frame"}, {"j", "current frame"}, {"j", "current frame"}, {"j", "current frame"}, {"j", "current frame"},
	{"y", "copied the stack"},
	{"\r", "stack"}, {"\x1b[B", "stack"}, {"\x1b[B", "stack"}, {"\x1b[B", "stack"}, {"\x7f", "current frame"},
	{"3", "a column"}, {"4", "callers first"}, {"5", "functions by self"}, {"\x1b[C", "lines by"}, {"6", "holder is"}, {"7", "objects allocated"},
	{"s", "and its path copied"}, {"W", "recording to"}, {"P", "recording goes on"}, {"W", "and the path copied"},
	{"3", "a column"}, {"\x1b[D", "FROZEN"},
}

// TestNoSecretOnAScreen: with --redact, no secret reaches the terminal or a saved file. The terminal also gets window
// titles and the content of the clipboard. Without --redact, the terminal and the files get secrets, which proves that
// the test's search finds them. The test visits the screens of one process, of several processes, and of a replay.
func TestNoSecretOnAScreen(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := startSecretive(t)
	pid := strconv.Itoa(p.PID)
	whole := filepath.Join(t.TempDir(), "kept.ddtop")
	run(t, "record", "-p", pid, "-d", "3s", "--format", "ddtop", "-o", whole).want(t, 0)
	for _, c := range []struct {
		name string
		args []string
		// The field before lists the keys that lead to the first view of secretStory.
		before []struct{ press, see string }
		// The field seen has the secrets that this screen must show if --redact is not given.
		seen []string
	}{
		{"one", []string{"-p", pid, "--args"}, nil, []string{"zqtitle", "zqnamed", "zqreader", "zqdir", "zqrelative", "127.66.66.66", "zqcustomer"}},
		{"several", []string{"-p", pid, "--children", "--args"}, []struct{ press, see string }{{"8", "2 processes"}, {"jj", "2 processes"}, {"\r", "process"}},
			[]string{"zqchild", "zqargument", "zqtitle"}},
		{"replay", []string{"replay", whole}, nil, []string{"zqtitle", "zqnamed", "zqdir"}},
	} {
		for _, redacted := range []bool{false, true} {
			t.Run(c.name+" "+strconv.FormatBool(redacted), func(t *testing.T) {
				args := append(slices.Clone(c.args), "--snapshots", "zqfolder of/it's, (zq)")
				if redacted {
					args = append(args, "--redact")
				}
				x := inTerminal(t, args...)
				if err := pty.Setsize(x.master, &pty.Winsize{Rows: 60, Cols: 220}); err != nil {
					t.Fatal(err)
				}
				var sent strings.Builder
				for _, s := range slices.Concat(c.before, secretStory) {
					if c.name == "replay" && (s.press == "W" || s.press == "P") { // a replay cannot be recorded
						continue
					}
					x.press(t, s.press)
					// do not redraw after these keys: any further key would close their overlay or message
					if !strings.Contains("?!YysWP", s.press) {
						x.press(t, "\x0c") // redraws the whole screen
					}
					x.seeWords(t, s.see)
					sent.WriteString(x.raw())
					x.forget()
				}
				// While the user types a note, the prompt shows it, even with --redact. So the test does not search the
				// output up to here.
				x.press(t, "mzznote\r")
				x.seeWords(t, "marked: ")
				x.forget()
				x.press(t, "1\x0c")
				x.seeWords(t, "FROZEN")
				x.press(t, "q")
				x.leaves(t, 0)
				sent.WriteString(x.raw())
				text := sentText(t, sent.String())
				for _, secret := range append(c.seen, "zznote") {
					if has := strings.Contains(text, secret); !has && !redacted {
						t.Errorf("without --redact %q is not on any view: the walk looks at too little", secret)
					}
				}
				for _, secret := range append(secretsOf(t), "zznote") {
					if i := strings.Index(text, secret); redacted && i >= 0 {
						t.Errorf("%q was sent to the terminal: %q", secret, text[max(0, i-80):min(len(text), i+80)])
					}
				}
				if !strings.Contains(text, "kept_") {
					t.Errorf("no method was seen: %q", text)
				}
				searchSaved(t, x.cmd.Dir, redacted)
			})
		}
	}
}

// TestNoSecretOfACommandLeaves: ddtop starts a command. With --redact, its messages about this command contain neither
// the command's name nor the folder of its output. Without --redact they contain both.
func TestNoSecretOfACommandLeaves(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	program := filepath.Join(folder, "zqcommand")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nuntil [ -e over ]; do sleep 0.1; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, redacted := range []bool{false, true} {
		x := inTerminal(t, "--redact="+strconv.FormatBool(redacted), "--", program)
		x.see(t, "waiting for a Ruby VM")
		x.press(t, "q")
		if err := os.WriteFile(filepath.Join(x.cmd.Dir, "over"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		x.leaves(t, 0)
		text := x.text()
		for _, secret := range []string{"zqcommand", folder} {
			if has := strings.Contains(text, secret); has == redacted {
				t.Errorf("redacted %v: %q is in it: %v; %s", redacted, secret, has, tail(x))
			}
		}
		if !strings.Contains(text, "the output of ") || !strings.Contains(text, ".log") {
			t.Errorf("it does not say where the output is: %s", tail(x))
		}
	}
}

// sentText returns, in lower case, what ddtop sent to a terminal. After it comes the decoded content of the clipboard.
// Each other escape sequence becomes a line break, so that the texts before and after it do not join.
func sentText(t *testing.T, raw string) string {
	t.Helper()
	var clipboard strings.Builder
	for _, m := range regexp.MustCompile(`\x1b\]52;c;([A-Za-z0-9+/=]*)(?:\x07|\x1b\\)`).FindAllStringSubmatch(raw, -1) {
		text, err := base64.StdEncoding.DecodeString(m[1])
		if err != nil {
			t.Error(err)
		}
		clipboard.Write(text)
	}
	if clipboard.Len() == 0 {
		t.Error("nothing went to the clipboard")
	}
	return strings.ToLower(regexp.MustCompile(`\x1b\]52;[^\x07\x1b]*|\x1b\[[0-9;?<>=]*[a-zA-Z]`).ReplaceAllString(raw, "\n") + clipboard.String())
}

// savedFiles is the number of files in a snapshot (snapshot.Snapshot).
const savedFiles = 6

// searchSaved searches for secrets in all files that a screen has saved below a folder, and in their names.
func searchSaved(t *testing.T, folder string, redacted bool) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(folder, "zqfolder of"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return nil
		}
		files++
		below, err := filepath.Rel(filepath.Join(folder, "zqfolder of/it's, (zq)"), path)
		if err != nil {
			return err
		}
		text := strings.ToLower(string(readAll(t, path)) + below)
		found := ""
		for _, secret := range append(secretsOf(t), "zznote") {
			if i := strings.Index(text, secret); i >= 0 {
				found = text[max(0, i-80):min(len(text), i+80)]
			}
		}
		if (found != "") == redacted {
			t.Errorf("redacted %v: in %s there is %q", redacted, below, found)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if files < savedFiles {
		t.Errorf("%d files were saved", files)
	}
}

// secretsOf returns all secrets in lower case: the names in the program secretive, and the name of this machine.
func secretsOf(t *testing.T) []string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"zq", "127.66.66.66", "7f42:4242", "%7a%71", "☎"}
	if len(host) > 3 {
		secrets = append(secrets, strings.ToLower(host))
	}
	return secrets
}
