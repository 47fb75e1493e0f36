package scene

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Served has the requests and jobs that the screen shows.
type Served struct {
	// Seen is true if ddtop has seen a request or a job since it started.
	Seen bool
	// Running are the requests in progress at the moment on the screen, the oldest first. ServingOf has the request or
	// job for which each thread works.
	Running   []account.Request
	ServingOf map[sampler.ThreadID]sampler.Serving
	// Last is the request that ended last, if no request is in progress. Otherwise it is nil. It is also nil if ddtop
	// remembers no such request.
	Last *account.Request
	// Endpoints are the routes and the classes of jobs that were served in the time on the screen. The one with the
	// most time comes first.
	Endpoints []account.Endpoint
	// Lengths has the durations of all requests that began and ended in the time on the screen. PerSecond is how many
	// requests ended per second.
	Lengths gvl.Histogram
	// Queued has the times for which requests waited before a thread began to work on them, in ns. It has all requests
	// in the time on the screen.
	Queued    gvl.Histogram
	slackNS   int64 // mean error of Lengths
	PerSecond float64
	// AtLeast is true if ddtop missed too many requests. In this case the true rate is higher than PerSecond, and
	// Lengths has only the requests that ddtop saw.
	AtLeast bool
	WaitNS  int64 // how long all threads together waited for the GVL in the time shown
	// LeftOut is how many requests and jobs were not recorded one by one. The reason is that too many were in progress
	// at the same time.
	LeftOut uint64
	// RoutesFromNS is the time from which on routes and classes of jobs are known, if this is within the time on the
	// screen. It is zero if they are known for the whole time.
	RoutesFromNS int64
	// Fibers are the waiting fibers, as ddtop last read them. It is nil if ddtop has not read any, or if the screen
	// shows an earlier moment. fibersNS is how long ago they were read, in ns.
	Fibers   *sampler.Fibers
	fibersNS int64
	// Server says whether ddtop has seen code of a server or a job runner on a stack. ddtop can see such code before
	// the first request.
	Server serverSeen
}

// Load reads the requests at the moment on the screen. If endpoints is true, it also adds up the endpoints (routes and
// classes of jobs) over the time on the screen. Callers set endpoints whenever they compute new weights.
func (s *Served) Load(sc *Scene, r *store.Reading, endpoints bool) {
	if sc.Frozen {
		s.Running = r.Requests.At(sc.AtNS)
	} else {
		s.Running = r.Requests.Running()
	}
	if s.Last = nil; len(s.Running) == 0 {
		s.Last = r.Requests.Last(sc.AtNS)
	}
	if s.ServingOf == nil {
		s.ServingOf = make(map[sampler.ThreadID]sampler.Serving)
	}
	clear(s.ServingOf)
	if sc.Moment != nil {
		s.Server.search(sc.Dict, sc.Moment)
	}
	if sc.Moment != nil && (!sc.Frozen || sc.AtNS == sc.HeldNS) {
		for i := range sc.Moment.Threads {
			if t := &sc.Moment.Threads[i]; t.Serving != (sampler.Serving{}) {
				s.ServingOf[t.ID] = t.Serving
			}
		}
	}
	if endpoints {
		all := r.Requests.Endpoints(sc.AtNS-sc.WindowNS, sc.AtNS)
		s.Endpoints = slices.DeleteFunc(all, func(e account.Endpoint) bool { return !e.Seen() })
		total := sc.Weights.Total()
		s.WaitNS = max(total.WaitNS, total.BlameNS)
		s.Lengths.Reset()
		s.Queued.Reset()
		s.PerSecond, s.slackNS, s.AtLeast = 0, 0, account.AtLeast(all)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			s.Lengths.Merge(&e.Durations)
			s.Queued.Merge(&e.Queued)
			s.PerSecond += e.PerSecond
			n, _ := e.Durations.Count()
			s.slackNS += n * e.SlackNS
		}
		if n, _ := s.Lengths.Count(); n > 0 {
			s.slackNS /= n
		}
	}
	s.LeftOut = r.Requests.LeftOut()
	if s.Fibers, s.fibersNS = nil, 0; !sc.Frozen {
		s.Fibers, s.fibersNS = r.Requests.Fibers()
	}
	told, all := r.Requests.ToldSince(max(sc.AtNS-sc.WindowNS, sc.OldestNS), sc.AtNS)
	if s.RoutesFromNS = told; all {
		s.RoutesFromNS = 0
	}
	s.Seen = s.Seen || len(s.Running) > 0 || len(s.Endpoints) > 0
}

