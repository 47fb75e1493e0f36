package ui

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/memory"
	"github.com/ddtop/ddtop/ui/scene"
)

// fakeHeap imitates a reader of the heap that counts objects. In its made-up heap the class Session leaks 20 objects a
// second. A count takes a second, and a major collection precedes each count.
type fakeHeap struct {
	n       uint64
	grows   uint64 // bytes by which the malloc arenas grow with each count
	refusal error
	asked   []string
	hurries bool
	value   string // the bytes of a String
}

const heapStartNS = int64(5e9)

func (f *fakeHeap) Count(_ context.Context, memory bool) (*sampler.HeapCount, *sampler.MemoryParts, error) {
	if f.refusal != nil {
		return nil, nil, f.refusal
	}
	leaked := 1000 + 200*f.n
	c := &sampler.HeapCount{BeganNS: heapStartNS + int64(f.n)*10e9, EndedNS: heapStartNS + int64(f.n)*10e9 + 1e9, CPUNS: 15e6, Pages: 1025,
		Collections: 2 * f.n, Majors: f.n, Objects: 300_000 + leaked, Skipped: 3, SurvivedKnown: true,
		Sizes:   []sampler.HeapSize{{SlotSize: 40, Pages: 1025, Slots: 419_225, Filled: 301_000, Fullness: [5]int{0, 300, 0, 0, 725}}},
		Types:   []sampler.HeapKind{{Name: "T_STRING", Objects: 300_000, Old: 290_000, SlotBytes: 12e6, OtherBytes: 1e6, Unsized: 3}, {Name: "T_OBJECT", Objects: leaked, Old: leaked, SlotBytes: 40 * leaked}},
		Classes: []sampler.HeapKind{{Name: "String", Objects: 300_000, Old: 290_000, SlotBytes: 12e6, OtherBytes: 1e6, Unsized: 3}, {Name: "Session", Objects: leaked, Old: leaked, SlotBytes: 40 * leaked}}}
	f.n++
	if !memory {
		return c, nil, nil
	}
	free := uint64(31e6)
	return c, &sampler.MemoryParts{RSS: 80e6 + f.grows*f.n, PSS: 70e6, Private: 60e6, Parts: []sampler.MemoryPart{{Kind: sampler.MemoryMalloc, Bytes: 40e6 + 1e6*f.n + f.grows*f.n}, {Kind: sampler.MemoryRuby, Bytes: 30e6}},
		Malloc: sampler.MallocMemory{Allocator: "glibc", Arenas: 4, Bytes: 44e6, Free: &free}, Asked: "App#grow asked the kernel for 75 % of it."}, nil
}

func (f *fakeHeap) Explain(_ context.Context, class string, hurry func() bool, progress func(done, total int)) (string, error) {
	f.asked, f.hurries = append(f.asked, class), hurry()
	progress(300, 1025)
	if f.refusal != nil {
		return "", f.refusal
	}
	text := class + ": 1,200 objects\n" + strings.Repeat("a line\n", 100) + "SessionStore::CACHE (Hash) → Session\n" +
		strings.Repeat("Array → ", 12) + "the last of a long path\n"
	if f.value != "" {
		text += export.ValueMark + f.value + "\"\n"
	}
	return text, nil
}

// heapScreen returns the view of memory with the list of classes. The parameter counts says how often the heap was
// counted.
func heapScreen(t *testing.T, f *fakeHeap, o scene.Options, w, h, counts int) *screen {
	t.Helper()
	o.Heap = func(int) scene.HeapReader { return f }
	s := newScreen(t, w, h, demosource.Options{Length: 10 * time.Second}, o)
	setDone(s.store, false)
	s.press("7")
	s.ran(s.press("right"))
	for range counts - 1 {
		s.count()
	}
	return s
}

// count moves the clock to the time of ddtop's next count of the heap, and runs this count.
func (s *screen) count() {
	now := s.model.Scene.Now()
	s.model.Scene.Now = func() time.Time { return now.Add(time.Minute) }
	page := s.model.pages[scene.PageMemory].(*memory.Page)
	if cmd := page.Fetch(s.model); cmd != nil {
		s.ran([]tea.Cmd{cmd})
	} else {
		s.t.Error("no count is due")
	}
	if cmd := page.Fetch(s.model); cmd != nil {
		s.t.Error("a count is due right behind another")
	}
}

