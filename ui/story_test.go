package ui

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/processes"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// Each test below is a story: a user presses keys, and the test checks what the screen then shows.

// hogged returns the screen of the made-up order service after 30 seconds, when one thread hogs the GVL. All tests that
// call it share one Store.
func hogged(t testing.TB, w, h int) *screen {
	t.Helper()
	return shared(t, w, h, demosource.Options{Length: 30 * time.Second}, scene.Options{Folder: t.TempDir()})
}

// sees fails the test unless all texts are on the screen.
func (s *screen) sees(texts ...string) {
	s.t.Helper()
	for _, x := range texts {
		if !strings.Contains(s.text(), x) {
			s.t.Errorf("no %q on the screen:\n%s", x, s.text())
		}
	}
}

// misses fails the test if one of the texts is on the screen.
func (s *screen) misses(texts ...string) {
	s.t.Helper()
	for _, x := range texts {
		if strings.Contains(s.text(), x) {
			s.t.Errorf("%q is on the screen:\n%s", x, s.text())
		}
	}
}

// line returns the first line that contains a text.
func (s *screen) line(text string) string {
	s.t.Helper()
	for _, l := range strings.Split(s.text(), "\n") {
		if strings.Contains(l, text) {
			return l
		}
	}
	s.t.Fatalf("no line with %q:\n%s", text, s.text())
	return ""
}

func TestFirstSight(t *testing.T) {
	s := hogged(t, 120, 40)
	s.sees("order-service", "pid 4242", "ruby 3.4.7 +yjit", "● LIVE", "ddtop 2.3 of 3 %", "GVL ", "waiting", "p99 ≤",
		"15 threads", "http ×8", "worker-3", "running", "GVL held by", "wall time", "idle hidden", "Reports#loop")
	if l := s.line("worker-3 "); !strings.Contains(l, "▆") && !strings.Contains(l, "▇") && !strings.Contains(l, "█") {
		t.Errorf("worker-3 runs, and its row does not say so: %s", l)
	}
}

func TestSelectingAndFilteringAThread(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("down", "down")
	if got := s.model.Selected; got.Thread != 2 {
		t.Fatalf("the second row is selected: %+v", got)
	}
	s.sees("▌", "tid 4243", "only http-1", "esc back") // the flamegraph at once shows only the selected thread
	s.misses("Reports#build")
	s.press("esc")
	s.sees("all threads")
	s.misses("▌", "tid 4243")
	s.press("enter")
	s.sees("▌", "only http")
}

// TestOpeningAThreadFromTheLiveView: enter opens the selected thread, and esc returns to the live view with the same
// selection. If the user has opened another thread in the meantime, the live view selects that thread.
func TestOpeningAThreadFromTheLiveView(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("down", "down", "enter")
	s.sees("stack now", "http-1")
	s.press("esc")
	s.sees("GVL held by", "only http-1")
	s.press("enter", "right", "esc") // right goes to the next thread
	s.sees("GVL held by", "only http-2")
}

func TestFilteringAGroup(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("j")
	s.sees("only http")
	s.misses("#spawn")
	s.press("tab", "enter", "tab", "esc") // esc leaves the zoom first
	s.sees("only http")
	s.press("esc")
	s.sees("all threads")
}

func TestGroupsOpenAndClose(t *testing.T) {
	s := hogged(t, 80, 24)
	s.sees("▸ http ×8")
	s.misses("http-3 ")
	s.press("down", "right")
	s.sees("▾ http ×8", "http-3")
	s.press("down", "down", "left")
	s.sees("▸ http ×8")
	s.misses("http-3 ")
	if got := s.model.Selected; got.Group != "http" {
		t.Errorf("closing a group selects it: %+v", got)
	}
}

func TestZoomingIntoAFrame(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("tab", "down", "down", "down")
	if s.model.Flame.SelNode == nil {
		t.Fatal("no frame is selected")
	}
	label := s.model.Flame.SelNode.Label
	s.sees(label, "total", "self")
	s.press("enter")
	s.sees("zoomed", "all")
	if got := s.model.Flame.Picture.Zoom; s.model.Flame.Fold.Of(got)[0].Label != label {
		t.Errorf("zoomed into %s, not %s", got.Label, label)
	}
	s.press("esc")
	s.misses("zoomed")
	if s.model.Flame.SelNode == nil || s.model.Flame.SelNode.Label != label {
		t.Error("the selection is lost on the way back")
	}
}

