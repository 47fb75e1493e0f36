package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/processes"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// renamed is the made-up process, with a PID and a title that the test chooses.
type renamed struct {
	*demosource.Source
	pid   int
	title string
	part  string
	args  []string
	end   string // how the process ended, or "" while it lives
}

func (r *renamed) Process() sampler.Process {
	p := r.Source.Process()
	p.PID, p.Title, p.Part, p.CommandLine = r.pid, r.title, r.part, r.args
	return p
}

func (r *renamed) End() (sampler.End, bool) {
	if r.end == "" {
		return sampler.End{}, false
	}
	return sampler.End{AtNS: r.Source.Process().AttachedNS + int64(20*time.Second), Reason: r.end}, true
}

// cluster is a group of made-up processes for the tests: a master with its workers and other relatives.
type cluster struct {
	list []sampler.Relative
}

func (c *cluster) Follow(_ context.Context, join func(sampler.Source)) error {
	for i := range c.list {
		if s := c.list[i].Source; s != nil {
			join(s)
		}
	}
	return sampler.ErrEnded
}

func (c *cluster) Done(sampler.Source) {}

func (c *cluster) Relatives() ([]sampler.Relative, int) { return c.list, 0 }

func (c *cluster) add(parent int, r *renamed) {
	c.list = append(c.list, sampler.Relative{PID: r.pid, Parent: parent, Title: r.title, Source: r})
}

// newCluster returns a cluster with three special workers. In the first worker, one thread hogs the GVL. The second has
// exited, and the third has replaced itself by another program (exec).
func newCluster() *cluster {
	c := new(cluster)
	quiet := func(seed uint64) demosource.Options {
		return demosource.Options{Seed: seed, HTTP: 2, HogAfter: -1, Length: 30 * time.Second}
	}
	c.add(0, &renamed{Source: demosource.New(quiet(1)), pid: 4240, title: "master"})
	c.add(4240, &renamed{Source: demosource.New(demosource.Options{Length: 30 * time.Second}), pid: 4242, title: "order-service"})
	c.add(4240, &renamed{Source: demosource.New(quiet(3)), pid: 4243, title: "order-service"})
	c.add(4240, &renamed{Source: demosource.New(quiet(4)), pid: 4244, title: "order-service", end: "exited"})
	c.add(4240, &renamed{Source: demosource.New(quiet(5)), pid: 4245, title: "order-service", end: "replaced itself by another program (exec)"})
	c.list = append(c.list, sampler.Relative{PID: 4245, Parent: 4240, Title: "sleep", Why: "no Ruby (/usr/bin/sleep)"})
	return c
}

// processScreen is a screen for several processes, on which the test presses keys.
type processScreen struct {
	t     *testing.T
	fleet *fleet
}

func newProcessScreen(t *testing.T, w, h int, g sampler.Group, o scene.Options) *processScreen {
	t.Helper()
	played, err := play(g)
	if err != nil {
		t.Fatal(err)
	}
	return screenOf(t, w, h, played, o)
}

// play plays the processes of a group to their end.
func play(g sampler.Group) (*fleet, error) {
	f := newFleet(scene.Options{Group: g}.WithDefaults())
	var failed error
	err := g.Follow(context.Background(), func(src sampler.Source) {
		m := f.join(src)
		if err := src.Run(context.Background(), m.Store.Feed); !errors.Is(err, sampler.ErrEnded) {
			failed = err
		}
		if end, ended := src.End(); ended {
			m.Store.SetState(store.SourceState{Done: true, End: end, Ended: true})
		}
	})
	if !errors.Is(err, sampler.ErrEnded) {
		failed = errors.Join(failed, err)
	}
	return f, failed
}

// playedCluster returns the processes of newCluster, played to their end. All tests share them, because showing a Store
// does not change it.
var playedCluster = sync.OnceValues(func() (*fleet, error) { return play(newCluster()) })

// clusterScreen is the screen of newCluster.
func clusterScreen(t *testing.T, w, h int, o scene.Options) *processScreen {
	t.Helper()
	played, err := playedCluster()
	if err != nil {
		t.Fatal(err)
	}
	return screenOf(t, w, h, played, o)
}

