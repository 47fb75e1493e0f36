package findings

import (
	"cmp"
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings/internal/resting"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// Severity says how severe a finding is.
type Severity uint8

// These are the severities, the least severe first.
const (
	SeverityInfo Severity = iota
	SeverityWarn
	SeverityCrit
)

// String returns "info", "warn" or "crit".
func (s Severity) String() string {
	switch s {
	case SeverityWarn:
		return "warn"
	case SeverityCrit:
		return "crit"
	}
	return "info"
}

// A Finding is a problem, described in plain words for a person who does not know the GVL. docs/reference/findings.md
// lists all findings.
type Finding struct {
	// ID is the name of the rule that raised the finding: "gvl_saturated", "deadlock" …
	ID       string
	Severity Severity
	// Title is a few words ("GVL saturated"). Text has the figures and the cause ("held 98 %, 6.2 threads wait; …").
	// Next says what to do.
	Title, Text, Next string
	// SinceNS is when the condition became true, CLOCK_MONOTONIC in ns. UntilNS is when it ended, and AgoNS how long
	// ago this was, in ns. Both are zero while the finding is active. An ended finding has a text in the past tense,
	// which describes it at its worst.
	SinceNS, UntilNS, AgoNS int64
	// Threads are the threads of the problem. The first is the thread that causes it, and Stack is the stack of this
	// thread.
	Threads []sampler.ThreadID
	Stack   sampler.StackID
	Peer    sampler.PeerID
	Object  uint64
	// Endpoint is the route or job class that contributes most to the problem, or "".
	Endpoint string
	// Native has the C functions at the end of the stack of Threads[0], outermost first. The screen sets it.
	Native string
	// Explains is the share of the threads' busy time in the last ten seconds that this problem costs, from 0 to 1.
	// Busy time is all time except rest, so it includes waits.
	Explains float64
	// Evidence is the quality of the samples that the figures are computed from. These samples cover ten seconds.
	Evidence sampler.Quality
	// advice has all texts that Next can be. The function plan chooses one of them. steady is the same as Explains, but
	// changes only in steps of explainsBand.
	advice []advice
	steady float64
	// ownCPU is set if the process lacks CPU, and uses at least half of the CPUs that it may use (cpuuse.Own).
	ownCPU bool
}

// String returns the finding as one line of the screen: when it ended, its title and its text.
func (f Finding) String() string { return f.When() + f.Title + ": " + f.Text }

// When returns how long ago the finding ended, as text to put before the title: "12 s ago: ". It is empty while the
// finding is active.
func (f Finding) When() string { return report.Ago(f.AgoNS) }

// FindingsWindowNS is the length of the period that the figures in a finding's text describe, in ns.
const FindingsWindowNS = 10e9

// These constants decide when findings are raised and when they end, in ns of the stream's time.
const (
	// findingsWindowNS is the length of the window that rules use: ten whole seconds and the current one.
	findingsWindowNS = FindingsWindowNS
	// trailNS is the length of the latest part of the window. If the rule's score in this part alone is below
	// endedShare, the condition has ended.
	trailNS    = 4e9
	endedShare = .2
	// recentNS is how long an ended finding is shown, in ns.
	recentNS = 30e9
	// evaluateNS is the interval between two evaluations of the rules.
	evaluateNS = 250e6
	// raiseNS is how long a condition must last before its finding is raised, unless the rule sets its own time.
	raiseNS = 3e9
	// raiseSoonNS replaces raiseNS for some rules. These rules already judge a mean over some time, so they need not
	// wait as long.
	raiseSoonNS = 200e6
	// clearNS is how long a rule's score must be below ClearShare before its finding ends.
	clearNS = 5e9
	// ClearShare is a score. If a raised finding's score stays below it for clearNS, the finding ends.
	ClearShare = 0.8
	// bootNS is the shortest length of a program's start. Most rules ignore the start, because a program that loads
	// code does not do its usual work yet.
	bootNS = 5e9
	// maxBootNS is the longest time that counts as a program's start, even if it still loads code.
	maxBootNS = 30e9
	// loadingShare is a part of a second. If loading code, with its waits for the GVL, takes at least this part, the
	// program counts as loading in this second. The start ends after loadedNS without loading.
	loadingShare = .2
	loadedNS     = 2e9
	// minWindowNS is how much of the window must have been sampled before rules are evaluated, in ns.
	minWindowNS = 500e6
)

// hit is the result of evaluating a rule for a window: how far its condition is met, and the texts.
type hit struct {
	// score is the measured value divided by its threshold. If a rule has several conditions, it is the smallest of
	// their scores. The rule matches if score is at least 1.
	score    float64
	severity Severity
	// The fields below are set if score is at least 1. If the tense of a verb in them can change, the verb is marked by
	// the function tense.
	title, text, next string
	// advice has pieces of advice, of which the function plan chooses the first that fits. If it is empty, the advice
	// is the text in the field next.
	advice  []advice
	threads []sampler.ThreadID
	stack   sampler.StackID
	peer    sampler.PeerID
	object  uint64
	ownCPU  bool
	// endpoint is the endpoint that contributes most to the problem, or "".
	endpoint string
	// explains is the time that the finding costs the threads of the window, in ns. It adds up the time of the problem
	// itself, and the time for which other threads waited because of the problem.
	explains int64
	// tell adds parts of the text that take time to find, such as the code to blame. It is called before a user sees
	// the finding. If no user sees the finding, it is called at the next evaluation, when the window has changed
	// little.
	tell func(*hit)
}

// inTense calls tell, which completes the text of the hit, and returns the hit.
func (h hit) inTense() hit {
	if h.tell != nil {
		h.tell(&h)
		h.tell = nil
	}
	return h
}

// explainsBand is a part of a finding's share. The finding keeps its position in the list until its share changes by
// more than this part. So two findings with about equal shares do not swap their places again and again.
const explainsBand = .25

// ruleState is what Findings remembers about a rule between evaluations.
type ruleState struct {
	raised bool
	trueNS int64 // since when the rule has matched; zero if it does not match
	lowNS  int64 // since when the score is below ClearShare; zero if it is not
	// sureNS is when the rule last matched both in the window and in its latest part (trail). If trail shows that the
	// condition has ended, endedNS becomes sureNS, even if the window still matches. endedNS is zero while the finding
	// is active.
	sureNS, endedNS int64
	// last is the rule's last hit.
	last hit
	// worst is the finding at its highest score since it was raised. shown is set if a user could see the finding since
	// then.
	worst      Finding
	worstScore float64
	shown      bool
	// lastExplains is the finding's share of busy time. explains is this share, in steps of explainsBand.
	lastExplains, explains float64
	lastEvidence           sampler.Quality
}

// maxPastFindings limits the ended findings that Raised remembers.
const maxPastFindings = 256

// Findings applies the rules of docs/reference/findings.md to a stream. It is a Consumer. It is not safe for
// concurrent use.
type Findings struct {
	gvl.Ignore
	ev     *collector
	rules  *Rules
	states [len(rules)]ruleState
	nextNS int64
	// win is the last ten seconds. late is the part of win after the program's start, and trail the last trailNS of
	// win.
	win, late, trail window
	// ended findings with the figures of their highest score; tell has not completed them yet
	past []Finding
}

// Resting decides whether a thread that waits is busy or at rest.
type Resting = resting.Resting

// NewResting returns a Resting for samples whose IDs point into dict.
func NewResting(dict *sampler.Dictionary) *Resting { return resting.New(dict) }

// Resting returns a Resting that also uses the gates that f has found.
func (f *Findings) Resting() *Resting {
	r := resting.New(f.ev.dict)
	r.Gates = f.ev.gates
	return r
}

// New returns the Findings of a stream of the target p, whose IDs point into dict. b and q must belong to the same
// stream. If r is nil, all rules apply with their default thresholds.
func New(s *stream.Stream, p sampler.Process, dict *sampler.Dictionary, b *account.Blame, q *account.Requests, r *Rules) *Findings {
	if r == nil {
		r = NewRules()
	}
	f := &Findings{ev: newCollector(s, p, dict, &r.limits), rules: r}
	f.win.init(f.ev, b, q)
	f.late.init(f.ev, b, q)
	f.trail.init(f.ev, b, q)
	s.Attach(f)
	return f
}

// Tick evaluates the rules every evaluateNS. The collector adds the sample first, so the rules can use it.
func (f *Findings) Tick(k *gvl.Tick) {
	now := k.ToNS
	if now < f.nextNS {
		return
	}
	f.nextNS = now + evaluateNS
	if f.ev.stopped() {
		f.judgeHalted(now)
		return
	}
	f.win.collect(k.Sample, k.States, now, 0)
	if f.win.sampledNS < minWindowNS {
		return
	}
	// late is win without the program's start. If the start ended before the window begins, they are the same.
	late := &f.win
	if boot := f.ev.bootNS; now-boot <= findingsWindowNS+1e9 {
		late = &f.late
		late.collect(k.Sample, k.States, now, boot)
	}
	f.trail.sampledNS = 0
	for i := range f.states {
		if f.states[i].raised {
			f.trail.collect(k.Sample, k.States, now, now-trailNS)
			break
		}
	}
	for i := range rules {
		f.judge(i, now, late)
	}
	for i := range rules {
		if st := &f.states[i]; st.raised && !st.shown && !f.hidden(&rules[i]) {
			st.shown = true
		}
	}
}

// Early reports whether the program started so recently that no rule had time to raise a finding. The absence of
// findings then proves nothing.
func (f *Findings) Early() bool {
	return f.ev.lastNS-f.ev.bootNS < minWindowNS+raiseNS+evaluateNS
}

// judge evaluates a rule and updates its state. late is the part of the window after the program's start.
func (f *Findings) judge(i int, now int64, late *window) {
	if f.rules.off[i] {
		return
	}
	r, st := &rules[i], &f.states[i]
	var h hit
	of := late
	if r.boot {
		of = &f.win
	}
	switch {
	case r.lacks(of):
	case !r.boot && (r.settled && late != &f.win || late.sampledNS < minWindowNS):
	default:
		h = r.eval(of)
	}
	if h.score >= 1 {
		h.then(of.nameRoute)
	}
	if st.raised && h.score < 1 {
		st.last = st.last.inTense() // completes the text while the window still fits it
	}
	switch {
	case h.score >= 1:
		st.lowNS = 0
		if st.trueNS == 0 {
			st.trueNS = now
		}
		if !st.raised && now-st.trueNS < f.rules.raise[i] {
			return
		}
		explains := min(f.win.ofBusy(h.explains), 1)
		if !st.raised {
			st.sureNS = now
		}
		if f.trails(i, now, h.score); st.endedNS != 0 {
			return // the condition has ended, so the window's figures only get smaller from now on
		}
		if !st.raised || math.Abs(explains-st.explains) > explainsBand*st.explains {
			st.explains = explains
		}
		st.raised = true
		st.last, st.lastExplains, st.lastEvidence = h, explains, of.quality
		if h.score >= st.worstScore {
			st.worst, st.worstScore = f.finding(i), h.score
		}
	case h.score >= ClearShare && st.raised:
		st.lowNS = 0
	default:
		if !st.raised {
			st.trueNS = 0
			return
		}
		if st.lowNS == 0 {
			st.lowNS = now
		}
		if f.trails(i, now, h.score); st.endedNS == 0 {
			st.endedNS = st.sureNS
		}
		if now-st.lowNS >= clearNS {
			if st.shown {
				f.forget(st.ended())
			}
			*st = ruleState{}
		}
	}
}

// trails notes whether a condition has ended. The latest part of the window shows this before the whole window does.
func (f *Findings) trails(i int, now int64, score float64) {
	st := &f.states[i]
	if st.raised && !rules[i].sparse && f.trail.sampledNS >= minWindowNS {
		score = min(score, rules[i].eval(&f.trail).score)
	}
	switch {
	case score >= 1:
		st.sureNS, st.endedNS = now, 0
	case score < endedShare && st.endedNS == 0:
		st.endedNS = st.sureNS
	}
}

// ended returns the finding of a rule whose condition has ended. Its figures are from the time of the highest score.
func (st *ruleState) ended() Finding {
	w := st.worst
	w.UntilNS = st.endedNS
	return w
}

// finding returns the finding of a raised rule. Its text is not complete yet: the caller must pass it to tell.
func (f *Findings) finding(i int) Finding {
	st := &f.states[i]
	st.last = st.last.inTense()
	h := &st.last
	list := h.advices()
	return Finding{
		ID: rules[i].id, Severity: h.severity, Title: h.title, Text: h.text, Next: list[0].Text, advice: list, SinceNS: st.trueNS,
		Threads: h.threads, Stack: h.stack, Peer: h.peer, Object: h.object, Endpoint: h.endpoint, Explains: st.lastExplains,
		Evidence: st.lastEvidence, steady: st.explains, ownCPU: h.ownCPU,
	}
}

func (f *Findings) forget(r Finding) {
	if len(f.past) >= maxPastFindings {
		f.past = slices.Delete(f.past, 0, 1)
	}
	f.past = append(f.past, r)
}

// Raised returns all findings so far. First come the active findings in the order of Current. Then come the active
// findings that Current leaves out, because others hide them. The ended findings come last, the latest of them first.
// The caller owns the slice.
func (f *Findings) Raised() []Finding {
	var out, hidden []Finding
	for _, i := range f.ranked() {
		switch st := &f.states[i]; {
		case !st.shown:
		case f.hidden(&rules[i]):
			hidden = append(hidden, st.ended())
		default:
			out = append(out, st.ended())
		}
	}
	out = append(out, hidden...)
	for _, x := range slices.Backward(f.past) {
		out = append(out, x)
	}
	return tell(out, f.ev.lastNS)
}

// tell completes findings for a reader at nowNS: it puts causes before symptoms, chooses advice, and sets the tense.
func tell(list []Finding, nowNS int64) []Finding {
	list = causesFirst(list)
	plan(list)
	for i := range list {
		list[i] = list[i].inTense(nowNS)
	}
	return list
}

// Current returns the active findings, followed by those that ended a moment ago. Standstills (findings about threads
// that make no progress) come first, then the more severe findings. Of equally severe findings, causes come before
// symptoms, and then larger shares before smaller ones. A finding always comes before the findings that it explains.
// The caller owns the slice.
func (f *Findings) Current() []Finding { return tell(f.current(), f.ev.lastNS) }

// current returns the same findings as Current. Their texts are not complete yet: the caller must pass them to tell.
func (f *Findings) current() []Finding {
	var out []Finding
	for _, i := range f.ranked() {
		st := &f.states[i]
		switch {
		case f.hidden(&rules[i]):
		case st.endedNS != 0:
			out = append(out, st.ended())
		default:
			out = append(out, f.finding(i))
		}
	}
	return out
}

// Told returns the findings that a screen shows: Current, and for each rule the last finding that ended in the last 30
// s. Active findings come first, then the ended ones by severity, then the latest. The caller owns the slice.
func (f *Findings) Told() []Finding { return f.toldAt(f.current(), f.ev.lastNS) }

// ToldOfEnded is like Told, for a process that ended at endNS and a reader at the later time nowNS. Findings that were
// active at endNS are shown as ended at endNS. 30 s after endNS, there are no findings.
func (f *Findings) ToldOfEnded(endNS, nowNS int64) []Finding {
	list := f.current()
	for i := range list {
		if list[i].UntilNS == 0 {
			list[i].UntilNS = endNS
		}
	}
	return slices.DeleteFunc(f.toldAt(list, nowNS), func(x Finding) bool { return x.AgoNS > recentNS })
}

// toldAt adds to out the findings that ended in the last 30 s. Then it sorts all findings, and completes them for a
// reader at nowNS.
func (f *Findings) toldAt(out []Finding, nowNS int64) []Finding {
	for _, x := range slices.Backward(f.past) {
		again := func(y Finding) bool { return y.ID == x.ID }
		i := slices.IndexFunc(rules[:], func(r rule) bool { return r.id == x.ID })
		if nowNS-x.UntilNS <= recentNS && !f.states[i].raised && !slices.ContainsFunc(out, again) {
			out = append(out, x)
		}
	}
	sorting.StableBy(out, func(x, y Finding) int {
		if d := cmp.Compare(min(x.UntilNS, 1), min(y.UntilNS, 1)); d != 0 || x.UntilNS == 0 {
			return d
		}
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(y.UntilNS, x.UntilNS))
	})
	return tell(out, nowNS)
}

// ranked lists the raised rules in the order in which their findings are shown.
func (f *Findings) ranked() []int {
	var out []int
	for i := range rules {
		if f.states[i].raised {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		x, y := &f.states[a], &f.states[b]
		xRank, yRank := rules[a].rank, rules[b].rank
		ended := func(st *ruleState) int { return int(min(st.endedNS, 1)) }
		if d := cmp.Or(cmp.Compare(ended(x), ended(y)), cmp.Compare(min(xRank, rankCause), min(yRank, rankCause))); d != 0 || xRank == rankStandstill {
			return d
		}
		return cmp.Or(cmp.Compare(y.last.severity, x.last.severity), cmp.Compare(xRank, yRank), cmp.Compare(y.explains, x.explains))
	})
	return out
}

func (f *Findings) hidden(r *rule) bool {
	if r.id != ruleFrozen && f.frozen() {
		return true
	}
	for _, id := range r.hiddenBy {
		for i := range rules {
			if rules[i].id == id && f.states[i].raised {
				return true
			}
		}
	}
	return false
}
