package ui

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// serving is the made-up service that says for whom its threads work.
func serving(t testing.TB, w, h int, o Options) *screen {
	o.Folder = t.TempDir()
	return newScreen(t, w, h, demosource.Options{Length: 30 * time.Second, Serving: true}, o)
}

func (s *screen) requestsPage() *requestsPage { return s.model.pages[pageRequests].(*requestsPage) }

// TestRequests: who is served, by what it does and whom it waits for, and below by route.
func TestRequests(t *testing.T) {
	for _, size := range screenSizes {
		s := serving(t, size[0], size[1], Options{})
		s.press("9")
		s.sees("9 requests", "running", "/s", "age", "request", "GET orders#show", "ReportJob", "by route and class of jobs", "p50", "p95", "max")
		if size[0] >= 120 {
			s.sees("behind ReportJob (worker-3)", "p95 ", "where its time goes", "Reports#")
		}
		if l := s.line("ReportJob   "); size[0] >= 120 && !strings.Contains(l, "running") {
			t.Errorf("worker-3 runs: %s", l)
		}
		p := s.requestsPage()
		if len(p.running.rows) == 0 || len(p.endpoints.rows) < 4 {
			t.Fatalf("%d requests, %d routes", len(p.running.rows), len(p.endpoints.rows))
		}
		for _, w := range p.endpoints.rows {
			if (w.blame > 0.5) != (w.name == "ReportJob") {
				t.Errorf("%s makes %.2f of the others' waiting", w.name, w.blame)
			}
		}
		checkRows(t, s, "requests")
	}
}

// TestRequestsLeadOn: enter on a request opens its thread, and esc comes back.
func TestRequestsLeadOn(t *testing.T) {
	s := serving(t, 120, 40, Options{})
	s.press("9", "down")
	w := s.requestsPage().running.rows[0]
	s.sees("▌", "since 14:03:2")
	s.press("enter")
	if s.model.page != pageThread || s.model.selected.thread != w.Thread {
		t.Fatalf("page %s of thread %d, not of %d", s.model.page, s.model.selected.thread, w.Thread)
	}
	s.sees("stack now", w.name+"  for "+w.age())
	s.press("esc")
	s.sees("9 requests", "by route")
}

// TestRouteNarrowsTheLiveView: enter on a route shows its flamegraph and where it runs; esc comes back.
func TestRouteNarrowsTheLiveView(t *testing.T) {
	for _, size := range screenSizes {
		s := serving(t, size[0], size[1], Options{})
		s.press("9", "down", "tab")
		p := s.requestsPage()
		for p.endpoints.rows[p.endpoints.index()].name != "ReportJob" {
			s.press("down")
		}
		s.press("enter")
		s.sees("where ReportJob runs", "only ReportJob", "1 of 15", "Reports#build")
		s.misses("OrdersController", "Order.find_open")
		if s.model.page != pageLive {
			t.Fatal("not the live view")
		}
		checkRows(t, s, "a route")
		s.press("4")
		s.sees("only ReportJob")
		s.press("1", "esc") // the way back is forgotten
		s.misses("only ReportJob")
		s.sees("15 threads")
		s.press("9", "enter", "esc")
		s.sees("9 requests", "by route")
	}
}

// TestRequestsAreSorted: the cursor goes through both tables, and the keys sort the one that it is in.
func TestRequestsAreSorted(t *testing.T) {
	s := serving(t, 120, 40, Options{})
	s.press("9", "down", ">")
	s.sees("thread▼")
	p := s.requestsPage()
	for i, w := range p.running.rows[1:] {
		if w.thread < p.running.rows[i].thread {
			t.Errorf("%s comes after %s", w.thread, p.running.rows[i].thread)
		}
	}
	s.press("r")
	if rows := p.running.rows; rows[0].thread < rows[len(rows)-1].thread {
		t.Error("r does not turn the order round")
	}
	s.press("tab", "<")
	s.sees("blame▼", "by blame")
	if p.endpoints.rows[0].name != "ReportJob" || p.endpoints.index() < 0 {
		t.Errorf("%s makes others wait most, and the cursor is at %d", p.endpoints.rows[0].name, p.endpoints.index())
	}
	s.press("home")
	if p.running.index() != 0 {
		t.Error("home does not lead to the first request")
	}
	s.press("end", "tab")
	if p.running.index() != 0 {
		t.Error("tab does not lead back")
	}
}

