package alert

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ddtop/ddtop/push"
)

const (
	// gatherFor is how long a start waits for other processes of the service, so that one message counts them.
	gatherFor = 5 * time.Second
	// overFor is how long a finding must be over in all processes before the message about its end.
	overFor = time.Minute
	// mostAnHour bounds the messages about one process in an hour. An alert takes two: its end must not be left out
	// when its start was told.
	mostAnHour = 10
	perAlert   = 2
	// forgetAfter is how long the count of a service's findings is kept after its last process ended.
	forgetAfter = 15 * time.Minute
	// maxAlerts and maxCounts bound the alerts and the counts that are kept.
	maxAlerts, maxCounts = 4096, 4096
)

// Count is the figures of one rule in one service.
type Count struct {
	Rule, Severity, Service string
	// Active is how many processes have the finding now. Raised is how often it began in a process.
	Active int
	Raised int64
	// Oldest is when the oldest active one began. It is the zero time if none is active.
	Oldest time.Time
}

type countKey struct{ rule, severity, service string }

type count struct {
	raised int64
	seen   time.Time // when it was last active, or its service had a process
}

// Followed is a process on a Board. Only the goroutine of the process calls its methods.
type Followed struct {
	board   *Board
	capture func(*Finding) Capture
	// Guarded by the board.
	process Process
	has     map[string]*Finding
	told    []time.Time // when the messages of the last hour were told
	leftOut []time.Time // when others were left out
	left    bool
}

// alertKey is what makes findings one alert: workers of a service have the same key.
type alertKey struct{ service, env, rule string }

// active is an alert that has begun.
type active struct {
	id    string
	since time.Time // when the board saw it first
	began time.Time // when the condition began
	// first is the process that had it first. Its messages are counted.
	first *Followed
	// now are the processes that have it, had is how many have had it.
	now map[*Followed]*Finding
	had map[*Followed]bool
	// worst is the worst finding so far, of process worstOf.
	worst   Finding
	worstOf Process
	worstOn *Followed
	overAt  time.Time // when the last process lost it; zero while one has it
	decided bool      // the start was told, or left out
	told    bool
	capture Capture
}

// Capture is where a recording and its page are.
type Capture struct{ Recording, Page string }

// Board collects the findings of all followed processes, and decides which messages are sent. Its methods may be called
// from any goroutine.
type Board struct {
	// Tell is called with each message, while the board is locked. It must not wait. It is nil if messages are not
	// wanted.
	Tell func(*Message)

	mu        sync.Mutex
	processes map[*Followed]bool
	alerts    map[alertKey]*active
	counts    map[countKey]*count
	leftOut   int64
}

// NewBoard returns an empty Board.
func NewBoard() *Board {
	return &Board{processes: make(map[*Followed]bool), alerts: make(map[alertKey]*active), counts: make(map[countKey]*count)}
}

// Join adds a process. capture begins a capture of it, and returns where it will be. It must not wait. It is nil if no
// captures are wanted.
func (b *Board) Join(p Process, capture func(*Finding) Capture) *Followed {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &Followed{board: b, process: p, capture: capture, has: make(map[string]*Finding)}
	b.processes[f] = true
	return f
}

// Leave removes a process. Its findings are over.
func (f *Followed) Leave(now time.Time) {
	f.Set(now, f.process.Tags, nil)
	f.board.mu.Lock()
	defer f.board.mu.Unlock()
	f.left = true
	delete(f.board.processes, f)
}

// Set says which findings a process has now.
func (f *Followed) Set(now time.Time, tags push.Tags, list []Finding) {
	b := f.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := f.process.Tags; len(f.has) > 0 && (tags.Get("service") != key.Get("service") || tags.Get("env") != key.Get("env")) {
		b.clear(f, now) // another service by now
	}
	f.process.Tags = tags
	seen := make(map[string]bool, len(list))
	for i := range list {
		x := &list[i]
		seen[x.Rule] = true
		b.raise(f, now, x)
	}
	for rule := range f.has {
		if !seen[rule] {
			b.drop(f, now, rule)
		}
	}
}

func (b *Board) clear(f *Followed, now time.Time) {
	for rule := range f.has {
		b.drop(f, now, rule)
	}
}

func (f *Followed) key(rule string) alertKey {
	return alertKey{f.process.service(), f.process.Tags.Get("env"), rule}
}

// raise notes that a process has a finding.
func (b *Board) raise(f *Followed, now time.Time, x *Finding) {
	k := countKey{x.Rule, x.Severity, f.process.service()}
	c := b.counts[k]
	if c == nil && len(b.counts) < maxCounts {
		c = new(count)
		b.counts[k] = c
	}
	if old := f.has[x.Rule]; c != nil && (old == nil || old.Severity != x.Severity) {
		c.raised++
	}
	f.has[x.Rule] = x
	if x.level() == 0 {
		return // information is no alarm
	}
	key := f.key(x.Rule)
	a := b.alerts[key]
	if a == nil {
		if len(b.alerts) >= maxAlerts {
			b.leftOut++
			return
		}
		a = &active{id: rand.Text(), since: now, began: x.Since, first: f, now: make(map[*Followed]*Finding), had: make(map[*Followed]bool)}
		b.alerts[key] = a
	}
	a.overAt = time.Time{}
	a.now[f], a.had[f] = x, true
	if x.Since.Before(a.began) {
		a.began = x.Since
	}
	if a.worst.Rule == "" || worse(x, &a.worst) {
		a.worst, a.worstOf, a.worstOn = *x, f.process, f
	}
}

