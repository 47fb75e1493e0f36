package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// do presses a key. It runs the key's commands, and the commands that follow from them, as Bubble Tea does. It returns
// the message of the last command.
func (s *processScreen) do(key string) (last tea.Msg) {
	s.t.Helper()
	_, cmd := s.fleet.Update(keyPress(key))
	for cmd != nil {
		last = cmd()
		_, cmd = s.fleet.Update(last)
	}
	return last
}

// TestProcessActionsAreOfTheSelectedRow: view 8 lists all processes. Its keys for saving, copying, marking and
// recording must act on the process in the selected row. The view stays open.
func TestProcessActionsAreOfTheSelectedRow(t *testing.T) {
	folder := t.TempDir()
	s := clusterScreen(t, 120, 40, scene.Options{Folder: folder})
	for _, key := range []string{"s", "y", "Y", "m", "W"} {
		s.do(key)
		s.sees("of which process?")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v: nothing was selected", left, err)
	}

	selects := func(pid int) {
		t.Helper()
		for range 10 {
			if to := s.fleet.page.Table.Cursor.Of; to != nil && to.Store.Process().PID == pid {
				return
			}
			s.press("down")
		}
		t.Fatalf("process %d can't be selected:\n%s", pid, s.text())
	}
	selects(4242)
	if got := clipped(t, s.do("Y")); !strings.Contains(got, "**order-service** pid 4242") || !strings.Contains(got, "hogs the GVL") {
		t.Errorf("Y copied %.300s", got)
	}
	s.sees("order-service 4242: copied a summary", "2 threads")
	selects(4243)
	if got := clipped(t, s.do("y")); !strings.Contains(got, "**order-service** pid 4243") {
		t.Errorf("y copied %.300s", got)
	}
	s.press("m")
	s.sees("order-service 4243, note at ")
	s.press("u", "p", "enter")
	for _, of := range s.fleet.List() {
		notes := 0
		if s.fleet.model(of) != nil {
			notes = len(s.fleet.model(of).Notes)
		}
		if is := of.Store.Process().PID == 4243; is != (notes == 1) {
			t.Errorf("process %d has %d notes", of.Store.Process().PID, notes)
		}
	}
	s.do("s")
	s.do("W")
	if got := s.fleet.screen().message.Text; !strings.HasPrefix(got, "recording to "+folder) || !strings.Contains(got, "-4243-") {
		t.Errorf("W says %q", got)
	}
	s.do("W")
	for _, pattern := range []string{"*4243*/threads.txt", "*4243*.ddtop"} {
		if got, err := filepath.Glob(filepath.Join(folder, pattern)); err != nil || len(got) != 1 {
			all, _ := filepath.Glob(filepath.Join(folder, "*"))
			t.Errorf("%q: %v, %v of %v", pattern, got, err, all)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("%v, %v: a snapshot and a recording were asked for", left, err)
	}

	// If a finding is selected, the keys act on the process of this finding.
	s.press("up", "up", "up", "up", "up", "v", "v", "tab")
	if of := s.fleet.page.Meant(); of == nil || of.Store.Process().PID != 4242 {
		t.Errorf("the first finding is not of the hogged process:\n%s", s.text())
	}
}

// TestProcessArgumentsAreShownWhenAskedFor: view 8, the list of processes, shows command lines only if the option Args
// is set. While the screen hides names, it never shows them.
func TestProcessArgumentsAreShownWhenAskedFor(t *testing.T) {
	const secret = "--token=s3cret"
	c := new(cluster)
	for i := range 2 {
		c.add(0, &renamed{Source: demosource.New(demosource.Options{HTTP: 1, Length: time.Second}), pid: 10 + i, title: "job", args: []string{"job", secret}})
	}
	played, err := play(c)
	if err != nil {
		t.Fatal(err)
	}
	seen := func(o scene.Options, keys ...string) bool {
		s := screenOf(t, 160, 30, played, o)
		s.sees("job")
		s.press("down", "v")
		s.press(keys...)
		return strings.Contains(s.text(), secret)
	}
	for _, x := range []struct {
		name string
		o    scene.Options
		keys []string
		want bool
	}{
		{"nothing asked", scene.Options{}, nil, false},
		{"args", scene.Options{Args: true}, nil, true},
		{"other views", scene.Options{Args: true}, []string{"1"}, false},
		{"presentation", scene.Options{Args: true}, []string{"P"}, false},
		{"frozen, then presentation", scene.Options{Args: true}, []string{"space", "P"}, false},
		{"presentation left", scene.Options{Args: true}, []string{"P", "P"}, true},
		{"redacted", scene.Options{Args: true, Redactor: redact.New()}, nil, false},
	} {
		if got := seen(x.o, x.keys...); got != x.want {
			t.Errorf("%s: arguments on the screen: %v", x.name, got)
		}
	}
}

// TestPresentationHidesDirectoriesEverywhere: when a presentation begins, all directories on the screen disappear at
// once, in every view, live or frozen.
func TestPresentationHidesDirectoriesEverywhere(t *testing.T) {
	paths := regexp.MustCompile(`(^|[\s"'(])/?(srv|usr|tmp|app|lib)/\S*`)
	check := func(name string, press func(...string), text func() string, keys []string) {
		press(keys...)
		press("P")
		if found := paths.FindAllString(text(), -1); found != nil {
			t.Errorf("%s: %q", name, found)
		}
	}
	for _, freeze := range []string{"", "space"} {
		for name, keys := range map[string][]string{"processes": nil, "one": {"down", "down", "tab", "down", "down", "down"}, "functions": {"v"}, "findings": {"v", "v", "tab"}} {
			s := clusterScreen(t, 200, 50, scene.Options{})
			if freeze != "" {
				keys = append(slices.Clone(keys), freeze)
			}
			check("view 8, "+name+" "+freeze, s.press, s.text, keys)
		}
		for _, page := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			for _, keys := range [][]string{{page}, {page, "tab", "down", "down", "enter"}} {
				s := deadlockScreen(t, 200, 50, scene.Options{})
				if freeze != "" {
					keys = append(keys, freeze)
				}
				check(fmt.Sprint("view ", keys), func(keys ...string) { s.press(keys...) }, s.text, keys)
			}
		}
	}
}