// TestRequestsAreSearched: by route, thread and statement.
func TestRequestsAreSearched(t *testing.T) {
	s := serving(t, 120, 40, Options{})
	s.press("9")
	s.search("carts#")
	s.sees("listed", "POST carts#create")
	s.misses("GET orders#index", "ReportJob   ")
	p := s.requestsPage()
	for _, w := range p.running.rows {
		if !w.matches(regexp.MustCompile("carts#"), &s.model.scene) {
			t.Errorf("%s is listed", w.name)
		}
	}
	s.press("esc")
	s.sees("GET orders#show")
	s.search("no such route")
	s.sees("none of what is in progress matches")
	w, path := requestRow{Request: &gvl.Request{Work: sampler.Work{Values: "/carts/7?q=x"}}}, regexp.MustCompile("q=x")
	if !w.matches(path, &s.model.scene) {
		t.Error("not found by its path")
	}
	s.model.presenting = true
	if w.matches(path, &s.model.scene) {
		t.Error("found by a path that is hidden")
	}
}

// TestRequestsAtAnEarlierMoment: the ages are those of the moment shown.
func TestRequestsAtAnEarlierMoment(t *testing.T) {
	s := serving(t, 120, 40, Options{})
	s.press("9", "[", "[", "[")
	s.sees("FROZEN", "by route")
	p := s.requestsPage()
	at := s.model.atNS
	if len(p.running.rows) == 0 {
		t.Fatal("nothing was in progress while all threads waited")
	}
	for _, w := range p.running.rows {
		if w.FromNS > at || w.ToNS < at || w.ageNS != at-w.FromNS {
			t.Errorf("%s from %d to %d is %d ns old at %d", w.name, w.FromNS, w.ToNS, w.ageNS, at)
		}
		if w.state == nil && !w.suspended {
			t.Errorf("what %s did is not known", w.name)
		}
	}
	for range 60 { // to before the first sample's second
		s.press("[")
	}
	checkRows(t, s, "requests at the beginning")
}

// TestIdleServer: it says when the last request was.
func TestIdleServer(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 20 * time.Second, Serving: true, HogAfter: -1, IdleAfter: 12 * time.Second}, Options{})
	s.press("9")
	s.sees("none in progress; the last ended 7.", "s ago: ", "by route", "GET orders#index")
	s.press("down", "enter", "end")
	checkRows(t, s, "requests of an idle server")
}

// TestRequestsAreOfferedOnceSeen: a program that serves nobody has no such view.
func TestRequestsAreOfferedOnceSeen(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2")
	s.misses("requests")
	s.press("9")
	s.sees("9 does nothing here")
	if s.model.page != pageThreads {
		t.Error("it is shown")
	}
	s.press("?")
	s.misses("who is served")
	s = serving(t, 120, 40, Options{})
	s.sees("1-0 views", "requests ")
	s.resize(160, 40)
	s.press("2")
	s.sees("9 requests", "GET orders#show")
}

// TestOtherViewsNameRequests: the line of figures, the threads, the timeline and one thread.
func TestOtherViewsNameRequests(t *testing.T) {
	s := serving(t, 200, 50, Options{})
	gauges := s.line("│ CPU")
	if !regexp.MustCompile(`requests \d+  \d+/s  p95 \d+`).MatchString(gauges) {
		t.Errorf("the figures: %s", gauges)
	}
	s.sees("for the GVL  GET orders#show", "running  ReportJob")
	s.press("3")
	s.sees("running  ReportJob")
	s.press("2")
	s.sees("GET orders#show")
}

// TestRequestNames: what can't be told is said to be so, and hostile names stay names.
func TestRequestNames(t *testing.T) {
	for _, c := range []struct {
		kind       sampler.WorkKind
		name, want string
	}{{sampler.WorkRequest, "", "(route not known)"}, {sampler.WorkJob, "", "(job, class not known)"}, {sampler.WorkJob, "Mailer", "Mailer"}} {
		if got := endpointName(c.kind, c.name); got != c.want {
			t.Errorf("%v %q: %q", c.kind, c.name, got)
		}
	}
	for _, c := range []struct {
		n    float64
		want string
	}{{0, "0"}, {.01, "<0.1"}, {.3, "0.3"}, {9.96, "10"}, {1200, "1,200"}} {
		if got := perSecondText(c.n); got != c.want {
			t.Errorf("%v: %q", c.n, got)
		}
	}
}

// TestServingForms: whom a thread waits for is not left out for its request.
func TestServingForms(t *testing.T) {
	for _, c := range []struct {
		state gvl.State
		forms []string
		room  int
		want  string
	}{
		{gvl.Running, []string{"running"}, 20, "running  GET orders…"},
		{gvl.IO, []string{"io 1 s ← 10.0.0.5:5432 PostgreSQL", "io 1 s ← 10.0.0.5:5432", "io 1 s"}, 60, "io 1 s ← 10.0.0.5:5432 PostgreSQL  GET orders#index"},
		{gvl.IO, []string{"io 1 s ← 10.0.0.5:5432 PostgreSQL", "io 1 s ← 10.0.0.5:5432", "io 1 s"}, 40, "io 1 s ← 10.0.0.5:5432  GET orders#index"},
		{gvl.IO, []string{"io 1 s ← 10.0.0.5:5432 PostgreSQL", "io 1 s ← 10.0.0.5:5432", "io 1 s"}, 30, "io 1 s ← 10.0.0.5:5432"},
		{gvl.Waiting, []string{"waiting 9 ms for the GVL", "waiting 9 ms"}, 29, "waiting 9 ms  orders#index"},
		{gvl.Waiting, []string{"waiting 9 ms for the GVL", "waiting 9 ms"}, 16, "waiting 9 ms"},
		{gvl.Waiting, []string{"waiting 9 ms for the GVL", "waiting 9 ms"}, 30, "waiting 9 ms  GET orders#index"},
	} {
		if got := fit(servingForms(c.state, c.forms, "GET orders#index"), c.room); got != c.want {
			t.Errorf("%v in %d columns: %q, want %q", c.state, c.room, got, c.want)
		}
	}
}