// screenOf returns a new screen for processes that have already been played.
func screenOf(t *testing.T, w, h int, played *fleet, o scene.Options) *processScreen {
	t.Helper()
	o.Group = played.group
	f := newFleet(o.WithDefaults())
	for _, m := range played.members {
		redact.HideDirectories(m.Store.Dict, false) // another test may have hidden the directories
		f.members = append(f.members, &scene.Member{Store: m.Store, Number: m.Number, Parent: m.Parent, Path: m.Path})
	}
	if err := f.open(f.members[0]); err != nil {
		t.Fatal(err)
	}
	f.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return &processScreen{t, f}
}

func (s *processScreen) press(keys ...string) {
	s.t.Helper()
	for _, k := range keys {
		s.fleet.Update(keyPress(k))
	}
}

func (s *processScreen) text() string { return s.fleet.screen().grid.Text() }

func (s *processScreen) sees(texts ...string) {
	s.t.Helper()
	for _, x := range texts {
		if !strings.Contains(s.text(), x) {
			s.t.Errorf("no %q on the screen:\n%s", x, s.text())
		}
	}
}

func (s *processScreen) misses(texts ...string) {
	s.t.Helper()
	for _, x := range texts {
		if strings.Contains(s.text(), x) {
			s.t.Errorf("%q is on the screen:\n%s", x, s.text())
		}
	}
}

// line returns the first line of the screen that contains a text.
func (s *processScreen) line(text string) string {
	s.t.Helper()
	for l := range strings.Lines(s.text()) {
		if strings.Contains(l, text) {
			return l
		}
	}
	s.t.Fatalf("no line with %q:\n%s", text, s.text())
	return ""
}

func TestGoldenProcesses(t *testing.T) {
	for _, v := range []struct {
		name string
		keys []string
	}{
		{"processes", nil},
		{"processes-one", []string{"down", "down", "v", "tab", "down", "down"}},
		{"processes-findings", []string{"v", "v", "tab"}},
	} {
		goldens(t, v.name, func(t *testing.T, o scene.Options, width, height int) Picture {
			s := clusterScreen(t, width, height, o)
			s.press(v.keys...)
			return taken(s.fleet.screen())
		})
	}
}

func TestProcessesAtFirstSight(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	s.sees("5 processes", "order-service ×4 · master", "8 processes", "3 running · last 30s", "∑ all processes", "order-service 4242: ",
		"■   order-service", "exited 14:03:12", "↻   order-service", "exec", "sleep 4245  no Ruby (/usr/bin/sleep)", "all processes · idle hidden")
	if l := s.line(" 4242 "); !strings.Contains(l, "3.4.7 +yjit") || !strings.Contains(l, "89 %") || !strings.Contains(l, "✖ Thread hogs") {
		t.Errorf("the hogged worker's row: %s", l)
	}
	if l := s.line(" 4243 "); !strings.Contains(l, "✓ none") {
		t.Errorf("a healthy worker's row: %s", l)
	}
}

// TestFindingsOfProcessesCanBeRead: on narrow screens the table of processes leaves out columns of figures. The worst
// finding of each process must stay readable.
func TestFindingsOfProcessesCanBeRead(t *testing.T) {
	for _, w := range []int{60, 67, 75, 79, 80, 90} {
		s := clusterScreen(t, w, 24, scene.Options{})
		if l := s.line(" 4242 "); !strings.Contains(l, "✖ Thread hogs ") || !strings.Contains(l, " +1") || !strings.Contains(l, "89 %") {
			t.Errorf("%d columns: %s", w, l)
		}
	}
}

