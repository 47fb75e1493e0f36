// Screenshots makes the pictures in this folder and in the README from recordings. There is a picture for each phase of
// the bundled program, and for a Rails application. A picture shows ddtop's screen at the end of a recording. `make
// screenshots` runs this program. recordings/README.md describes how the recordings are made.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ddtop/ddtop/export/snapshot"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/ui"
)

// shot is one picture.
type shot struct {
	name, recording string
	width, height   int
	options         ui.Options
	keys            []string
}

// window is how much time the pictures show. The recordings are a little longer.
const window = 15 * time.Second

// exactWait are the keys that the user presses to select one of the shorter waits in the screen's list of waits.
var exactWait = append([]string{"0", "r"}, slices.Repeat([]string{"pgdown"}, 44)...)

var shots = []shot{
	{name: "live", recording: "hog", width: 120, height: 36},
	{name: "healthy", recording: "healthy", width: 120, height: 36},
	{name: "mutex", recording: "mutex", width: 120, height: 36},
	{name: "database", recording: "database", width: 120, height: 36},
	{name: "gc", recording: "gc", width: 120, height: 36},
	{name: "stall", recording: "stall", width: 120, height: 36},
	{name: "blame", recording: "hog", width: 120, height: 36, keys: []string{"w", "w", "w", "tab", "down", "down"}},
	{name: "frozen", recording: "hog", width: 120, height: 36, keys: []string{"[", "[", "[", "[", "down", "down"}},
	{name: "search", recording: "hog", width: 120, height: 36, keys: []string{"/", "R", "e", "p", "o", "r", "t", "enter"}},
	{name: "threads", recording: "hog", width: 120, height: 36, keys: []string{"2", "down", "down"}},
	{name: "thread", recording: "hog", width: 120, height: 36, options: ui.Options{Replay: true}, keys: []string{"2", ">", ">", ">", "t", "down", "enter"}},
	{name: "timeline", recording: "gc", width: 120, height: 40, keys: []string{"3", "down", "down", "left", "left"}},
	{name: "top", recording: "hog", width: 120, height: 36, keys: []string{"5", ">", ">"}},
	{name: "locks", recording: "mutex", width: 120, height: 36, keys: []string{"6", "down"}},
	{name: "memory", recording: "gc", width: 120, height: 40, keys: []string{"7"}},
	{name: "native", recording: "native", width: 120, height: 40, keys: []string{"4", "w"}},
	{name: "help", recording: "hog", width: 120, height: 50, keys: []string{"?"}},
	{name: "small", recording: "hog", width: 80, height: 24},
	{name: "large", recording: "hog", width: 200, height: 50},
	{name: "rails", recording: "rails-busy", width: 120, height: 40},
	{name: "rails-small", recording: "rails-busy", width: 80, height: 24},
	{name: "rails-large", recording: "rails-busy", width: 200, height: 50},
	{name: "rails-idle", recording: "rails-idle", width: 120, height: 40},
	{name: "rails-idle-small", recording: "rails-idle", width: 80, height: 24},
	{name: "rails-idle-large", recording: "rails-idle", width: 200, height: 50},
	{name: "requests", recording: "requests", width: 120, height: 40, keys: []string{"9"}},
	{name: "requests-small", recording: "requests", width: 80, height: 24, keys: []string{"9"}},
	{name: "requests-large", recording: "requests", width: 200, height: 50, keys: []string{"9"}},
	{name: "requests-idle", recording: "requests-idle", width: 120, height: 40, keys: []string{"9"}},
	{name: "requests-idle-small", recording: "requests-idle", width: 80, height: 24, keys: []string{"9"}},
	{name: "requests-idle-large", recording: "requests-idle", width: 200, height: 50, keys: []string{"9"}},
	{name: "exact-waits", recording: "exact", width: 120, height: 40, options: ui.Options{Replay: true}, keys: exactWait},
	{name: "exact", recording: "exact", width: 120, height: 40, options: ui.Options{Replay: true}, keys: append(exactWait[:len(exactWait):len(exactWait)], "enter")},
	{name: "light", recording: "hog", width: 120, height: 36, options: ui.Options{Theme: "light"}},
	{name: "high-contrast", recording: "hog", width: 120, height: 36, options: ui.Options{Theme: "high-contrast"}},
	{name: "no-color", recording: "hog", width: 120, height: 36, options: ui.Options{NoColor: true}},
	{name: "ascii", recording: "hog", width: 120, height: 36, options: ui.Options{NoColor: true, ASCII: true}},
}

