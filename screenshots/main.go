// Screenshots makes the pictures of this folder (and of the README) from recordings of the bundled program, one of each
// of its phases, and of a Rails application: what the screen showed at the recording's end. `make screenshots` runs it. How the recordings are made
// is in recordings/README.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ddtop/ddtop/export"
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

// window is the stretch of time in the pictures; the recordings are a little longer.
const window = 15 * time.Second

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
	{name: "help", recording: "hog", width: 120, height: 50, keys: []string{"?"}},
	{name: "small", recording: "hog", width: 80, height: 24},
	{name: "large", recording: "hog", width: 200, height: 50},
	{name: "rails", recording: "rails-busy", width: 120, height: 40},
	{name: "rails-small", recording: "rails-busy", width: 80, height: 24},
	{name: "rails-large", recording: "rails-busy", width: 200, height: 50},
	{name: "rails-idle", recording: "rails-idle", width: 120, height: 40},
	{name: "rails-idle-small", recording: "rails-idle", width: 80, height: 24},
	{name: "rails-idle-large", recording: "rails-idle", width: 200, height: 50},
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
	return nil
}

// take makes one picture and returns where it is.
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
	var svg bytes.Buffer
	if err := export.ScreenSVG(&svg, p.Screen, p.Options); err != nil {
		return "", err
	}
	path = filepath.Join(folder, s.name+".svg")
	return path, os.WriteFile(path, svg.Bytes(), 0o644)
}