// TestMemoryShowsWhatGrows: the view of memory lists classes with the number of their old objects. It shows how much
// this number has grown since the first count or the last mark. The class that leaks is highlighted. The page says how
// the figures were read.
func TestMemoryShowsWhatGrows(t *testing.T) {
	for _, size := range screenSizes {
		f := new(fakeHeap)
		s := heapScreen(t, f, scene.Options{}, size[0], size[1], 1)
		s.sees("1025 pages read in 1 s (15 ms of CPU)", "3 pages changed meanwhile", "String", "300,000", "it takes some counts", "grown since")
		for range 9 {
			s.count()
		}
		s.sees("Session fills, 20/s", "from 1,200 to 2,800 old objects", "▲ 20/s")
		if row := s.line("  Session"); !strings.Contains(row, "+1,800") {
			t.Errorf("what has grown since the first count: %q", row)
		}
		s.press("m")
		s.typed("deploy")
		s.press("enter")
		// set the mark's time to a moment after the tenth count
		s.model.Notes[len(s.model.Notes)-1].AtNS = heapStartNS + 95e9
		s.count()
		s.sees(`mark "deploy"`)
		if row := s.line("  Session"); !strings.Contains(row, "+200") {
			t.Errorf("what has grown since the mark: %q", row)
		}
		for !strings.Contains(s.text(), "per second▼") {
			s.press(">")
		}
		if text := s.text(); strings.Index(text, "  Session\n") > strings.Index(text, "  String\n") {
			t.Errorf("not sorted by growth:\n%s", text)
		}
		s.search("sess")
		s.sees("  Session\n")
		s.misses("  String\n")
		s.press("esc", "right")
		s.sees("T_STRING", "T_OBJECT")
	}
}

// TestMemoryGrowthIsNamed: while memory grows, ddtop counts the objects of the heap, even if another page is shown. The
// finding about the growth names the class that grows most.
func TestMemoryGrowthIsNamed(t *testing.T) {
	s := heapScreen(t, new(fakeHeap), scene.Options{}, 120, 40, 1)
	page := s.model.pages[scene.PageMemory].(*memory.Page)
	s.press("1")
	if now := s.model.Scene.Now(); page.Fetch(s.model) == nil {
		s.model.Scene.Now = func() time.Time { return now.Add(time.Hour) }
	}
	if page.Fetch(s.model) != nil {
		t.Error("the heap is counted behind a page although the memory does not grow")
	}
	grows := []findings.Finding{{ID: "memory_grows", Text: "40 MB have become 80 MB", Next: "see"}}
	for range 9 {
		s.model.Findings.List = grows
		s.count()
	}
	ended := append(slices.Clone(grows), findings.Finding{ID: "memory_grows", Text: "grew", AgoNS: 5e9})
	page.Growing(ended)
	f := ended[0]
	if !strings.Contains(f.Text, "80 MB; Session fills, 20/s") || !strings.Contains(f.Next, "h on Session") || ended[1].Text != "grew" {
		t.Errorf("%+v", ended)
	}
}

// TestMemoryOfCode: memory grows, and Ruby's objects do not explain the growth. After the second count the view and the
// finding say so.
func TestMemoryOfCode(t *testing.T) {
	for _, size := range screenSizes {
		s := heapScreen(t, &fakeHeap{grows: 20e6}, scene.Options{}, size[0], size[1], 2)
		s.press("left")
		text := strings.Join(strings.Fields(s.text()), " ")
		if !strings.Contains(text, "Memory grew by 20 MB in 10 s, most of it malloc arenas") || !strings.Contains(text, "it is memory of C code") {
			t.Error(s.text())
		}
		list := []findings.Finding{{ID: "memory_grows", Text: "40 MB have become 80 MB"}}
		s.model.pages[scene.PageMemory].(*memory.Page).Growing(list)
		if !strings.Contains(list[0].Text, "it is memory of C code") || !strings.Contains(list[0].Text, "App#grow asked the kernel for 75 % of it") {
			t.Error(list[0].Text)
		}
	}
}