// TestGoingFromProcessToProcess opens a process, then the next one, and returns to the table of processes. All three
// screens must show the same frozen moment.
func TestGoingFromProcessToProcess(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	s.press("down", "down", "enter")
	s.sees("order-service", "pid 4242  process 2 of 5", "● LIVE", "worker-3")
	s.press(")")
	s.sees("pid 4243  process 3 of 5")
	s.press("(", "(")
	s.sees("pid 4240  process 1 of 5")
	s.press("(")
	s.sees("process 5 of 5", "replaced itself by another program")
	s.press(")", ")", "7")
	s.sees("process 2 of 5", "time in GC")
	s.press("[", "[", "[")
	s.sees("FROZEN")
	at := s.fleet.screen().AtNS
	s.press(")")
	s.sees("FROZEN", "pid 4243  process 3 of 5", "time in GC")
	if got := s.fleet.screen().AtNS; got != at {
		t.Errorf("the next process is shown at %d, not at %d", got, at)
	}
	s.press("8")
	s.sees("FROZEN", "5 processes", "∑ all processes")
	s.press("space", "(", "8")
	s.misses("FROZEN")
}

func TestWhatStandsBelowTheTable(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	s.sees(" order-service ×2", "#start", "hottest functions", "3 of 5  DB#query") // one box for the workers that live
	s.press("v")
	s.sees("functions · all processes", "self", "total", "of 5")
	s.press("v")
	s.sees("findings · all processes", "order-service 4242")
	s.press("tab", "enter")
	s.sees("pid 4242  process 2 of 5")
	s.press("8", "esc", "v", "down", "down")
	s.sees("only order-service 4242")
	s.misses("master …")
	s.press("w")
	s.sees("CPU time")
	s.press("tab", "down", "down", "enter")
	s.sees("zoomed")
	s.press("esc", "esc", "esc")
	s.misses("zoomed")
	s.sees("all processes · ")
}

// TestWorkersAreOneInTheFlamegraph: in the flamegraph of all processes, two workers of the same program share one box.
// If a process is selected, the flamegraph shows only this process.
func TestWorkersAreOneInTheFlamegraph(t *testing.T) {
	s := clusterScreen(t, 200, 50, scene.Options{})
	roots := func() (out []string) {
		for _, n := range s.fleet.page.Flame.Tree.Root.Children {
			out = append(out, n.Label)
		}
		slices.Sort(out)
		return out
	}
	if got := roots(); !slices.Equal(got, []string{"master 4240", "order-service ×2"}) {
		t.Errorf("all processes: %q", got)
	}
	s.press("down", "down")
	if got := roots(); !slices.Equal(got, []string{"order-service 4242"}) {
		t.Errorf("one process: %q", got)
	}
}

// TestViewsOfTheWorstProcess: when the user goes from the view of all processes to another view, this view shows the
// selected process. If the user has not selected or opened a process, it shows the process with the worst finding.
func TestViewsOfTheWorstProcess(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	s.press("4")
	s.sees("pid 4242  process 2 of 5", "callers first")
	s.press("8", "down", "down", "down", "6")
	s.sees("pid 4243  process 3 of 5")
	s.press("8", "esc", "1")
	s.sees("pid 4243  process 3 of 5") // the process that was opened last
	s.press("8", "down", "(", "(", "1")
	s.sees("pid 4240  process 1 of 5") // the process that was opened last, not the process that was selected before
}

// TestAProcessNamesTheFindingsOfOthers: if the shown process has no finding but another process has one, the screen
// names the other process. If the shown process has findings, the screen shows only these.
func TestAProcessNamesTheFindingsOfOthers(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	s.press("down", "enter")
	s.sees("pid 4240  process 1 of 5", "↓ none in this process. order-service: Thread hogs the GVL, +1 more. 8 shows all")
	s.press(")")
	s.sees("pid 4242  process 2 of 5", "Thread hogs the GVL: ")
	s.misses("none in this process")
}

func TestSortingProcesses(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	order := func() (pids []int) {
		for _, w := range s.fleet.page.Table.Rows {
			if w.Of != nil {
				pids = append(pids, w.Process.PID)
			}
		}
		return pids
	}
	if got := fmt.Sprint(order()); got != "[4240 4242 4243 4244 4245]" {
		t.Errorf("as they were found: %s", got)
	}
	s.press(">", ">")
	s.sees("by GVL", "GVL▼")
	if got := order()[0]; got != 4242 {
		t.Errorf("the first by GVL is %d", got)
	}
	s.press("r")
	s.sees("reversed")
	if got := order()[4]; got != 4242 {
		t.Errorf("the last by GVL, reversed, is %d", got)
	}
}