func TestMovingInTheFlamegraph(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("tab")
	first := s.model.Flame.SelNode
	s.press("right")
	if s.model.Flame.SelNode == first {
		t.Error("right selects the neighbour")
	}
	s.press("left")
	s.press("down", "up")
	if got := s.model.Flame.SelNode; got == nil || got.Label != first.Label {
		t.Errorf("down, up and left, right lead back to %s, not to %v", first.Label, got)
	}
	for range 50 { // the keys stop at the edges
		s.press("left", "up")
	}
	for range 50 {
		s.press("down", "right")
	}
	s.sees("wall time")
}

func TestSearching(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("/")
	s.sees("enter selects the first match")
	s.press("c", "a", "r", "*", "t")
	s.sees("/car*t", "is in a match")
	s.press("enter")
	s.sees("/car*t/")
	if n := s.model.Flame.SelNode; n == nil || n.Label != "Cart#add" {
		t.Fatalf("enter selects a match, not %v", n)
	}
	s.press("/", "backspace", "backspace", "backspace", "enter")
	s.sees("/ca/")
	at := s.model.Flame.Selected
	s.press("n")
	if reflect.DeepEqual(at, s.model.Flame.Selected) {
		t.Error("n selects another match")
	}
	s.press("N")
	if !reflect.DeepEqual(at, s.model.Flame.Selected) {
		t.Error("N goes back to the first")
	}
	s.press("/", "[")
	s.sees("missing closing ]")
	s.press("esc")
	s.sees("/ca/")
	s.press("esc")
	s.misses("/ca/")
	s.press("/", "z", "z", "z", "enter")
	s.sees("/zzz/ matches no frame")
}

func TestFreezing(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, scene.Options{Folder: t.TempDir()})
	s.press("space")
	s.sees("❄ FROZEN at 14:03:22", "sampling goes on", "space live", "then")
	s.misses("● LIVE")
	// Sampling goes on, but the picture stays.
	before := s.text()
	later := newestNS(s.store)
	for i, x := range record(t, demosource.Options{Length: 2 * time.Second}) {
		x.TimeNS = later + int64(i+1)*int64(time.Millisecond)
		s.store.Feed(x)
	}
	loadScene(s.model, false)
	s.sees("(–2.00 s)")
	cut := func(text string) string { return strings.Join(strings.Split(text, "\n")[3:], "\n") }
	if cut(before) != cut(s.text()) {
		t.Errorf("the frozen picture moved:\n%s\n%s", before, s.text())
	}
	s.press("space")
	s.sees("● LIVE")
	s.misses("FROZEN")
}

func TestMovingInTime(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("]")
	s.sees("● LIVE")
	s.press("[", "[", "[")
	s.sees("❄ FROZEN at 14:03:19", "(–3.00 s)", "until 14:03:19", "parked", "in Thread#join", "waiting ", " for the GVL")
	for range 25 { // go back to a time before the thread begins to hog the GVL
		s.press("[")
	}
	s.misses("Reports#build", "JSON")
	s.sees("http")
	for range 100 {
		s.press("[")
	}
	s.sees("FROZEN at 14:02:52")
	for range 200 {
		s.press("]")
	}
	s.sees("● LIVE")
}

func TestAnotherStretchOfTime(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("}")
	s.sees("● LIVE  10s", "last 10s", "-10s", "-8s", "-2s")
	s.press("}", "}", "}", "}", "}", "}")
	s.sees("● LIVE  1s", "last 1s")
	s.press("{", "{", "{", "{", "{")
	s.sees("s of 1m", "last 1m")
	for range 20 {
		s.press("{")
	}
	s.sees("last 10m")
}

func TestWeights(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("w")
	s.sees("CPU time", "JSON::Ext::Generator#generate")
	s.press("w")
	s.sees("waiting for the GVL")
	s.press("w")
	s.sees("blame: makes others wait", "Reports#loop")
	if n := s.model.Flame.Tree.Root; n.Total == 0 {
		t.Error("nobody is to blame while worker-3 hogs the GVL")
	}
	s.press("w")
	s.sees("allocation")
	s.press("w")
	s.sees("wall time")
}

