package ui

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/requests"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// serving returns a screen of the made-up service whose threads answer requests and do jobs.
func serving(t testing.TB, w, h int, o scene.Options) *screen {
	o.Folder = t.TempDir()
	return shared(t, w, h, demosource.Options{Length: 30 * time.Second, Serving: true}, o)
}

func (s *screen) requestsPage() *requests.Page {
	return s.model.pages[scene.PageRequests].(*requests.Page)
}

// TestRequests: view 9 lists the requests in progress, with what each does and waits for. Below this list it shows the
// routes.
func TestRequests(t *testing.T) {
	for _, size := range screenSizes {
		s := serving(t, size[0], size[1], scene.Options{})
		s.press("9")
		s.sees("9 requests", "running", "/s", "age", "request", "GET orders#show", "ReportJob", "by route and class of jobs", "p50", "p95", "max")
		if size[0] >= 120 {
			s.sees("behind ReportJob (worker-3)", "p95 ", "where its time goes", "Reports#")
		}
		if l := s.line("ReportJob   "); size[0] >= 120 && !strings.Contains(l, "running") {
			t.Errorf("worker-3 runs: %s", l)
		}
		p := s.requestsPage()
		if len(p.Running.Rows) == 0 || len(p.Endpoints.Rows) < 4 {
			t.Fatalf("%d requests, %d routes", len(p.Running.Rows), len(p.Endpoints.Rows))
		}
		for _, w := range p.Endpoints.Rows {
			if (w.Blame > 0.5) != (w.Title == "ReportJob") {
				t.Errorf("%s makes %.2f of the others' waiting", w.Title, w.Blame)
			}
		}
		checkRows(t, s, "requests")
	}
}

// TestLengthsOfARowGrow: a route's durations p50, p95 and max must come from the same estimate, so that p50 ≤ p95 ≤
// max. The possible error of the durations is in another column.
func TestLengthsOfARowGrow(t *testing.T) {
	s := serving(t, 200, 50, scene.Options{})
	s.press("9")
	p := s.requestsPage()
	// Durations up to a certain length are shown with an error bound. In this test two durations are just below this
	// length, and the longest one is just above it.
	w := p.Endpoints.Rows[0]
	*w.Endpoint = account.Endpoint{Kind: w.Kind, Name: w.Name, Ended: 3, SlackNS: 10e6, LongestNS: 311e6, NS: w.NS}
	for _, ns := range []int64{301e6, 301e6, 311e6} {
		w.Durations.Add(ns)
	}
	s.model.Draw()
	s.line("±")
	_, below, _ := strings.Cut(s.text(), "by route")
	_, row, _ := strings.Cut(below, w.Title)
	row, _, _ = strings.Cut(row, "\n")
	row = " " + strings.Join(strings.Fields(row), " ")
	m := regexp.MustCompile(` (\d+) ms (\d+) ms (\d+) ms (10.0|10) ms `).FindStringSubmatch(row)
	if m == nil || m[1] > m[2] || m[2] > m[3] {
		t.Errorf("%q", row)
	}
}

// TestRequestsLeadOn: in the view of requests, enter on a request opens its thread, and esc returns to the requests.
func TestRequestsLeadOn(t *testing.T) {
	s := serving(t, 120, 40, scene.Options{})
	s.press("9", "down")
	w := s.requestsPage().Running.Rows[0]
	s.sees("▌", "since 14:03:2")
	s.press("enter")
	if s.model.Page != scene.PageThread || s.model.Selected.Thread != w.Thread {
		t.Fatalf("page %s of thread %d, not of %d", s.model.Page, s.model.Selected.Thread, w.Thread)
	}
	s.sees("stack now", w.Name+"  for "+w.Age())
	s.press("esc")
	s.sees("9 requests", "by route")
}

// TestOpenedRequestIsOver: the user opens a request's thread, and then the request ends. The thread's page must say how
// long the request took, and what the thread does now. If the user did not come to the page from a request, the page
// does not mention any request.
func TestOpenedRequestIsOver(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second, Serving: true}, scene.Options{Folder: t.TempDir()})
	s.press("9", "down")
	w := s.requestsPage().Running.Rows[0]
	name, thread := w.Name, w.Thread
	s.press("enter")
	s.sees(name + "  for ")
	s.misses("is over")
	next := *s.model.Moment
	next.Threads = slices.Clone(next.Threads)
	serve := func(work sampler.Work) {
		next.TimeNS += 2e8
		for i := range next.Threads {
			if th := &next.Threads[i]; th.ID == thread {
				if th.Serving = (sampler.Serving{}); work.Number != 0 {
					work.SinceNS, work.BeforeNS = next.TimeNS, next.TimeNS
					th.Serving.Work = s.store.Dict.InternWork(work)
				}
			}
		}
		s.store.Feed(&next)
		s.model.Refresh()
	}
	serve(sampler.Work{})
	s.sees(name + " is over: it took ")
	serve(sampler.Work{Number: 1 << 40, Kind: sampler.WorkRequest, Endpoint: "GET next#one"})
	s.sees(name+" is over: it took ", "now GET next#one")
	s.press("esc")
	s.press("2", "enter")
	s.misses("is over")
}

