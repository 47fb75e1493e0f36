package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestStoppedProcess: if the process is stopped or frozen, every view says so, at each size. If the user goes back to a
// moment before the stop, the views must not say so.
func TestStoppedProcess(t *testing.T) {
	for _, c := range []struct {
		hold       func(*sampler.Proc)
		text, head string
	}{
		{func(p *sampler.Proc) { p.Stopped = true }, "The process is stopped: a signal", "PROCESS STOPPED"},
		{func(p *sampler.Proc) { p.Frozen = true }, "Frozen by its cgroup: ", "PROCESS FROZEN"},
	} {
		t.Run(c.head, func(t *testing.T) { haltedProcess(t, c.hold, c.text, c.head) })
	}
}

func haltedProcess(t *testing.T, hold func(*sampler.Proc), text, head string) {
	src := demosource.New(demosource.Options{Length: 30 * time.Second})
	o := scene.Options{Folder: t.TempDir()}
	store, err := newStore(src, o.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o)
	if err != nil {
		t.Fatal(err)
	}
	first := int64(0)
	if err := src.Run(context.Background(), func(s *sampler.Sample) {
		if first == 0 {
			first = s.TimeNS
		}
		if s.TimeNS-first > 25e9 {
			hold(&s.Proc)
		}
		store.Feed(s)
	}); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	s := &screen{t, m, store}
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, page := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			s.press(page)
			s.sees(text)
			if size[0] >= 80 {
				s.sees(head)
			}
		}
	}
	s.press("1", "space")
	for range 20 {
		s.press("[")
	}
	s.sees("FROZEN")
	s.misses(text, head)
}

// TestStoppedProcessAmongSeveral: in the table of several processes, the row of a stopped process says that it is
// stopped, at each size. The rows of other processes must not say this.
func TestStoppedProcessAmongSeveral(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		c := new(cluster)
		quiet := demosource.Options{HTTP: 2, HogAfter: -1, Length: 10 * time.Second}
		c.add(0, &renamed{Source: demosource.New(quiet), pid: 4240, title: "master"})
		worker := &renamed{Source: demosource.New(quiet), pid: 4242, title: "worker"}
		c.list = append(c.list, sampler.Relative{PID: 4242, Parent: 4240, Title: worker.title, Source: halting{worker}})
		s := newProcessScreen(t, size[0], size[1], c, scene.Options{})
		s.sees("worker 4242: Process is stopped: a signal")
		want := "stopped"
		if size[0] >= 80 {
			s.sees("1 running · 1 stopped")
			want = "✖ stopped"
		}
		if size[0] >= 200 {
			want = "✖ Process is stopped"
		}
		if l := s.line(" ■ "); !strings.HasPrefix(l, " ■") || !strings.Contains(l, "worker") || !strings.Contains(l, want) {
			t.Errorf("%v: the stopped process: %q", size, l)
		}
		if l := s.line(" 4240 "); !strings.HasPrefix(l, " ●") || strings.Contains(l, "stopped") {
			t.Errorf("%v: the other: %q", size, l)
		}
	}
}

// halting is a process that is stopped in every sample.
type halting struct{ sampler.Source }

func (h halting) Run(ctx context.Context, each func(*sampler.Sample)) error {
	return h.Source.Run(ctx, func(s *sampler.Sample) {
		s.Proc.Stopped = true
		each(s)
	})
}