func TestIdleThreads(t *testing.T) {
	s := hogged(t, 120, 40)
	s.misses("Queue#pop")
	s.press("I")
	s.misses("idle hidden")
	s.sees("Queue#pop")
	s.press("I")
	s.misses("Queue#pop")
}

func TestSaving(t *testing.T) {
	s := hogged(t, 120, 40)
	cmds := s.press("s")
	if len(cmds) != 1 {
		t.Fatalf("s led to %d commands", len(cmds))
	}
	s.sees("saving …")
	msg := cmds[0]().(savedMsg)
	if msg.err != nil {
		t.Fatal(msg.err)
	}
	_, clip := s.model.Update(msg)
	s.sees(filepath.Base(msg.path))
	if clip == nil || clip() != (writeMsg{ansi.SetSystemClipboard(msg.path)}) {
		t.Error("the path does not go to the clipboard")
	}
	for _, f := range []string{"profile.pb.gz", "threads.txt", "flamegraph.svg", "screen.svg", "screen.txt", "summary.md"} {
		b, err := os.ReadFile(filepath.Join(msg.path, f))
		if err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", f, len(b), err)
		}
		if f == "screen.txt" && !strings.Contains(string(b), "GVL held by") {
			t.Errorf("screen.txt is not the screen:\n%s", b)
		}
		if f == "threads.txt" && !strings.Contains(string(b), "worker-3") {
			t.Errorf("threads.txt lacks worker-3:\n%s", b)
		}
	}
	s.press("down")
	s.misses(filepath.Base(msg.path))
}

func TestSavingFails(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 5 * time.Second}, scene.Options{Folder: "/proc/no/such"})
	s.model.Update(s.press("s")[0]())
	s.sees("not saved: ")
}

func TestHelpNamesEveryKey(t *testing.T) {
	s := hogged(t, 200, 60)
	s.press("?")
	s.sees("keys and signs", "wants to run Ruby and waits for the GVL")
	for _, km := range helpMaps(s.model) {
		for _, b := range km.Bindings {
			if b.Help != "" {
				s.sees(b.Show + " ")
			} else if b.Short != "" {
				t.Errorf("%v is in the footer and not in the help", b.Keys)
			}
			if b.Do == nil || len(b.Keys) == 0 {
				t.Errorf("%q does nothing", b.Show)
			}
		}
	}
	s.press("esc")
	s.misses("keys and signs")
}

// TestHelpScrollsOnASmallScreen: the help begins with the legend, and the user can scroll to all keys. No text is cut.
// From the end, scrolling back to the top takes as many key presses as scrolling down.
func TestHelpScrollsOnASmallScreen(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}} {
		s := hogged(t, size[0], size[1])
		s.press("?")
		s.sees("wants to run Ruby", "holds the GVL")
		first := s.text()
		var seen strings.Builder
		for range 200 {
			for line := range strings.Lines(s.text()) {
				if strings.Contains(line, "│") && strings.Contains(line, "…") {
					t.Errorf("cut: %s", line)
				}
			}
			seen.WriteString(s.text())
			at := s.text()
			if s.press("down"); s.text() == at {
				break
			}
		}
		for _, km := range helpMaps(s.model) {
			for _, b := range km.Bindings {
				if words := strings.Fields(b.Help); len(words) > 2 && !strings.Contains(seen.String(), strings.Join(words[:3], " ")) {
					t.Errorf("%v: %q is never seen", size, b.Help)
				}
			}
		}
		s.press("up")
		if s.model.over.Scroll == 0 {
			t.Errorf("%v: there was nothing to scroll", size)
		}
		for range s.model.over.Scroll {
			s.press("up")
		}
		if s.text() != first {
			t.Error("the way back is not the way there")
		}
		s.press("q")
	}
}

func TestKeysOfAViewDoNotCollide(t *testing.T) {
	maps := []scene.KeyMap{globalKeys(scene.Offers{}), globalKeys(scene.Offers{Processes: true, Requests: true}), weightKeys()}
	maps = append(maps, allKeys(processes.New(nil))...)
	for _, p := range newPages(widget.NewParts(new(scene.Selection))) {
		maps = append(maps, allKeys(p)...)
	}
	for _, km := range maps {
		seen := map[string]bool{}
		for _, b := range km.Bindings {
			for _, k := range b.Keys {
				if seen[k] {
					t.Errorf("the keys of %q: %q is there twice, and only the first works", km.Title, k)
				}
				seen[k] = true
			}
		}
	}
}