// Length returns a quantile of the durations of requests: 95 % of them were not longer than Length(0.95). It uses only
// requests that began and ended in the time on the screen. It returns "–" if there are none. If half of the durations
// may be wrong by much, Length returns an upper bound ("≤"). All quantiles have the same precision.
func (s *Served) Length(q float64) string {
	if n, _ := s.Lengths.Count(); n == 0 {
		return "–"
	}
	slack := account.Slack(s.Lengths.Quantile(.5), s.slackNS)
	return LengthText(s.Lengths.Quantile(q)+slack, slack > 0)
}

// QuantileName returns the name for the result of Length(q): "p95". If ddtop missed too many requests, it is "p95
// seen".
func (s *Served) QuantileName(q float64) string {
	name := fmt.Sprintf("p%g", q*100)
	if s.AtLeast {
		name += " seen"
	}
	return name
}

// LengthText returns a request's duration as text. If atMost is true, the duration is only an upper bound, and the text
// begins with "≤".
func LengthText(ns int64, atMost bool) string {
	if atMost {
		return "≤" + units.Duration(ns)
	}
	return units.Duration(ns)
}

// QueuedText returns a text that says how long requests waited before a thread began to work on them. It is empty if
// this is not known for any request.
func (s *Served) QueuedText() string {
	n, longest := s.Queued.Count()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("queued p50 %s p95 %s max %s before", units.Duration(s.Queued.Quantile(.5)), units.Duration(s.Queued.Quantile(.95)), units.Duration(longest))
}

// oldLookNS is an age of the data about fibers, in ns. If the data are older, the screen says how old they are.
const oldLookNS = int64(2e9)

// FibersText returns a text that says how many fibers wait: "400 fibers wait", "400 fibers wait (as of 4 s ago)". It is
// "" if none wait.
func (s *Served) FibersText() string {
	if s.Fibers == nil || len(s.Fibers.List) == 0 {
		return ""
	}
	text := units.Plural(len(s.Fibers.List), "fiber waits", "fibers wait")
	if s.fibersNS >= oldLookNS {
		text += " (as of " + units.Duration(s.fibersNS) + " ago)"
	}
	return text
}

// RunningText returns a text that says how many requests and jobs are in progress: "5 running", "4 requests, 1 job
// running".
func (s *Served) RunningText() string {
	jobs := 0
	for i := range s.Running {
		if s.Running[i].Work.Kind == sampler.WorkJob {
			jobs++
		}
	}
	requests := len(s.Running) - jobs
	switch {
	case jobs == 0 || requests == 0:
		return fmt.Sprintf("%d running", len(s.Running))
	}
	return units.Plural(requests, "request", "requests") + ", " + units.Plural(jobs, "job", "jobs") + " running"
}

// PerSecondText returns how many requests end per second, as text: "58", "0.3". It is "≥58" if n is a lower bound.
func PerSecondText(n float64, atLeast bool) string {
	if atLeast && n >= 0.05 {
		return "≥" + PerSecondText(n, false)
	}
	switch {
	case n == 0:
		return "0"
	case n < 0.05:
		return "<0.1"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	}
	return units.Count(int64(n + 0.5))
}