func main() {
	folder := flag.String("folder", "screenshots", "where the pictures and recordings/ are")
	flag.Parse()
	if err := run(context.Background(), *folder); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) error {
	for i := range shots {
		path, err := shots[i].take(ctx, folder)
		if err != nil {
			return fmt.Errorf("%s: %w", shots[i].name, err)
		}
		fmt.Println("wrote", path)
	}
	return errors.Join(list(ctx, folder), animation(ctx, folder), pagePicture(ctx, folder))
}

// list makes the picture of the screen with the list of processes.
func list(ctx context.Context, folder string) error {
	began := time.Now().Add(-27 * time.Hour)
	at := func(c ui.Candidate) ui.Candidate {
		if c.Started.IsZero() {
			c.Started = began
		}
		return c
	}
	const worker = "puma: cluster worker %d: 4100 [shop]"
	first := []ui.Candidate{
		at(ui.Candidate{PID: 4100, PPID: 1, Threads: 4, CPU: 80 * time.Second, Ruby: "3.4.11", User: "app", Title: "puma", Command: "puma 6.6.0 (tcp://0.0.0.0:3000) [shop]"}),
		at(ui.Candidate{PID: 4131, PPID: 4100, Threads: 14, CPU: time.Hour, Ruby: "3.4.11", User: "app", Title: "puma", Command: fmt.Sprintf(worker, 0)}),
		at(ui.Candidate{PID: 4132, PPID: 4100, Threads: 14, CPU: time.Hour, Ruby: "3.4.11", User: "app", Title: "puma", Command: fmt.Sprintf(worker, 1)}),
		at(ui.Candidate{PID: 4188, PPID: 1, Threads: 12, CPU: time.Hour, Ruby: "3.3.9", User: "app", Title: "sidekiq", Command: "sidekiq 7.3.9 shop [5 of 5 busy]"}),
		at(ui.Candidate{PID: 5002, PPID: 1, Threads: 2, CPU: time.Minute, User: "reports", Title: "nightly.rb", Command: "ruby /srv/reports/nightly.rb --since yesterday",
			Why: "process 5002: no permission to read the process: it belongs to user reports, and we are app (operation not permitted). Run `sudo ddtop -p 5002`.", Started: time.Now().Add(-12 * time.Minute)}),
	}
	later := slices.Clone(first)
	for i, share := range []time.Duration{0, 870, 340, 1020, 160} {
		later[i].CPU += share * time.Millisecond
	}
	p, err := ui.TakeListPicture(ctx, ui.Options{}, ui.Choosing{First: first, Verb: "attach"}, later, 100, 14)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	_, err = write(folder, "list", p)
	return err
}

// take makes one picture of the screen and returns the path of the picture's file.
func (s *shot) take(ctx context.Context, folder string) (path string, err error) {
	r, err := recording.Open(filepath.Join(folder, "recordings", s.recording+".ddtop"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	o := s.options
	o.Source, o.Window = r, window
	p, err := ui.TakePicture(ctx, o, s.width, s.height, s.keys...)
	if err != nil {
		return "", err
	}
	return write(folder, s.name, p)
}

// write writes a picture and returns the path of its file.
func write(folder, name string, p ui.Picture) (path string, err error) {
	var svg bytes.Buffer
	if err := snapshot.ScreenSVG(&svg, p.Screen, p.Options); err != nil {
		return "", err
	}
	path = filepath.Join(folder, name+".svg")
	return path, os.WriteFile(path, svg.Bytes(), 0o644)
}
