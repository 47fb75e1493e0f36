package ui

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/timeline"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// copied runs the commands, and returns the text that they copy to the clipboard.
func copied(t *testing.T, cmds []tea.Cmd) string {
	t.Helper()
	if len(cmds) != 1 {
		t.Fatalf("%d commands", len(cmds))
	}
	return clipped(t, cmds[0]())
}

// clipped returns the text that a message copies to the terminal's clipboard (OSC 52).
func clipped(t *testing.T, msg tea.Msg) string {
	t.Helper()
	written, _ := msg.(writeMsg)
	coded, begins := strings.CutPrefix(written.text, "\x1b]52;c;")
	coded, ends := strings.CutSuffix(coded, "\x07")
	text, err := base64.StdEncoding.DecodeString(coded)
	if !begins || !ends || err != nil {
		t.Fatalf("%#v does not set the clipboard: %v", msg, err)
	}
	return string(text)
}

// readBack reads a recording from its file. It returns the number of samples, and the recorded process.
func readBack(t *testing.T, path string) (n int, p sampler.Process) {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d := r.Damage(); d != nil {
		t.Error(d)
	}
	if err := r.Run(t.Context(), func(*sampler.Sample) { n++ }); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	return n, r.Process()
}

func TestCopyingAStack(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("down", "down", "down", "down", "down", "down", "down", "down", "down", "down", "down", "down")
	s.sees("▌")
	text := copied(t, s.press("y"))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 || !strings.Contains(lines[0], ": ") || !strings.HasPrefix(lines[1], "  ") || !strings.Contains(text, ".rb:") {
		t.Errorf("no stack: %q", text)
	}
	s.sees("copied the stack of")
	s.press("tab", "down")
	text = copied(t, s.press("y"))
	if !strings.HasPrefix(text, s.model.Flame.SelNode.Label+"\n") {
		t.Errorf("not the stack of the selected frame: %q", text)
	}
}

// TestCopyingAStackOnEveryPage: the key y copies the selected stack. On a page without stacks it copies the summary.
func TestCopyingAStackOnEveryPage(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("down", "down")
	th := s.model.Timeline.Chosen()
	if th == nil {
		t.Fatal("no thread is selected")
	}
	for _, page := range []string{"2", "enter", "3"} {
		s.press(page)
		text := copied(t, s.press("y"))
		if !strings.HasPrefix(text, th.Name+": ") || !strings.Contains(text, "\n  ") || !strings.Contains(text, ".rb:") {
			t.Errorf("page %s: no stack of %s: %q", s.model.Page, th.Name, text)
		}
	}
	// The user moves the cursor to an instant before the end of the newest picture.
	s.pressAll("left", "H")
	p := s.model.pages[scene.PageTimeline].(*timeline.Page)
	st, ok := p.Under(th.ID)
	if !ok {
		t.Fatal("nothing is under the cursor")
	}
	title, lines, _ := strings.Cut(copied(t, s.press("y")), "\n")
	at := s.model.Process.WallTime(p.CursorNS).Format(" (15:04:05.000)")
	if want := th.Name + ": " + gvl.Describe(st, s.store.Dict) + at; title != want {
		t.Errorf("under the cursor: %q, want %q", title, want)
	}
	if got, want := strings.Count(lines, "\n"), len(s.store.Dict.Frames(st.Stack, nil)); got != want || want == 0 {
		t.Errorf("%d frames under the cursor, want %d", got, want)
	}
	s.press("esc", "space", "4", "down")
	if text := copied(t, s.press("y")); !strings.HasPrefix(text, s.model.Flame.SelNode.Label+"\n  ") {
		t.Errorf("page 4: not the selected frame: %q", text)
	}
	s.press("7")
	if text := copied(t, s.press("y")); !strings.HasPrefix(text, "**order-service**") {
		t.Errorf("page 7: %q", text)
	}
}

func TestCopyingASummary(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("m")
	s.typed("deploy | rolled back @here <b>")
	s.press("enter")
	for _, key := range []string{"y", "Y"} {
		text := copied(t, s.press(key))
		for _, want := range []string{"**order-service** pid 4242, ruby 3.4.7, 30s until ", "\n* **GVL saturated**: held ", "\n  → ",
			"noted: ", `deploy \| rolled back &#64;here &lt;b>`, "\nGVL 89 % · waiting ", "makes others wait", "\n1. ", "JSON::Ext::Generator#generate", "| thread | now |", "| worker-3 | running", "| http ×8 | "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", key, want, text)
			}
		}
	}
	s.sees("copied a summary")
}