// worse reports whether a finding is worse than another: by its severity, then by the share that it explains.
func worse(x, y *Finding) bool {
	return cmp.Or(cmp.Compare(x.level(), y.level()), cmp.Compare(x.Explains, y.Explains)) > 0
}

// drop notes that a process has lost a finding.
func (b *Board) drop(f *Followed, now time.Time, rule string) {
	delete(f.has, rule)
	a := b.alerts[f.key(rule)]
	if a == nil || a.now[f] == nil {
		return
	}
	delete(a.now, f)
	if len(a.now) == 0 {
		a.overAt = now
	}
}

// Step tells what is due. Callers call it every second or so.
func (b *Board) Step(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(b.alerts), compareKeys) {
		a := b.alerts[k]
		if !a.decided && now.Sub(a.since) >= gatherFor {
			b.decide(k, a, now)
		}
		if !a.overAt.IsZero() && now.Sub(a.overAt) >= overFor {
			if a.told {
				b.tell(End, k, a)
			}
			delete(b.alerts, k)
		}
	}
	b.forget(now)
}

func compareKeys(x, y alertKey) int {
	return cmp.Or(cmp.Compare(x.service, y.service), cmp.Compare(x.env, y.env), cmp.Compare(x.rule, y.rule))
}

// decide tells the start of an alert, unless there were too many messages about its first process.
func (b *Board) decide(k alertKey, a *active, now time.Time) {
	a.decided = true
	f := a.first
	old := func(t time.Time) bool { return now.Sub(t) >= time.Hour }
	f.told, f.leftOut = slices.DeleteFunc(f.told, old), slices.DeleteFunc(f.leftOut, old)
	if len(f.told)+perAlert > mostAnHour {
		f.leftOut = append(f.leftOut, now, now)
		b.leftOut += perAlert
		return
	}
	for range perAlert {
		f.told = append(f.told, now)
	}
	a.told = true
	if on := a.worstOn; on.capture != nil && !on.left {
		a.capture = on.capture(&a.worst)
	}
	b.tell(Start, k, a)
}

// tell makes a message and passes it on.
func (b *Board) tell(what Kind, k alertKey, a *active) {
	if b.Tell == nil {
		return
	}
	w := &a.worst
	m := &Message{
		ID: a.id, Event: what, Rule: k.rule, Severity: w.Severity, Title: w.Title, Text: w.Text, Next: w.Next, Endpoint: w.Endpoint,
		Service: k.service, Env: k.env, Host: a.worstOf.Tags.Get("host"), PID: a.worstOf.PID, Program: a.worstOf.Title,
		Processes: len(a.had), Since: a.began, Recording: a.capture.Recording, Page: a.capture.Page,
		LeftOut: len(a.first.leftOut), Tags: a.worstOf.Tags,
	}
	m.TraceID, m.SpanID = traceOf(w)
	for f := range b.processes {
		if f.process.service() == k.service && f.process.Tags.Get("env") == k.env {
			m.Followed++
		}
	}
	if what == End {
		until := a.overAt
		m.Until = &until
	}
	b.Tell(m)
}

// Finish tells, at the end, what is known: the starts that were not told yet, and the ends of findings that are over.
// Findings that are active may go on.
func (b *Board) Finish(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(b.alerts), compareKeys) {
		a := b.alerts[k]
		if !a.decided {
			b.decide(k, a, now)
		}
		if a.told && !a.overAt.IsZero() {
			b.tell(End, k, a)
			delete(b.alerts, k)
		}
	}
}

// forget drops the counts of services that have had no process for a while.
func (b *Board) forget(now time.Time) {
	live := make(map[string]bool)
	for f := range b.processes {
		live[f.process.service()] = true
	}
	for k, c := range b.counts {
		switch {
		case live[k.service] || c.seen.IsZero():
			c.seen = now
		case now.Sub(c.seen) > forgetAfter:
			delete(b.counts, k)
		}
	}
}

// Counts returns the figures of all rules that were raised, in order. leftOut is how many messages were left out.
func (b *Board) Counts() (list []Count, leftOut int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[countKey]*Count, len(b.counts))
	for k, c := range b.counts {
		all[k] = &Count{Rule: k.rule, Severity: k.severity, Service: k.service, Raised: c.raised}
	}
	for f := range b.processes {
		for _, x := range f.has {
			c := all[countKey{x.Rule, x.Severity, f.process.service()}]
			if c == nil {
				continue
			}
			c.Active++
			if c.Oldest.IsZero() || x.Since.Before(c.Oldest) {
				c.Oldest = x.Since
			}
		}
	}
	for _, c := range all {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Severity, y.Severity))
	})
	return list, b.leftOut
}