func TestQuitting(t *testing.T) {
	for _, k := range []string{"q", "ctrl+c"} {
		s := hogged(t, 80, 24)
		key := keyPress("q")
		if k == "ctrl+c" {
			key = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		_, cmd := s.model.Update(key)
		if cmd == nil {
			t.Fatalf("%s does nothing", k)
		}
		if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%s leads to %T", k, cmd())
		}
	}
}

// endsWith plays a source to its end by Store.Run, and returns a screen for it. Store.Run tells the Store how the
// source ended.
func endsWith(t *testing.T, src sampler.Source, o scene.Options, w, h int) *screen {
	t.Helper()
	store, err := newStore(src, o.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o)
	if err != nil {
		t.Fatal(err)
	}
	store.Run(t.Context())
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return &screen{t, m, store}
}

func TestTargetEnds(t *testing.T) {
	s := endsWith(t, demosource.New(demosource.Options{Length: 12 * time.Second, KilledAtEnd: true}), scene.Options{}, 120, 40)
	s.sees("■ exited 14:03:04 (status 137: killed)", "everything stays to look at", "order-service", "http ×8", "Order.find_open")
	s.misses("LIVE")
	s.press("[", "[")
	s.sees("FROZEN", "■ exited 14:03:04 (status 137: killed)")
	s.press("space", "tab", "down", "enter")
	s.sees("■ exited", "zoomed")
}

func TestReplayEnds(t *testing.T) {
	s := endsWith(t, demosource.New(demosource.Options{Length: 12 * time.Second}), scene.Options{Replay: true}, 120, 40)
	s.sees("▶ REPLAY")
	s.misses("exited", "LIVE")
	s.press("[")
	s.sees("FROZEN", "recording")
}

// failing is a source for tests. It returns an error after a few samples.
type failing struct {
	*demosource.Source
	err   error
	panic bool
}

func (f failing) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	_ = f.Source.Run(ctx, emit)
	if f.panic {
		panic("out of cheese")
	}
	return f.err
}
func (f failing) End() (sampler.End, bool) { return sampler.End{}, false }

func TestSourceFails(t *testing.T) {
	src := failing{Source: demosource.New(demosource.Options{Length: 3 * time.Second}), err: errors.New("reading PID 4242: operation not permitted")}
	s := endsWith(t, src, scene.Options{}, 120, 40)
	s.sees("✖ reading PID 4242: operation not permitted", "http ×8")
	src.Source, src.panic = demosource.New(demosource.Options{Length: 3 * time.Second}), true
	s = endsWith(t, src, scene.Options{}, 120, 40)
	s.sees("✖ sampling PID 4242 failed with a bug in ddtop: out of cheese")
}

func TestBeforeTheFirstSample(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {200, 50}} {
		store, err := newStore(demosource.New(demosource.Options{}), scene.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewModel(store, scene.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{t, m, store}
		m.Update(tickMsg{}) // a tick before the size is known
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		s.sees("waiting for the first sample", "nothing measured yet")
		for _, km := range append(allKeys(m.pages[scene.PageLive]), m.keys) { // no key may panic
			for _, b := range km.Bindings {
				for _, k := range b.Keys {
					if !strings.Contains(k, "+") {
						s.press(k)
						s.press("esc")
					}
				}
			}
		}
	}
}

func TestTooSmall(t *testing.T) {
	for _, size := range [][2]int{{59, 24}, {80, 14}, {20, 5}, {1, 1}, {0, 0}} {
		s := hogged(t, size[0], size[1])
		if size[0] >= 40 {
			s.sees("60 columns by 15 rows")
		}
		s.press("down", "tab", "enter", "?", "esc")
	}
}

func TestNotice(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 2 * time.Second}, scene.Options{Notice: "the program's output is in /tmp/out"})
	s.sees("the program's output is in /tmp/out")
	s.press("down")
	s.misses("the program's output is in /tmp/out")
}
