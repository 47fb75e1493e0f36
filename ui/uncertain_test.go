package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// compiled is the made-up process with a JIT. Whenever DB#query is the innermost frame, its line is uncertain.
type compiled struct{ *demosource.Source }

func (c compiled) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	d := c.Dictionary()
	return c.Source.Run(ctx, func(s *sampler.Sample) {
		for i := range s.Threads {
			st := &s.Threads[i].Stack
			caller, id := d.Stack(*st)
			if f := d.Frame(id); f.Label == "DB#query" {
				f.Line, f.Uncertain = f.FirstLine, true
				*st = d.InternStack(caller, d.InternFrame(f))
			}
		}
		emit(s)
	})
}

// TestLinesThatCantBeTrustedAreMarked: an uncertain line has a question mark in the table of lines and in stacks. The
// table of functions has no question mark, because it shows the first line of a function, which is certain.
func TestLinesThatCantBeTrustedAreMarked(t *testing.T) {
	src := compiled{demosource.New(demosource.Options{Length: 20 * time.Second, HogAfter: -1})}
	store, err := newStore(src, scene.Options{History: store.DefaultHistory})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), store.Feed); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	s := &screen{t, m, store}
	s.resize(160, 48)

	s.press("5")
	s.sees("db.rb:15") // the first line of the function is certain
	s.misses("db.rb:15?")
	s.press("right")
	s.sees("db.rb:15?", "db.rb:17") // the line of a call that waits is certain
	s.misses("db.rb:17?")
	p := m.pages[scene.PageTop].(*top.Page)
	for range p.Table.Rows {
		s.press("down")
		if name, rest := p.Detail(&m.Scene); name == "DB#query" && strings.Contains(rest, ":15") != strings.Contains(rest, "db.rb:15?") {
			t.Errorf("selected: %s %s", name, rest)
		}
	}
	s.press("left")
	s.misses("db.rb:15?")

	var lines []string
	for _, th := range m.Threads {
		_, at := m.ThreadStack(&th)
		lines = append(lines, at...)
	}
	for _, line := range lines {
		if strings.Contains(line, "db.rb:15)") || strings.Contains(line, "db.rb:17?") {
			t.Errorf("a stack to copy: %q", line)
		}
	}
	s.press("?")
	s.sees(":9?", "compiled code has only")
}
