package ui

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// served is what a picture knows of requests and jobs.
type served struct {
	// seen: there were some, at any time.
	seen bool
	// running are those in progress at the moment shown, the oldest first; of is for whom threads work then.
	running []gvl.Request
	of      map[sampler.ThreadID]sampler.Serving
	// last is the one that ended last, while none is in progress; nil: none is remembered.
	last *gvl.Request
	// endpoints are the routes and the classes of jobs in the time shown, those with most time first.
	endpoints []gvl.Endpoint
	// lengths are those of all that began and ended in the time shown, perSecond how many ended.
	lengths   gvl.Histogram
	slackNS   int64 // by how much they can be wrong
	perSecond float64
	waitNS    int64 // that all threads waited for the GVL in the time shown
	// leftOut is how many requests and jobs were not kept apart, since too many were in progress.
	leftOut uint64
	// toldNS is from when on endpoints are told, if that is later than the begin of the time shown; else 0.
	toldNS int64
	// fibers is the last look at the fibers that wait, fibersNS how old it is, in ns; nil: there was none, or the moment is an earlier one.
	fibers   *sampler.Fibers
	fibersNS int64
	// server: code of a server or a job runner was met, whoever it serves.
	server serverSeen
}

// load takes over the requests of the moment shown and, when the weights are made anew, the endpoints of the time shown.
func (s *served) load(sc *scene, r *store.Reading, endpoints bool) {
	if sc.frozen {
		s.running = r.Requests.At(sc.atNS)
	} else {
		s.running = r.Requests.Running()
	}
	if s.last = nil; len(s.running) == 0 {
		s.last = r.Requests.Last(sc.atNS)
	}
	if s.of == nil {
		s.of = make(map[sampler.ThreadID]sampler.Serving)
	}
	clear(s.of)
	if sc.moment != nil {
		s.server.look(sc.dict, sc.moment)
	}
	if sc.moment != nil && (!sc.frozen || sc.atNS == sc.heldNS) {
		for i := range sc.moment.Threads {
			if t := &sc.moment.Threads[i]; t.Serving != (sampler.Serving{}) {
				s.of[t.ID] = t.Serving
			}
		}
	}
	if endpoints {
		s.endpoints = r.Requests.Endpoints(sc.atNS-sc.windowNS, sc.atNS)
		total := sc.weights.Total()
		s.waitNS = max(total.WaitNS, total.BlameNS)
		s.lengths.Reset()
		s.perSecond, s.slackNS = 0, 0
		for i := range s.endpoints {
			e := &s.endpoints[i]
			s.lengths.Merge(&e.Durations)
			s.perSecond += e.PerSecond
			n, _ := e.Durations.Count()
			s.slackNS += n * e.SlackNS
		}
		if n, _ := s.lengths.Count(); n > 0 {
			s.slackNS /= n
		}
	}
	s.leftOut = r.Requests.LeftOut()
	if s.fibers, s.fibersNS = nil, 0; !sc.frozen {
		s.fibers, s.fibersNS = r.Requests.Fibers()
	}
	told, all := r.Requests.ToldSince(max(sc.atNS-sc.windowNS, sc.oldestNS), sc.atNS)
	if s.toldNS = told; all {
		s.toldNS = 0
	}
	s.seen = s.seen || len(s.running) > 0 || len(s.endpoints) > 0
}

// maxSummaryEndpoints bounds the routes of a summary.
const maxSummaryEndpoints = 8

// summary writes the routes of the time shown, those with most time first, for a summary in Markdown; nothing without any.
func (s *served) summary(b *strings.Builder) {
	list := s.endpoints[:min(len(s.endpoints), maxSummaryEndpoints)]
	if len(list) == 0 {
		return
	}
	b.WriteString("\nRequests and jobs, as far as seen:\n\n| endpoint | ended | running | p50 | p95 | longest | blame |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for i := range list {
		e := &list[i]
		name, p50, p95, longest := "(others)", "–", "–", lengthText(gvl.Length(e.LongestNS, e.SlackNS))
		if !e.Other {
			name = endpointName(e.Kind, e.Name)
		}
		if n, _ := e.Durations.Count(); n > 0 {
			p50, p95 = lengthText(e.Quantile(.5)), lengthText(e.Quantile(.95))
		}
		switch {
		case e.LongestNS == 0:
			longest = "–"
		case e.LongestAtLeast:
			longest = "≥" + units.Duration(e.LongestNS)
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %s |\n", markdown(name), e.Ended, e.Running, p50, p95, longest,
			units.Percent(min(style.Share(e.BlameNS, s.waitNS), 1)))
	}
	if n := len(s.endpoints) - len(list); n > 0 {
		fmt.Fprintf(b, "| and %d more | | | | | | |\n", n)
	}
}