// TestMergedWeights: the flamegraph of all processes is made of merged weights. These must equal the sum of the weights
// of the running processes.
func TestMergedWeights(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	p, m := s.fleet.page, s.fleet.screen()
	var want, got int64
	labels := make(map[string]int64)
	for _, of := range s.fleet.List() {
		if of.Store.State().Done {
			continue // ended processes are not part of the current picture
		}
		own := processes.NewMerger()
		of.Store.Read(func(r *store.Reading) { own.Add(of, r, r.LastNS-m.WindowNS, r.LastNS) })
		for _, e := range own.Whole.Entries {
			want += e.Weights.WallNS
			for _, f := range own.Dict.Frames(e.Key.Stack, nil)[:1] {
				labels[own.Dict.Frame(f).Label] += e.Weights.WallNS
			}
		}
	}
	for _, e := range p.Merged.Whole.Entries {
		got += e.Weights.WallNS
	}
	if got != want || got == 0 {
		t.Errorf("merged %d ns, the processes have %d", got, want)
	}
	rows, sum := p.Merged.Functions(p.Flame.Metric, true, false)
	if sum != want {
		t.Errorf("the functions' sum is %d, not %d", sum, want)
	}
	for _, r := range rows {
		if r.Self != labels[r.Label] {
			t.Errorf("%s: %d ns of its own, want %d", r.Label, r.Self, labels[r.Label])
		}
	}
}

// TestManyProcesses draws a table of more processes than fit on the screen, at every size and after every key. No line
// may be wider than the screen.
func TestManyProcesses(t *testing.T) {
	c := new(cluster)
	for i := range 20 {
		title := "worker"
		if i%3 == 0 {
			title = "名前\x1b[2J\u202e" + strings.Repeat("x", 60)
		}
		c.add(1, &renamed{Source: demosource.New(demosource.Options{Seed: uint64(i), HTTP: 1, HogAfter: -1, Length: time.Second}), pid: 100_000 + i, title: title})
	}
	s := newProcessScreen(t, 60, 15, c, scene.Options{})
	for _, size := range [][2]int{{60, 15}, {80, 24}, {200, 50}, {300, 100}, {10, 3}} {
		s.fleet.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, km := range s.fleet.screen().maps() {
			for _, b := range km.Bindings {
				for _, k := range b.Keys {
					if k == "q" || k == "s" || k == "W" || len([]rune(k)) != 1 {
						continue
					}
					s.press(k)
					for l := range strings.Lines(s.text()) {
						if n := canvas.Width(strings.TrimSuffix(l, "\n")); n > size[0] {
							t.Fatalf("%dx%d, after %q: a line of %d columns: %s", size[0], size[1], k, n, l)
						}
					}
				}
			}
			s.press("esc", "esc", "8")
		}
	}
	if strings.Contains(s.fleet.screen().grid.String(true), "\x1b[2J") {
		t.Error("a title's escape sequence reaches the terminal")
	}
}

// TestFindingsEndWithTheirProcess: after a process has ended, the screen still shows its findings for 30 s, in the past
// tense. They come after the findings of running processes.
func TestFindingsEndWithTheirProcess(t *testing.T) {
	c := new(cluster)
	c.add(0, &renamed{Source: demosource.New(demosource.Options{Length: 30 * time.Second}), pid: 4242, title: "gone", end: "exited"})
	c.add(0, &renamed{Source: demosource.New(demosource.Options{Length: 30 * time.Second}), pid: 4243, title: "lives"})
	s := newProcessScreen(t, 120, 40, c, scene.Options{})
	m := s.fleet.screen()
	var gone *store.Store
	for _, of := range s.fleet.List() {
		if p := of.Store.Process(); p.PID == 4242 {
			gone = of.Store
		}
	}
	process := gone.Process()
	for _, at := range []struct {
		after time.Duration
		told  bool
	}{{5 * time.Second, true}, {29 * time.Second, true}, {31 * time.Second, false}} {
		m.Scene.Now = func() time.Time { return process.WallTime(gone.State().End.AtNS).Add(at.after) }
		loadScene(m, false)
		s.sees("lives 4243: ", "last 10 s")
		s.press("v", "v")
		text := s.fleet.screen().grid.String(false)
		s.press("v")
		lives, dead := strings.Index(text, "lives 4243"), strings.Index(text, "gone 4242")
		if at.told != (dead >= 0) || at.told && dead < lives {
			t.Errorf("%v after its end:\n%s", at.after, text)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, "gone 4242") && !strings.Contains(line, " ago: ") {
				t.Errorf("%v after its end in the present tense: %s", at.after, line)
			}
		}
	}
}

