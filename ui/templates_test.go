package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// templated is the made-up process, with Rails templates in place of the methods. The label of a template is its file.
type templated struct{ *demosource.Source }

func (c templated) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	d := c.Dictionary()
	known := make(map[sampler.StackID]sampler.StackID)
	var translate func(sampler.StackID) sampler.StackID
	translate = func(stack sampler.StackID) sampler.StackID {
		if stack == 0 {
			return 0
		}
		if _, ok := known[stack]; !ok {
			caller, id := d.Stack(stack)
			f := d.Frame(id)
			if !f.C && f.Own() {
				name := "orders/_" + strings.ToLower(strings.NewReplacer("#", "_", " ", "_").Replace(f.Name)) + ".html.erb"
				f.Label, f.Name, f.FirstLine = name, name, 0
				f.Path, f.AbsolutePath = "app/views/"+name, "/srv/app/views/"+name
			}
			known[stack] = d.InternStack(translate(caller), d.InternFrame(f))
		}
		return known[stack]
	}
	return c.Source.Run(ctx, func(s *sampler.Sample) {
		for i := range s.Threads {
			s.Threads[i].Stack = translate(s.Threads[i].Stack)
		}
		emit(s)
	})
}

// TestTemplatesAreCalledByFileAndLine: every view names a Rails template by its file and line. It must not add the
// path, because the name already says it. It must not show a line 0.
func TestTemplatesAreCalledByFileAndLine(t *testing.T) {
	src := templated{demosource.New(demosource.Options{Length: 12 * time.Second, HogAfter: -1, HTTP: 3})}
	st, err := newStore(src, scene.Options{History: store.DefaultHistory})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(st, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), st.Feed); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	s := &screen{t, m, st}
	s.resize(200, 50)
	seen := 0
	for _, view := range []string{"1", "2", "3", "4", "5", "6", "9", "0"} {
		s.press(view)
		for range 12 {
			for line := range strings.Lines(s.text()) {
				if strings.Contains(line, "views/orders/") || strings.Contains(line, ".erb:0") || strings.Contains(line, "erb  _") {
					t.Errorf("view %s: %s", view, line)
				}
				seen += strings.Count(line, ".erb:1") + strings.Count(line, ".erb:2")
			}
			s.press("down")
		}
		s.press("esc")
	}
	if seen == 0 {
		t.Error("no template is called by its line")
	}
}