// TestMemoryNamesHolders: the key h searches in the background which objects refer to the objects of the selected
// class. The screen shows the progress, and esc cancels the search.
func TestMemoryNamesHolders(t *testing.T) {
	f := new(fakeHeap)
	s := heapScreen(t, f, scene.Options{Folder: t.TempDir()}, 120, 40, 2)
	s.press("end")
	cmds := s.press("h")
	if s.sees("what holds Session", "copying the heap"); len(f.asked) != 0 {
		t.Error("it is asked on the screen's own goroutine")
	}
	if cmd := s.model.pages[scene.PageMemory].(*memory.Page).Fetch(s.model); cmd != nil {
		t.Error("objects are counted during the copy")
	}
	s.press("h") // if the user presses h again, the search hurries
	s.ran(cmds)
	s.sees("Session: 1,200 objects")
	s.misses("SessionStore::CACHE")
	s.press("end")
	s.sees("SessionStore::CACHE (Hash) → Session")
	s.resize(80, 24)
	s.press("end")
	s.sees("Array → the last of a long path")
	s.resize(120, 40)
	if !f.hurries || len(f.asked) != 1 || f.asked[0] != "Session" {
		t.Errorf("%+v", f)
	}
	s.press("esc")
	s.ran(s.press("b"))
	s.sees("the largest objects")
	s.press("esc")
	s.sees("of RSS")
	folder := s.model.Opt.Folder
	s.ran(s.press("s"))
	for _, name := range []string{"heap.txt", "heap.json"} {
		files, _ := filepath.Glob(filepath.Join(folder, "*", name))
		if len(files) != 1 {
			t.Fatalf("%d %s in the snapshot", len(files), name)
		}
		if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "Session") {
			t.Errorf("%s: %s %v", name, text, err)
		}
	}
	late := s.press("h")
	s.press("esc")
	s.ran(late)
	s.misses("what holds")
	f.refusal = errors.New("the heap has too many objects")
	s.ran(s.press("h"))
	s.sees("the heap has too many objects")
	s.press("esc")
	s.count()
	s.sees("not counted: the heap has too many objects", "String")
}

// TestMemoryShowsValuesOnTheScreen: the screen shows the contents of Strings, but the files of a snapshot must not have
// them. In a presentation the screen hides them, too.
func TestMemoryShowsValuesOnTheScreen(t *testing.T) {
	f := new(fakeHeap)
	s := heapScreen(t, f, scene.Options{Folder: t.TempDir()}, 120, 40, 2)
	f.value = "secret of a String"
	s.ran(s.press("b"))
	s.press("end")
	s.sees("secret of a String")
	s.ran(s.press("s"))
	files, _ := filepath.Glob(filepath.Join(s.model.Opt.Folder, "*", "*"))
	if len(files) < 6 {
		t.Errorf("the snapshot has %q", files)
	}
	pictures := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("%s has the bytes of a String, or: %v", name, err)
		}
		if strings.Contains(string(text), "(value not shown)") {
			pictures++
		}
	}
	if pictures == 0 {
		t.Error("no picture of the answer is in the snapshot")
	}
	s.sees("secret of a String")
	s.press("P")
	s.misses("secret of a String")
	s.press("P")
	s.sees("secret of a String")
}

// TestMemoryShowsItsParts: the view of memory shows how full the pages of the heap are. It also lists the kinds of
// memory, each with its growth and a curve.
func TestMemoryShowsItsParts(t *testing.T) {
	for _, size := range screenSizes {
		s := heapScreen(t, new(fakeHeap), scene.Options{}, size[0], size[1], 1)
		s.press("right", "right")
		s.sees("< 10 %", "40 B", "300 of 1,025 pages are filled by less than a tenth", "GC.compact")
		s.press("right")
		s.sees("Resident memory: 80.0 MB", "malloc arenas", "jemalloc.")
		s.count()
		s.sees("+1.0 MB", "over time", "RSS", "42 MB")
	}
}

// TestMemoryOfRecordings: a recording has no heap whose objects ddtop could count. The screen says so.
func TestMemoryOfRecordings(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("7")
	s.misses("classes")
	if cmds := s.press("right"); len(cmds) != 0 {
		t.Errorf("%d commands", len(cmds))
	}
	s.sees("not in a recording")
}