// TestProcessesHaveTheirPartInTheirNames: each process of a cluster has a different name on the screen, even on a small
// screen. The reason is that the name has the process's part in the cluster, such as the number of a worker.
func TestProcessesHaveTheirPartInTheirNames(t *testing.T) {
	c := new(cluster)
	quiet := func(seed uint64) *demosource.Source {
		return demosource.New(demosource.Options{Seed: seed, HTTP: 2, HogAfter: -1, Length: 20 * time.Second})
	}
	c.add(0, &renamed{Source: quiet(1), pid: 4240, title: "puma", part: "master"})
	c.add(4240, &renamed{Source: quiet(2), pid: 4241, title: "puma", part: "w0"})
	hogged := demosource.New(demosource.Options{Length: 20 * time.Second})
	c.add(4240, &renamed{Source: hogged, pid: 4242, title: "puma", part: "w1"})
	c.add(0, &renamed{Source: quiet(3), pid: 4243, title: "sidekiq", part: "[3 of 5 busy] quiet"})
	played, err := play(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []struct {
		w, h int
		busy string
	}{{80, 24, "sidekiq 3/5 "}, {160, 40, "sidekiq 3/5 quiet"}} {
		s := screenOf(t, size.w, size.h, played, scene.Options{})
		s.sees("puma master", "puma w0", "puma w1", size.busy, "puma w1 4242: ")
		s.press("v", "v")
		s.sees("puma w1 4242  ")
		s.press("v", "j", "j", "j", "enter")
		s.sees("puma w1  pid 4242")
	}
	screenOf(t, 120, 40, played, scene.Options{}).sees("puma ×3 · sidekiq")
}

// TestEndedProcessesAreForgotten: if many processes have ended, ddtop keeps only the latest of them. It also keeps the
// process that is shown.
func TestEndedProcessesAreForgotten(t *testing.T) {
	f := newFleet(scene.Options{}.WithDefaults())
	for i := range 3 * maxEndedShown {
		m := f.join(&renamed{Source: demosource.New(demosource.Options{HTTP: 1, Length: time.Second}), pid: i + 1, title: "job"})
		setDone(m.Store, true)
		if i == 0 {
			if err := f.open(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := f.List()
	if len(list) > maxEndedShown+2 || list[0] != f.shown || list[len(list)-1].Number != 3*maxEndedShown {
		t.Errorf("%d are kept, the first is number %d", len(list), list[0].Number)
	}
}

// TestEndIsSeenWithoutSamples: the shown process ends, so no new samples come. The table of processes must still show
// that it has ended.
func TestEndIsSeenWithoutSamples(t *testing.T) {
	c := new(cluster)
	for i := range 2 {
		c.add(1, &renamed{Source: demosource.New(demosource.Options{Seed: uint64(i), HTTP: 1, HogAfter: -1, Length: time.Second}), pid: 10 + i, title: "job"})
	}
	s := newProcessScreen(t, 100, 30, c, scene.Options{})
	now := time.Now()
	m := s.fleet.screen()
	m.Scene.Now = func() time.Time { return now }
	loadScene(m, false)
	s.misses("exited")
	kept := s.fleet.List()[0].Store
	kept.SetState(store.SourceState{Done: true, End: sampler.End{Reason: "exited"}, Ended: true})
	now = now.Add(2 * processes.RefreshProcesses)
	loadScene(m, false)
	s.sees("■ job", "exited", "1 running")
}