// EndpointName returns the text that the screen shows for a route or a class of jobs, also if its name is not known.
func EndpointName(kind sampler.WorkKind, name string) string {
	switch {
	case name != "":
		return name
	case kind == sampler.WorkJob:
		return "(job, class not known)"
	}
	return "(route not known)"
}

// RequestOf returns the route or the class of jobs for which a thread works at the moment on the screen. It is empty if
// there is none, or if it is not known.
func (sc *Scene) RequestOf(id sampler.ThreadID) string {
	at, ok := sc.Served.ServingOf[id]
	if !ok || at.Work == 0 {
		return ""
	}
	w := sc.Dict.Work(at.Work)
	if w.Kind == sampler.WorkNone {
		return ""
	}
	return canvas.Clean(EndpointName(w.Kind, w.Endpoint))
}

// Asks returns a text about what a thread does at the moment on the screen. It has the statement that the thread sends
// to a database or service, and the exception that it handles: "SELECT orders WHERE id = ?", "handling IOError".
func (sc *Scene) Asks(at sampler.Serving) string {
	s := canvas.Clean(sc.Dict.Statement(at.Statement))
	if e := canvas.Clean(sc.Dict.Exception(at.Exception)); e != "" {
		if s != "" {
			s += "  "
		}
		s += "handling " + e
	}
	return s
}

// holderOf returns the thread that holds a ractor's GVL at the moment on the screen. It is zero if no thread holds it,
// or if the holder is not known.
func (sc *Scene) holderOf(ractor sampler.RactorID) sampler.ThreadID {
	for i := range sc.States {
		if s := &sc.States[i]; s.Ractor == ractor && s.State.Held() {
			return s.Thread
		}
	}
	return 0
}

// whoIs returns texts that name a thread by the request that it serves: "GET reports#build (tp 003)", "GET
// reports#build". The longest text comes first.
func (sc *Scene) whoIs(id sampler.ThreadID) []string {
	name := canvas.Clean(gvl.ThreadName(id, sc.Dict))
	if of := sc.RequestOf(id); of != "" {
		return []string{of + " (" + name + ")", of}
	}
	return []string{name}
}

// RequestForms returns texts that say what a thread does and for which thread it waits. The longest text comes first.
func (sc *Scene) RequestForms(ts gvl.ThreadState) []string {
	forms := gvl.DescribeFit(ts, sc.Dict)
	switch ts.State {
	case gvl.Waiting:
		if holder := sc.holderOf(ts.Ractor); holder != 0 {
			whole, short, who := forms[max(len(forms)-2, 0)], forms[len(forms)-1], sc.whoIs(holder)
			out := []string{whole + ", behind " + who[0], short + ", behind " + who[0], short + ", behind " + who[len(who)-1]}
			return append(out, "waiting behind "+who[len(who)-1], short)
		}
	case gvl.Lock:
		if who := sc.whoIs(ts.Detail.Holder); len(who) > 1 {
			short := forms[len(forms)-1]
			return append([]string{short + ", " + who[0] + " has it", short + ", " + who[1] + " has it"}, forms...)
		}
	}
	return forms
}

// OwnPlace returns the innermost frame of the program's own code, with its file and line. If the stack has no such
// frame, it returns the innermost frame that is written in Ruby. It returns "" if the stack has no Ruby frame, either.
func OwnPlace(dict *sampler.Dictionary, stack sampler.StackID) string {
	text := func(f *sampler.Frame) string {
		if ext := filepath.Ext(f.Path); ext != "" && ext != ".rb" && !f.C { // a template's method has a generated name
			folder, name := filepath.Split(f.Path)
			return canvas.Clean(style.LineIn(filepath.Join(filepath.Base(folder), name), f.Line, f.Uncertain))
		}
		s := canvas.Clean(f.Label)
		if !f.C && f.Path != "" {
			s += "  " + style.LineIn(filepath.Base(f.Path), f.Line, f.Uncertain)
		}
		return s
	}
	for _, id := range dict.Frames(stack, nil) {
		if f := dict.Frame(id); f.Own() {
			return text(&f)
		}
	}
	p, line := flamegraph.PlaceOf(dict, stack)
	if p.Path == "" {
		return canvas.Clean(p.String())
	}
	return style.CodeLine(canvas.Clean(p.String()), style.LineIn(filepath.Base(p.Path), line, false))
}

