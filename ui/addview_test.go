package ui

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// addedPage is a new view for the test: a page with its own tab. It shows how little code a new view needs.
type addedPage struct {
	page.Plain
	threads int
}

func newAddedPage(*widget.Parts) *addedPage {
	p := new(addedPage)
	p.KeyMap = scene.KeyMap{Title: "added", Bindings: []scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "answer", Help: "the key of the added view",
			Do: func(h scene.Host) tea.Cmd { h.Message().Say("the added view has answered"); return nil }},
	}}
	return p
}

func (p *addedPage) Load(sc *scene.Scene, r *store.Reading) { p.threads = len(sc.Threads) }
func (p *addedPage) About(*scene.Scene) string              { return "all about it" }
func (p *addedPage) Detail(*scene.Scene) (name, rest string) {
	return "", "nothing can be selected in it"
}
func (p *addedPage) Draw(a canvas.Area, sc *scene.Scene) {
	a.Put(1, 1, "the added view is drawn", sc.Theme.Plain())
}
func (p *addedPage) Stack(*scene.Scene) (title string, lines []string) {
	return "the added view", []string{"frame 1", "frame 2"}
}

// TestAddView: after a view is added to the list of views, it has a tab, a key, help, a footer, and text to copy. No
// other code of the screen must know the view.
func TestAddView(t *testing.T) {
	before := views
	t.Cleanup(func() { views = before })
	views = append(slices.Clone(views), page.View{ID: "added", Key: "&", Help: "what was added", Make: page.Makes(newAddedPage)})
	s := newScreen(t, 160, 50, demosource.Options{Length: 2 * time.Second}, scene.Options{})
	s.press("2")
	s.clickOn("& added") // the tab of the added view, clicked on another view
	s.sees("the added view is drawn", "all about it", "nothing can be selected in it", "enter answer")
	if p := s.model.pages["added"].(*addedPage); p.threads == 0 {
		t.Error("the view was not loaded")
	}
	s.press("enter")
	s.sees("the added view has answered")
	s.press("y")
	s.sees("copied the stack of the added view: 2 frames")
	s.press("?")
	s.sees("added: what was added", "the key of the added view")
	s.press("?", "1", "&")
	s.sees("the added view is drawn")
	if err := CheckKey("f5", "&"); err != nil {
		t.Error(err)
	}
}

// TestViewIsOneFolderAndOneLine: a view consists of its own folder and one line in the list of views. No other code may
// import the view. There is one exception: the code for several processes may import the view of processes.
func TestViewIsOneFolderAndOneLine(t *testing.T) {
	const module = "github.com/ddtop/ddtop/ui/page/"
	users := make(map[string][]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			if view, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok {
				users[view] = append(users[view], filepath.ToSlash(path))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range folders {
		if !d.IsDir() {
			continue
		}
		seen++
		want := []string{"pages.go"}
		if d.Name() == "processes" {
			want = []string{"fleet.go", "pages.go"}
		}
		if got := users[d.Name()]; !slices.Equal(got, want) {
			t.Errorf("the view %s is known to %v, want %v", d.Name(), got, want)
		}
	}
	if seen != len(views) {
		t.Errorf("%d folders, %d views", seen, len(views))
	}
	list, err := os.ReadFile("pages.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range folders {
		// The list of views must have exactly one line for each view, in addition to the line that imports the view.
		if n := strings.Count(string(list), "\t"+d.Name()+".View,\n"); d.IsDir() && n != 1 {
			t.Errorf("the view %s has %d lines in the list", d.Name(), n)
		}
	}
}