// TestRouteNarrowsTheLiveView: enter on a route opens the live view for this route only. The flamegraph shows the
// route's stacks, and the timeline shows where the route ran. Esc returns.
func TestRouteNarrowsTheLiveView(t *testing.T) {
	for _, size := range screenSizes {
		s := serving(t, size[0], size[1], scene.Options{})
		s.press("9", "down", "tab")
		p := s.requestsPage()
		for p.Endpoints.Rows[p.Endpoints.Index()].Title != "ReportJob" {
			s.press("down")
		}
		s.press("enter")
		s.sees("where ReportJob runs", "only ReportJob", "1 of 15", "Reports#build")
		s.misses("OrdersController", "Order.find_open")
		if s.model.Page != scene.PageLive {
			t.Fatal("not the live view")
		}
		checkRows(t, s, "a route")
		s.press("4")
		s.sees("only ReportJob")
		s.press("1", "esc") // forgets the way back to the requests
		s.misses("only ReportJob")
		s.sees("15 threads")
		s.press("9", "enter", "esc")
		s.sees("9 requests", "by route")
	}
}

// TestRequestsAreSorted: the view has a table of requests and a table of routes. The cursor moves from one to the other
// and back. The sort keys sort the table that has the cursor.
func TestRequestsAreSorted(t *testing.T) {
	s := serving(t, 120, 40, scene.Options{})
	s.press("9", "down", ">")
	s.sees("thread▼")
	p := s.requestsPage()
	for i, w := range p.Running.Rows[1:] {
		if w.ThreadName < p.Running.Rows[i].ThreadName {
			t.Errorf("%s comes after %s", w.ThreadName, p.Running.Rows[i].ThreadName)
		}
	}
	s.press("r")
	if rows := p.Running.Rows; rows[0].ThreadName < rows[len(rows)-1].ThreadName {
		t.Error("r does not turn the order round")
	}
	s.press("tab", "<")
	s.sees("blame▼", "by blame")
	if p.Endpoints.Rows[0].Title != "ReportJob" || p.Endpoints.Index() < 0 {
		t.Errorf("%s makes others wait most, and the cursor is at %d", p.Endpoints.Rows[0].Title, p.Endpoints.Index())
	}
	s.press("home")
	if p.Running.Index() != 0 {
		t.Error("home does not lead to the first request")
	}
	s.press("end", "tab")
	if p.Running.Index() != 0 {
		t.Error("tab does not lead back")
	}
}

// TestRequestsAreSearched: a search finds requests by route and by path. A presentation hides the paths, so during a
// presentation a search by path must find nothing.
func TestRequestsAreSearched(t *testing.T) {
	s := serving(t, 120, 40, scene.Options{})
	s.press("9")
	s.search("carts#")
	s.sees("listed", "POST carts#create")
	s.misses("GET orders#index", "ReportJob   ")
	p := s.requestsPage()
	for _, w := range p.Running.Rows {
		if !w.Matches(regexp.MustCompile("carts#"), &s.model.Scene) {
			t.Errorf("%s is listed", w.Name)
		}
	}
	s.press("esc")
	s.sees("GET orders#show")
	s.search("no such route")
	s.sees("none of what is in progress matches")
	w, path := widget.RequestRow{Request: &account.Request{PastRequest: account.PastRequest{Work: sampler.Work{Values: "/carts/7?q=x"}}}}, regexp.MustCompile("q=x")
	if !w.Matches(path, &s.model.Scene) {
		t.Error("not found by its path")
	}
	s.model.Presenting = true
	if w.Matches(path, &s.model.Scene) {
		t.Error("found by a path that is hidden")
	}
}

// TestRequestsAtAnEarlierMoment: if the screen shows an earlier moment, it shows how old each request was at that
// moment.
func TestRequestsAtAnEarlierMoment(t *testing.T) {
	s := serving(t, 120, 40, scene.Options{})
	s.press("9", "[", "[", "[")
	s.sees("FROZEN", "by route")
	p := s.requestsPage()
	at := s.model.AtNS
	if len(p.Running.Rows) == 0 {
		t.Fatal("nothing was in progress while all threads waited")
	}
	for _, w := range p.Running.Rows {
		if w.FromNS > at || w.ToNS < at || w.AgeNS != at-w.FromNS {
			t.Errorf("%s from %d to %d is %d ns old at %d", w.Name, w.FromNS, w.ToNS, w.AgeNS, at)
		}
		if w.State == nil && !w.Away {
			t.Errorf("what %s did is not known", w.Name)
		}
	}
	for range 60 { // goes to the first second of the history
		s.press("[")
	}
	checkRows(t, s, "requests at the beginning")
}