// ServingForms adds a thread's request to the texts that say what the thread does, if there is room for both. If there
// is not, it leaves the request out, because it is more important what the thread waits for.
func ServingForms(s gvl.State, forms []string, request string) []string {
	if s.Held() || s == gvl.Native {
		return []string{forms[0] + "  " + request} // the drawing code cuts the text to fit
	}
	var with []string
	_, path, hasVerb := strings.Cut(request, " ")
	for i, f := range forms {
		if i+1 < len(forms) || s != gvl.IO && s != gvl.Lock {
			with = append(with, f+"  "+request)
			if hasVerb {
				with = append(with, f+"  "+path)
			}
		}
	}
	return append(with, forms...)
}

// serverClasses are the beginnings of names of classes that are found only in servers and job runners. If a method's
// name begins with one of them, the method belongs to a server or a job runner. The list must not be changed.
var serverClasses = []string{"Puma::", "Unicorn::", "Pitchfork::", "WEBrick::", "Falcon::", "Async::HTTP::Server", "Thin::", "PhusionPassenger::",
	"Iodine", "Agoo", "Sidekiq::", "Resque::", "Delayed::Worker", "GoodJob::", "SolidQueue::", "Que::", "Shoryuken::", "Karafka::"}

const (
	// serverEachNS is the time between two searches for methods of a server on the threads' stacks, in ns.
	serverEachNS = int64(1e9)
	// maxServerThreads limits how many threads one search for server methods examines, and maxServerFrames how many
	// frames of each thread.
	maxServerThreads, maxServerFrames = 100, 100
)

// serverSeen says whether a process is a server or a job runner. The screen offers the view of requests for such a
// process, even before its first request.
type serverSeen struct {
	Met      bool
	lookedNS int64
}

// search looks for methods of servers (serverClasses) on the stacks of a sample, at most once a second.
func (s *serverSeen) search(dict *sampler.Dictionary, m *sampler.Sample) {
	if s.Met || s.lookedNS != 0 && m.TimeNS-s.lookedNS < serverEachNS && m.TimeNS >= s.lookedNS {
		return
	}
	s.lookedNS = m.TimeNS
	for i := range m.Threads[:min(len(m.Threads), maxServerThreads)] {
		stack := m.Threads[i].Stack
		for depth := 0; stack != 0 && depth < maxServerFrames; depth++ {
			caller, frame := dict.Stack(stack)
			if s.Met = ofServer(dict.Frame(frame).Label); s.Met {
				return
			}
			stack = caller
		}
	}
}

func ofServer(label string) bool {
	_, method, ok := strings.Cut(label, " in ")
	if !ok {
		method = label
	}
	for _, class := range serverClasses {
		if strings.HasPrefix(method, class) {
			return true
		}
	}
	return false
}

// EndpointKey identifies a route or a class of jobs. Other is true for one special row, which has the sums of all
// endpoints that have no row of their own.
type EndpointKey struct {
	Kind  sampler.WorkKind
	Name  string
	Other bool
}

// Number returns the ID of the endpoint in the flamegraph's weights. It is zero for the zero key. It is NoEndpoint if
// no weights belong to the endpoint.
func (k EndpointKey) Number(r *store.Reading) flamegraph.EndpointID {
	if k == (EndpointKey{}) {
		return 0
	}
	if id := r.Endpoint(flamegraph.Endpoint{Kind: k.Kind, Name: k.Name}); id != 0 {
		return id
	}
	return flamegraph.NoEndpoint
}

// String returns the name that the screen shows for the endpoint.
func (k EndpointKey) String() string { return canvas.Clean(EndpointName(k.Kind, k.Name)) }