// TestSummaryOfAnIdleProcess: a summary shows on what the time was spent. It names code that makes other threads wait
// only if a thread waits. If a character has a meaning in a chat, the summary escapes it. It escapes no other
// characters.
func TestSummaryOfAnIdleProcess(t *testing.T) {
	s := hogged(t, 120, 40)
	if text := summary(s.model); !strings.Contains(text, "\nHot path, ") || !strings.Contains(text, "JSON::Ext::Generator#generate`") {
		t.Errorf("no hot path in\n%s", text)
	}
	s.model.Weights.Entries = nil
	s.model.Flame.Tree = nil
	if text := summary(s.model); strings.Contains(text, "makes others wait") {
		t.Errorf("blame without a wait in\n%s", text)
	}
	for text, want := range map[string]string{"GC <1 % · R & D": "GC <1 % · R & D", "<b>&lt;</b>": "&lt;b>&amp;lt;&lt;/b>", "a|b*_@x": `a\|b\*\_&#64;x`} {
		if got := markdown(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// typed presses the keys of a text.
func (s *screen) typed(text string) {
	for _, r := range text {
		s.press(string(r))
	}
}

// TestCopyingInTmux: in tmux ddtop sends an escape sequence to the terminal in which tmux runs. It also runs a command
// that gives the text to tmux. With its default settings tmux ignores the escape sequences.
func TestCopyingInTmux(t *testing.T) {
	s := hogged(t, 120, 40)
	s.model.Opt.Tmux = true
	cmds := s.press("Y")
	if len(cmds) != 1 {
		t.Fatalf("%d commands", len(cmds))
	}
	batch, ok := cmds[0]().(tea.BatchMsg)
	if !ok || len(batch) != 3 {
		t.Fatalf("not three commands: %#v", batch)
	}
	raw := batch[1]().(writeMsg).text
	if !strings.HasPrefix(raw, "\x1bPtmux;\x1b\x1b]52;c;") || !strings.Contains(raw, base64.StdEncoding.EncodeToString([]byte("**order-service**"))[:16]) {
		t.Errorf("%.60q", raw)
	}
	rubytest.Program(t, "tmux", "tmux")
	socket := filepath.Join(t.TempDir(), "s")
	tmux := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "cat")
	defer tmux("kill-server")
	t.Setenv("TMUX", socket+",1,0")
	batch[2]()
	if got := tmux("show-buffer"); !strings.HasPrefix(got, "**order-service**") {
		t.Errorf("tmux has %.60q", got)
	}
}

func TestMarkingAMoment(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("[", "[", "[", "[", "[")
	at := s.model.AtNS
	s.press("m")
	s.sees("note at " + s.model.Process.WallTime(at).Format("15:04:05"))
	s.typed("q \x1b]52;c;eA==\x07 back")
	s.press("backspace", "K", "enter")
	if len(s.model.Notes) != 1 || s.model.Notes[0].AtNS != at || strings.ContainsRune(s.model.Notes[0].Text, '\x1b') {
		t.Fatalf("%+v", s.model.Notes)
	}
	s.sees("bacK▼") // the cursor (▼) is at the right edge
	s.press("space")
	x := strings.Index(s.line("bacK▼"), "▼") // the cursor has moved to the left
	if x < 0 || x > 115 {
		t.Errorf("the note is at %d", x)
	}
	s.press("m", "x", "esc")
	s.press("m", "enter")
	if len(s.model.Notes) != 1 {
		t.Errorf("a note that was not taken: %+v", s.model.Notes)
	}
	for i := range 2 * scene.MaxNotes {
		s.model.Notes.Add(sampler.Note{AtNS: int64(i), Text: "x"})
	}
	if len(s.model.Notes) != scene.MaxNotes || !(s.model.Notes[0].AtNS < s.model.Notes[1].AtNS) {
		t.Errorf("%d notes", len(s.model.Notes))
	}
}

func TestTheSnapshotHoldsTheHistory(t *testing.T) {
	s := hogged(t, 120, 40)
	msg := s.press("s")[0]().(savedMsg)
	if msg.err != nil {
		t.Fatal(msg.err)
	}
	n, p := readBack(t, filepath.Join(msg.path, "history.ddtop"))
	if want := len(record(t, demosource.Options{Length: 30 * time.Second})); n != want || p.PID != 4242 {
		t.Errorf("%d samples of %d, of %+v", n, want, p)
	}
}

func TestRecordingWhileItRuns(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "one", "to be made")
	samples := record(t, demosource.Options{Length: 3 * time.Second})
	s := newScreen(t, 120, 40, demosource.Options{Length: 2 * time.Second}, scene.Options{Folder: folder})
	run := func(cmds []tea.Cmd) tea.Cmd {
		if len(cmds) != 1 {
			t.Fatalf("%d commands", len(cmds))
		}
		_, cmd := s.model.Update(cmds[0]())
		return cmd
	}
	run(s.press("W"))
	s.sees("● REC", "W ends it")
	fed := 0
	for _, x := range samples {
		if x.TimeNS > newestNS(s.store) {
			s.store.Feed(x)
			fed++
		}
	}
	if clip := run(s.press("W")); clip == nil {
		t.Error("the path is not copied")
	}
	s.misses("● REC")
	s.sees("-140254.ddtop")
	files, err := filepath.Glob(filepath.Join(folder, "order-service-4242-*.ddtop"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if n, _ := readBack(t, files[0]); n != fed+1 || fed == 0 { // begins with the sample on the screen
		t.Errorf("%d samples of %d", n, fed)
	}
	for path, want := range map[string]os.FileMode{files[0]: 0o600, folder: 0o700, filepath.Dir(folder): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, not %v (%v)", path, info.Mode(), want, err)
		}
	}
	run(s.press("W")) // a second recording in the same second must get another name
	run(s.press("W"))
	if files, _ := filepath.Glob(filepath.Join(folder, "*.ddtop")); len(files) != 2 {
		t.Error(files)
	}
	s.model.Opt.Folder = "/proc/no/such"
	run(s.press("W"))
	s.sees("not recorded: ", "/proc/no/such")
	s.misses("● REC")
}

// TestRecordingForAMoment: the key W begins a recording, and the next W ends it. Even if the second W comes before the
// file is open, the recording must be written. It has all samples between the two presses, even samples that no picture
// has shown yet.
func TestRecordingForAMoment(t *testing.T) {
	folder := t.TempDir()
	samples := record(t, demosource.Options{Length: 3 * time.Second})
	s := newScreen(t, 120, 40, demosource.Options{Length: 2 * time.Second}, scene.Options{Folder: folder})
	opening := s.press("W")
	fed := 0
	feed := func(x *sampler.Sample) {
		if x.TimeNS > newestNS(s.store) {
			s.store.Feed(x)
			fed++
		}
	}
	for _, x := range samples[:len(samples)-1] {
		feed(x)
	}
	if more := s.press("W"); more != nil {
		t.Fatal("two files are opened at once")
	}
	_, closing := s.model.Update(opening[0]())
	if closing == nil {
		t.Fatal("the second W is forgotten")
	}
	s.misses("● REC")
	s.store.Read(func(*store.Reading) { // during Read, a sample must wait, as while a picture is being drawn
		s.store.Feed(samples[len(samples)-1])
		fed++
	})
	s.model.Update(closing())
	s.sees("the path copied: ")
	files, err := filepath.Glob(filepath.Join(folder, "*.ddtop"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if n, _ := readBack(t, files[0]); n != fed+1 || fed == 0 {
		t.Errorf("%d samples of %d", n, fed)
	}
}

// TestTheSnapshotRightAfterTheStart: ddtop refuses a snapshot while it has only one sample, because one sample has no
// duration. After the second sample, the snapshot has both samples, even if no picture has shown the second one yet.
func TestTheSnapshotRightAfterTheStart(t *testing.T) {
	samples := record(t, demosource.Options{Length: time.Second})
	store, err := newStore(demosource.New(demosource.Options{}), scene.Options{History: store.DefaultHistory})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t, m, store}
	store.Feed(samples[0])
	s.resize(120, 40)
	if cmds := s.press("s"); cmds != nil {
		t.Error("it saves")
	}
	s.sees("nothing to save yet: one sample")
	store.Feed(samples[1])
	msg := s.press("s")[0]().(savedMsg)
	if msg.err != nil {
		t.Fatal(msg.err)
	}
	if n, _ := readBack(t, filepath.Join(msg.path, "history.ddtop")); n != 2 {
		t.Errorf("%d samples", n)
	}
}

// TestRecordingOnAFullDisk: if the disk is full during a recording, the screen reports the error and continues to run.
func TestRecordingOnAFullDisk(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 2 * time.Second}, scene.Options{})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	whole, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(&turning{whole, full, 0}, s.store.Process(), s.store.Dict)
	if err != nil {
		t.Fatal(err)
	}
	s.store.Rec = &store.Recorder{Path: "/dev/full", File: full, W: w}
	s.model.recordKey.on = true
	at := newestNS(s.store)
	for _, x := range record(t, demosource.Options{Length: 10 * time.Second}) {
		x.TimeNS += at
		s.store.Feed(x)
	}
	if err := w.Flush(); err == nil {
		t.Error("the disk is not full")
	}
	x := record(t, demosource.Options{Length: time.Second / 2})[0]
	x.TimeNS = newestNS(s.store) + 2e9
	s.store.Feed(x)
	s.model.Refresh()
	s.sees("the recording ended early", "no space left")
	s.misses("● REC")
	if _, _, _, err := s.store.StopRecording(nil); err == nil {
		t.Error("closing says nothing")
	}
}

// turning imitates a file on a disk that becomes full: the first write succeeds, and all later writes fail.
type turning struct {
	first, then *os.File
	n           int
}

func (w *turning) Write(b []byte) (int, error) {
	if w.n++; w.n == 1 {
		return w.first.Write(b)
	}
	return w.then.Write(b)
}

func TestKeysOfOnesOwn(t *testing.T) {
	s := newScreen(t, 200, 80, demosource.Options{Length: 5 * time.Second}, scene.Options{Keys: map[string]string{"f": "space"}})
	s.press("f")
	s.sees("FROZEN")
	s.press("f", "?")
	s.sees("your keys (config.toml)", "as space")
	s.press("esc", "/", "f", "f")
	s.sees("/ff")
	if err := CheckKey("f", "space"); err != nil {
		t.Error(err)
	}
	for _, k := range [][2]string{{"f", "f12"}, {"ctrl+c", "space"}, {"", "space"}} {
		if CheckKey(k[0], k[1]) == nil {
			t.Errorf("%v is taken", k)
		}
	}
}

func TestPresenting(t *testing.T) {
	s := hogged(t, 120, 45)
	s.press("tab", "down", "down", "down", "down")
	s.sees("app/")
	s.press("P", "tab", "tab", "down", "down", "down", "down", "[")
	s.misses("app/", "/lib/")
	s.sees("down  down  down  down  [", ".rb:")
	if r := s.model.Regions; r.Findings != 2 || strings.TrimSpace(strings.Split(s.text(), "\n")[1]) != "" {
		t.Error("it is not spaced")
	}
	s.press("P", "space")
	s.misses("down  [")
	s.press("tab", "tab", "down", "down", "down", "down")
	s.sees("app/")
}

func TestRedacting(t *testing.T) {
	o := scene.Options{Folder: t.TempDir(), Redactor: redact.New()}
	s := newScreen(t, 120, 45, demosource.Options{Length: 30 * time.Second}, o)
	s.press("tab", "down", "down", "down", "down")
	s.sees(".rb:")
	s.misses("app/")
	s.press("P", "P") // the presentation is on and off again
	msg := s.press("s")[0]().(savedMsg)
	if msg.err != nil {
		t.Fatal(msg.err)
	}
	for _, f := range []string{"threads.txt", "flamegraph.svg", "screen.txt", "summary.md"} {
		b, err := os.ReadFile(filepath.Join(msg.path, f))
		if err != nil || strings.Contains(string(b), "app/") || f != "summary.md" && !strings.Contains(string(b), "Order") {
			t.Errorf("%s names directories, or nothing: %v", f, err)
		}
	}
	r, err := recording.Open(filepath.Join(msg.path, "history.ddtop"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if p := r.Process(); p.User+p.Host != "" || p.CommandLine != nil {
		t.Errorf("%+v", p)
	}
	frames, _, _, _, _ := s.store.Dict.Sizes()
	seen := 0
	if err := r.Run(t.Context(), func(x *sampler.Sample) {
		for i := range x.Threads {
			for _, id := range r.Dictionary().Frames(x.Threads[i].Stack, nil) {
				seen++
				if f := r.Dictionary().Frame(id); strings.Contains(f.Path+f.AbsolutePath, "/") {
					t.Fatalf("the recording has %+v", f)
				}
			}
		}
	}); !errors.Is(err, sampler.ErrEnded) || seen == 0 || frames == 0 {
		t.Errorf("%v, %d frames", err, seen)
	}
}