// TestGoldenRequests draws the view of the made-up service while somebody asks and when nobody does any more.
func TestGoldenRequests(t *testing.T) {
	for name, d := range map[string]demosource.Options{
		"page-requests":     {Length: 30 * time.Second, Serving: true},
		"page-requestsidle": {Length: 20 * time.Second, Serving: true, HogAfter: -1, IdleAfter: 12 * time.Second},
	} {
		src := demosource.New(d)
		store, err := newStore(src, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := src.Run(t.Context(), store.Feed); !errors.Is(err, sampler.ErrEnded) {
			t.Fatal(err)
		}
		goldens(t, name, func(t *testing.T, o Options, width, height int) Picture {
			p, err := pictureOf(store, o.withDefaults(), width, height, "9", "down")
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
	}
}

// TestIdleServerIsOffered: a server that nobody has asked yet has the view, by its threads' stacks; another program has not.
func TestIdleServerIsOffered(t *testing.T) {
	for label, want := range map[string]bool{
		"block in Puma::ThreadPool#spawn_thread": true, "Unicorn::HttpServer#worker_loop": true, "WEBrick::GenericServer#start": true,
		"Sidekiq::Processor#run": true, "rescue in Falcon::Server#run": true, "Rack::Builder#to_app": false, "Kernel#loop": false,
		"block in Object#Puma": false, "": false,
	} {
		d := sampler.NewDictionary()
		stack := d.InternStackOf([]sampler.FrameID{d.InternFrame(sampler.Frame{Label: "Thread::Queue#pop", C: true}),
			d.InternFrame(sampler.Frame{Label: label})})
		var s serverSeen
		idle := sampler.Sample{TimeNS: 5e9, Threads: []sampler.Thread{{ID: 1}, {ID: 2, Stack: stack}}}
		s.look(d, &sampler.Sample{TimeNS: 1e9})
		if s.look(d, &idle); s.met != want {
			t.Errorf("%q: %v", label, s.met)
		}
	}
}

// TestRequestsSayWhatIsMissing: those that are not kept apart, how long they queued, and from when on routes are told.
func TestRequestsSayWhatIsMissing(t *testing.T) {
	s := serving(t, 200, 50, Options{})
	s.press("9")
	p, sc := s.requestsPage(), &s.model.scene
	if about := p.about(sc); strings.Contains(about, "kept apart") || strings.Contains(about, "queued") {
		t.Errorf("nothing is missing: %s", about)
	}
	sc.served.leftOut, sc.served.running[0].Work.QueuedNS = 1200, 250e6
	if about := p.about(sc); !strings.Contains(about, "1,200 not kept apart · queued up to 250 ms before") {
		t.Error(about)
	}
	sc.served.toldNS = sc.lastNS - 900e9
	if got := sc.untold(); got != "of the last 15m00s alone, since 13:48:22" {
		t.Error(got)
	}
}

// TestTimeOfFibers: what fibers wait for a request is a part of the bar of its time, and said beside it.
func TestTimeOfFibers(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 5 * time.Second, Serving: true}, Options{Folder: t.TempDir()})
	var totals [gvl.NumStates]int64
	for _, c := range []struct {
		running, fibers int64
		bar, parts      string
	}{{1e9, 0, "RRRRRRRRRR", "run 100"}, {0, 1e9, "ffffffffff", "fiber waits 100"}, {1e9, 9e9, "Rfffffffff", "fiber waits 90 run 10"}, {}} {
		totals[gvl.Running] = c.running
		var g canvas.Grid
		g.Reset(10, 1)
		drawTime(g.Area(), &totals, c.fibers, &s.model.scene)
		if got := strings.TrimSpace(strings.ReplaceAll(g.Text(), "█", "R")); got != c.bar {
			t.Errorf("%d and %d: %q, not %q", c.running, c.fibers, got, c.bar)
		}
		if got := strings.Join(partsOf(&totals, c.fibers, nil, &s.model.scene, true), " "); got != c.parts {
			t.Errorf("%d and %d: %q, not %q", c.running, c.fibers, got, c.parts)
		}
	}
}