// length is the length that a share of those that began and ended in the time shown did not exceed; "–" without any.
func (s *served) length(q float64) string {
	if n, _ := s.lengths.Count(); n == 0 {
		return "–"
	}
	return lengthText(gvl.Length(s.lengths.Quantile(q), s.slackNS))
}

// lengthText writes a request's length: with ≤ where readings were too far apart to tell it from a shorter one.
func lengthText(ns int64, atMost bool) string {
	if atMost {
		return "≤" + units.Duration(ns)
	}
	return units.Duration(ns)
}

// queuedText says how long those in progress had waited at most before they came to a thread; "" where nothing says so.
func (s *served) queuedText() string {
	var longest int64
	for i := range s.running {
		longest = max(longest, s.running[i].Work.QueuedNS)
	}
	if longest == 0 {
		return ""
	}
	return "queued up to " + units.Duration(longest) + " before"
}

// oldLookNS is the age from which on it is told how old a look at fibers is, in ns.
const oldLookNS = int64(2e9)

// fibersText counts the fibers that wait: "400 fibers wait", "400 fibers wait (as of 4 s ago)"; "" without any.
func (s *served) fibersText() string {
	if s.fibers == nil || len(s.fibers.List) == 0 {
		return ""
	}
	text := units.Plural(len(s.fibers.List), "fiber waits", "fibers wait")
	if s.fibersNS >= oldLookNS {
		text += " (as of " + units.Duration(s.fibersNS) + " ago)"
	}
	return text
}

// runningText counts what goes on: "5 running", "4 requests, 1 job running".
func (s *served) runningText() string {
	jobs := 0
	for i := range s.running {
		if s.running[i].Work.Kind == sampler.WorkJob {
			jobs++
		}
	}
	requests := len(s.running) - jobs
	switch {
	case jobs == 0 || requests == 0:
		return fmt.Sprintf("%d running", len(s.running))
	}
	return units.Plural(requests, "request", "requests") + ", " + units.Plural(jobs, "job", "jobs") + " running"
}

// perSecondText is how many end a second: "58/s", "0.3/s".
func perSecondText(n float64) string {
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

// endpointName is what the screen calls an endpoint.
func endpointName(kind sampler.WorkKind, name string) string {
	switch {
	case name != "":
		return name
	case kind == sampler.WorkJob:
		return "(job, class not known)"
	}
	return "(route not known)"
}

// requestOf is what a thread works for at the moment shown: its route or class; "": for nobody, or that is not known.
func (sc *scene) requestOf(id sampler.ThreadID) string {
	at, ok := sc.served.of[id]
	if !ok || at.Work == 0 {
		return ""
	}
	w := sc.dict.Work(at.Work)
	if w.Kind == sampler.WorkNone {
		return ""
	}
	return canvas.Clean(endpointName(w.Kind, w.Endpoint))
}

// asks is what a thread asks at the moment shown and which exception it handles: "SELECT orders WHERE id = ?", "handling IOError".
func (sc *scene) asks(at sampler.Serving) string {
	s := canvas.Clean(sc.dict.Statement(at.Statement))
	if e := canvas.Clean(sc.dict.Exception(at.Exception)); e != "" {
		if s != "" {
			s += "  "
		}
		s += "handling " + e
	}
	return s
}

// holderOf is the thread that holds a ractor's GVL at the moment shown; 0: none does, or that is not known.
func (sc *scene) holderOf(ractor sampler.RactorID) sampler.ThreadID {
	for i := range sc.states {
		if s := &sc.states[i]; s.Ractor == ractor && s.State.Held() {
			return s.Thread
		}
	}
	return 0
}

// whoIs names a thread by what it works for, the fullest form first: "GET reports#build (tp 003)", "GET reports#build".
func (sc *scene) whoIs(id sampler.ThreadID) []string {
	name := canvas.Clean(gvl.ThreadName(id, sc.dict))
	if of := sc.requestOf(id); of != "" {
		return []string{of + " (" + name + ")", of}
	}
	return []string{name}
}

// requestForms says what a thread does for a request, with whom it waits for, the fullest form first.
func (sc *scene) requestForms(ts gvl.ThreadState) []string {
	forms := gvl.DescribeFit(ts, sc.dict)
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

// ownPlace is the innermost frame of a stack that is the program's own, or written in Ruby, with its file and line; "" without one.
func ownPlace(dict *sampler.Dictionary, stack sampler.StackID) string {
	text := func(f *sampler.Frame) string {
		if ext := filepath.Ext(f.Path); ext != "" && ext != ".rb" && !f.C { // a template: its method is named by a compiler
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
	return canvas.Clean(p.String()) + "  " + style.LineIn(filepath.Base(p.Path), line, false)
}

// servingForms adds a request to what a thread does, where there is room for both: in place of nothing that says whom it waits for.
func servingForms(s gvl.State, forms []string, request string) []string {
	if s.Held() || s == gvl.Native {
		return []string{forms[0] + "  " + request} // what has no room of it is cut
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