// TestIdleServer: if no request is in progress, the view of requests says when the last request ended.
func TestIdleServer(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 20 * time.Second, Serving: true, HogAfter: -1, IdleAfter: 12 * time.Second}, scene.Options{})
	s.press("9")
	s.sees("none in progress; the last ended 7.", "s ago: ", "by route", "GET orders#index")
	s.press("down", "enter", "end")
	checkRows(t, s, "requests of an idle server")
}

// TestRequestsAreOfferedOnceSeen: if a program serves no requests, the screen has no view of requests. The key 9, which
// opens this view, then does nothing.
func TestRequestsAreOfferedOnceSeen(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2")
	s.misses("requests")
	s.press("9")
	s.sees("9 does nothing here")
	if s.model.Page != scene.PageThreads {
		t.Error("it is shown")
	}
	s.press("?")
	s.misses("who is served")
	s = serving(t, 120, 40, scene.Options{})
	s.sees("1-0 views", "requests ")
	s.resize(160, 40)
	s.press("2")
	s.sees("9 requests", "GET orders#show")
}

// TestOtherViewsNameRequests: the line of figures, the table of threads and the timeline also show requests.
func TestOtherViewsNameRequests(t *testing.T) {
	s := serving(t, 200, 50, scene.Options{})
	gauges := s.line("│ CPU")
	if !regexp.MustCompile(`requests \d+  \d+/s  p95 ≤?\d+`).MatchString(gauges) {
		t.Errorf("the figures: %s", gauges)
	}
	s.sees("for the GVL  GET orders#show", "running  ReportJob")
	s.press("3")
	s.sees("running  ReportJob")
	s.press("2")
	s.sees("GET orders#show")
}

// TestGoldenRequests draws the view of requests twice and compares it with golden files: while clients send requests,
// and after the last request.
func TestGoldenRequests(t *testing.T) {
	for name, d := range map[string]demosource.Options{
		"page-requests":     {Length: 30 * time.Second, Serving: true},
		"page-requestsidle": {Length: 20 * time.Second, Serving: true, HogAfter: -1, IdleAfter: 12 * time.Second},
	} {
		src := demosource.New(d)
		store, err := newStore(src, scene.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := src.Run(t.Context(), store.Feed); !errors.Is(err, sampler.ErrEnded) {
			t.Fatal(err)
		}
		goldens(t, name, func(t *testing.T, o scene.Options, width, height int) Picture {
			p, err := pictureOf(store, o.WithDefaults(), width, height, "9", "down")
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
	}
}

// TestRequestsSayWhatIsMissing: the view says how many requests it does not show one by one, but adds up with others.
// It also says how long requests were queued, and from what time on the routes are known.
func TestRequestsSayWhatIsMissing(t *testing.T) {
	s := serving(t, 200, 50, scene.Options{})
	s.press("9")
	p, sc := s.requestsPage(), &s.model.Scene
	if about := p.About(sc); strings.Contains(about, "kept apart") || strings.Contains(about, "queued") {
		t.Errorf("nothing is missing: %s", about)
	}
	sc.Served.LeftOut = 1200
	sc.Served.Queued.Add(250e6)
	if about := p.About(sc); !strings.Contains(about, "1,200 not kept apart · queued p50 ") || !strings.Contains(about, "max 250 ms before") {
		t.Error(about)
	}
	sc.Served.RoutesFromNS = sc.LastNS - 900e9
	if got := requests.RoutesSince(sc); got != "of the last 15m00s alone, since 13:48:22" {
		t.Error(got)
	}
}

// TestTimeOfFibers: a bar shows how a request spends its time. If fibers of the request wait, the time of their waiting
// is one part of the bar. The text beside the bar names this part.
func TestTimeOfFibers(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 5 * time.Second, Serving: true}, scene.Options{Folder: t.TempDir()})
	var totals [gvl.NumStates]int64
	for _, c := range []struct {
		running, fibers int64
		bar, parts      string
	}{{1e9, 0, "RRRRRRRRRR", "run 100"}, {0, 1e9, "ffffffffff", "fiber waits 100"}, {1e9, 9e9, "Rfffffffff", "fiber waits 90 run 10"}, {}} {
		totals[gvl.Running] = c.running
		var g canvas.Grid
		g.Reset(10, 1)
		requests.DrawTime(g.Area(), &totals, c.fibers, &s.model.Scene)
		if got := strings.TrimSpace(strings.ReplaceAll(g.Text(), "█", "R")); got != c.bar {
			t.Errorf("%d and %d: %q, not %q", c.running, c.fibers, got, c.bar)
		}
		if got := strings.Join(requests.PartsOf(&totals, c.fibers, nil, &s.model.Scene, true), " "); got != c.parts {
			t.Errorf("%d and %d: %q, not %q", c.running, c.fibers, got, c.parts)
		}
	}
}
