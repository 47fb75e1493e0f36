package alert

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/push"
)

const (
	// gatherFor is how long the Board waits before it sends the message about a finding's start. In this time, the
	// finding may start in more processes of the service. Then one message counts them all.
	gatherFor = 5 * time.Second
	// overFor is how long all processes must be without the finding before the message about its end is sent.
	overFor = time.Minute
	// mostAnHour limits the messages per hour about one process. It also limits the messages per hour about one finding
	// of a service. Without the second limit, a service that crashes again and again would cause ten messages for each
	// new process. An alert has perAlert messages: the start and the end. The Board sends the start only if the limit
	// has room for both. So the end can be sent if the start was.
	mostAnHour = 10
	perAlert   = 2
	// forgetAfter is how long the counts of a service are kept after its last process has ended.
	forgetAfter = 15 * time.Minute
	// maxAlerts and maxCounts limit how many alerts and counts are kept in memory. maxServices limits how many services
	// have counts.
	maxAlerts, maxCounts, maxServices = 4096, 4096, 64
)

// Count is the number of findings that one rule raised in one service.
type Count struct {
	Rule, Severity, Service string
	// Active is the number of processes that have the finding now. Raised is how many times the finding began in a
	// process.
	Active int
	Raised int64
	// Oldest is when the oldest active finding began. It is the zero time if none is active.
	Oldest time.Time
}

type countKey struct{ rule, severity, service string }

type count struct {
	raised int64
	seen   time.Time // when the finding was last active, or the service last had a process
}

// Followed is a process on a Board. Only the goroutine that follows the process calls its methods.
type Followed struct {
	board   *Board
	capture func(*Finding) Capture
	// The board's mutex guards the following fields.
	process Process
	has     map[string]*Finding
	quota   *quota
	left    bool // the process has left the board, or ddtop ends; then no capture of the process can begin
}

// processKey identifies a process until it ends. The key stays the same if the process runs another program (exec), or
// if ddtop stops following the process and follows it again.
type processKey struct {
	pid        int
	startTicks uint64
}

// quota counts the messages of the last hour, to limit them. told has the times at which messages were sent. leftOut
// has the times at which messages were left out because of the limit.
type quota struct{ told, leftOut []time.Time }

// forget drops the times that are more than an hour ago.
func (q *quota) forget(now time.Time) {
	old := func(t time.Time) bool { return now.Sub(t) >= time.Hour }
	q.told, q.leftOut = slices.DeleteFunc(q.told, old), slices.DeleteFunc(q.leftOut, old)
}

// full reports whether the messages of one more alert would exceed the limit per hour.
func (q *quota) full() bool { return len(q.told)+perAlert > mostAnHour }

// alertKey identifies an alert. If several processes of one service have the same finding, all of these findings have
// the same key. So they become one alert.
type alertKey struct{ service, env, rule string }

// active is an alert that has begun.
type active struct {
	id    string
	since time.Time // when the board first saw the finding
	began time.Time // when the problem began, which can be earlier than since
	// The map now has the processes that have the finding at present. The map had has all followed processes that have
	// the finding or had it before. gone is the number of processes that had the finding and are not followed now.
	now  map[*Followed]*Finding
	had  map[*Followed]bool
	gone int
	// worst is the worst finding of the alert so far. named is the finding that the message about the start described.
	worst, named worst
	overAt       time.Time // when the last process lost the finding; zero while a process has it
	unread       bool      // the alert ends because ddtop cannot read the last process with the finding
	decided      bool      // the start message was sent, or left out
	told         bool
	capture      Capture
}

// worst is a finding with its process.
type worst struct {
	Finding
	of Process
	on *Followed
}

// Capture is where the files about an alert are: a recording, and its HTML page.
type Capture struct{ Recording, Page string }

// Board collects the findings of all followed processes, and decides which messages are sent. Its methods may be called
// from any goroutine.
type Board struct {
	// Tell is called with each message, while the board is locked. So it must return without waiting. It is nil if
	// messages are not wanted.
	Tell func(*Message)

	mu        sync.Mutex
	processes map[*Followed]bool
	alerts    map[alertKey]*active
	counts    map[countKey]*count
	quotas    map[alertKey]*quota
	// ofProcess has the quota of messages of each process. A process keeps its quota for an hour after ddtop has
	// stopped following it.
	ofProcess map[processKey]*quota
	leftOut   int64
}

// NewBoard returns an empty Board.
func NewBoard() *Board {
	return &Board{processes: make(map[*Followed]bool), alerts: make(map[alertKey]*active), counts: make(map[countKey]*count),
		quotas: make(map[alertKey]*quota), ofProcess: make(map[processKey]*quota)}
}

// Join adds a process. The function capture begins a recording and an HTML page of the process, and returns where these
// files will be. It must return without waiting. It is nil if no captures are wanted.
func (b *Board) Join(p Process, capture func(*Finding) Capture) *Followed {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := processKey{p.PID, p.StartTicks}
	if b.ofProcess[key] == nil {
		b.ofProcess[key] = new(quota)
	}
	f := &Followed{board: b, process: p, capture: capture, quota: b.ofProcess[key], has: make(map[string]*Finding)}
	b.processes[f] = true
	return f
}

// Leave removes a process from the board. If ended is true, the process has ended, and its findings have ended, too.
// Otherwise ddtop cannot read the process, and its findings may go on.
func (f *Followed) Leave(now time.Time, ended bool) {
	b := f.board
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear(f, now, !ended)
	f.left, f.capture = true, nil // an alert can refer to f for days, so f must not keep the memory of capture in use
	delete(b.processes, f)
	for _, a := range b.alerts {
		if a.had[f] {
			delete(a.had, f)
			a.gone++
		}
	}
}

// Stop is called for each process when ddtop itself ends. The findings of the process stay active, because they may go
// on without ddtop. After Stop, the board begins no capture of the process.
func (f *Followed) Stop() {
	f.board.mu.Lock()
	defer f.board.mu.Unlock()
	f.left = true
}

// Set replaces the findings of the process by its present findings.
func (f *Followed) Set(now time.Time, tags push.Tags, list []Finding) {
	b := f.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := f.process.Tags; len(f.has) > 0 && (tags.Get("service") != key.Get("service") || tags.Get("env") != key.Get("env")) {
		b.clear(f, now, false) // the process belongs to another service now
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
			b.drop(f, now, rule, false)
		}
	}
}

func (b *Board) clear(f *Followed, now time.Time, unread bool) {
	for rule := range f.has {
		b.drop(f, now, rule, unread)
	}
}

func (f *Followed) key(rule string) alertKey {
	return alertKey{f.process.service(), f.process.Tags.Get("env"), rule}
}

// raise records that a process has a finding.
func (b *Board) raise(f *Followed, now time.Time, x *Finding) {
	k := countKey{x.Rule, x.Severity, f.process.service()}
	c := b.counts[k]
	if c == nil && len(b.counts) < maxCounts {
		b.makeRoom(k.service)
		c = &count{seen: now}
		b.counts[k] = c
	}
	if old := f.has[x.Rule]; c != nil && (old == nil || old.Severity != x.Severity) {
		c.raised++
	}
	f.has[x.Rule] = x
	if x.level() == 0 {
		return // findings of severity info start no alert
	}
	key := f.key(x.Rule)
	a := b.alerts[key]
	if a == nil {
		if len(b.alerts) >= maxAlerts {
			b.leftOut++
			return
		}
		a = &active{id: rand.Text(), since: now, began: x.Since, now: make(map[*Followed]*Finding), had: make(map[*Followed]bool)}
		b.alerts[key] = a
	}
	a.overAt = time.Time{}
	a.now[f], a.had[f] = x, true
	if x.Since.Before(a.began) {
		a.began = x.Since
	}
	if a.worst.on == nil || worse(x, &a.worst.Finding) {
		a.worst = worst{*x, f.process, f}
	}
}

// makeRoom makes room for the counts of a service. If there are too many services, it drops the counts of one service:
// the one that has been without a process for the longest time.
func (b *Board) makeRoom(service string) {
	seen := make(map[string]time.Time)
	for k, c := range b.counts {
		seen[k.service] = c.seen
	}
	if _, ok := seen[service]; ok || len(seen) < maxServices {
		return
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(seen)), func(x, y string) int { return seen[x].Compare(seen[y]) })
	maps.DeleteFunc(b.counts, func(k countKey, _ *count) bool { return k.service == first })
}

// worse reports whether finding x is worse than finding y. The higher severity is worse. If both severities are the
// same, the finding that explains the larger share of busy time is worse.
func worse(x, y *Finding) bool {
	return cmp.Or(cmp.Compare(x.level(), y.level()), cmp.Compare(x.Explains, y.Explains)) > 0
}

// drop records that a process does not have a finding now, or that ddtop cannot read the process.
func (b *Board) drop(f *Followed, now time.Time, rule string, unread bool) {
	delete(f.has, rule)
	a := b.alerts[f.key(rule)]
	if a == nil || a.now[f] == nil {
		return
	}
	delete(a.now, f)
	if len(a.now) == 0 {
		a.overAt, a.unread = now, unread
	}
}

// Step sends the messages that are due. Call it about once a second.
func (b *Board) Step(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range sorting.Sorted(maps.Keys(b.alerts), compareKeys) {
		a := b.alerts[k]
		if !a.decided && now.Sub(a.since) >= gatherFor {
			b.decide(k, a, now)
		}
		if !a.overAt.IsZero() && now.Sub(a.overAt) >= overFor {
			if a.told {
				b.tell(End, k, a, now)
			}
			delete(b.alerts, k)
		}
	}
	b.forget(now)
}

func compareKeys(x, y alertKey) int {
	return cmp.Or(cmp.Compare(x.service, y.service), cmp.Compare(x.env, y.env), cmp.Compare(x.rule, y.rule))
}

// decide sends the start message of an alert. It leaves the message out if the alert's process or finding has reached
// the limit per hour.
func (b *Board) decide(k alertKey, a *active, now time.Time) {
	a.decided, a.named = true, a.worst
	same := b.quotas[k]
	if same == nil {
		same = new(quota)
		b.quotas[k] = same
	}
	on := a.named.on
	both := []*quota{on.quota, same}
	full := false
	for _, q := range both {
		q.forget(now)
		full = full || q.full()
	}
	for _, q := range both {
		for range perAlert {
			if full {
				q.leftOut = append(q.leftOut, now)
			} else {
				q.told = append(q.told, now)
			}
		}
	}
	if full {
		b.leftOut += perAlert
		return
	}
	a.told = true
	if on.capture != nil && !on.left {
		a.capture = on.capture(&a.named.Finding)
	}
	b.tell(Start, k, a, now)
}

// tell makes a message and passes it to Tell.
func (b *Board) tell(what Kind, k alertKey, a *active, now time.Time) {
	if b.Tell == nil {
		return
	}
	w, processes := &a.named, max(len(a.now), 1)
	if what == End {
		processes = len(a.had) + a.gone
		if other := a.worst.on.quota; a.worst.on != w.on {
			// At the end of an alert, another process may have the worst finding. The message names this process only
			// if the process's limit allows one more message. Otherwise it names the same process as the message about
			// the start.
			if other.forget(now); len(other.told) < mostAnHour {
				w, other.told = &a.worst, append(other.told, now)
			}
		}
	}
	w.on.quota.forget(now)
	m := &Message{
		ID: a.id, Event: what, Rule: k.rule, Severity: w.Severity, Title: w.Title, Text: w.Text, Next: w.Next, Endpoint: w.Endpoint,
		Service: k.service, Env: k.env, Host: w.of.Tags.Get("host"), PID: w.of.PID, Program: w.of.Title,
		Processes: processes, Since: a.began, Recording: a.capture.Recording, Page: a.capture.Page,
		LeftOut: len(w.on.quota.leftOut), Tags: w.of.Tags,
	}
	if same := b.quotas[k]; same != nil {
		same.forget(now)
		m.LeftOut = max(m.LeftOut, len(same.leftOut))
	}
	m.TraceID, m.SpanID = traceOf(&w.Finding)
	for f := range b.processes {
		if f.process.service() == k.service && f.process.Tags.Get("env") == k.env {
			m.Followed++
		}
	}
	if what == End {
		until := a.overAt
		m.Until, m.Unread = &until, a.unread
	}
	b.Tell(m)
}

// Finish is called when ddtop ends. It sends the messages that are still waiting: about starts and ends of findings. If
// a finding is still active, Finish sends no end, because the finding may go on without ddtop.
func (b *Board) Finish(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range sorting.Sorted(maps.Keys(b.alerts), compareKeys) {
		a := b.alerts[k]
		if !a.decided {
			b.decide(k, a, now)
		}
		if a.told && !a.overAt.IsZero() {
			b.tell(End, k, a, now)
			delete(b.alerts, k)
		}
	}
}

// forget drops the counts of services that have been without a process for forgetAfter. It also drops the quota of a
// process that is not followed and had no message in the last hour.
func (b *Board) forget(now time.Time) {
	for k, q := range b.quotas {
		if q.forget(now); len(q.told)+len(q.leftOut) == 0 {
			delete(b.quotas, k)
		}
	}
	live, held := make(map[string]bool), make(map[*quota]bool)
	for f := range b.processes {
		live[f.process.service()], held[f.quota] = true, true
	}
	for k, q := range b.ofProcess {
		if q.forget(now); len(q.told)+len(q.leftOut) == 0 && !held[q] {
			delete(b.ofProcess, k)
		}
	}
	for k, c := range b.counts {
		switch {
		case live[k.service]:
			c.seen = now
		case now.Sub(c.seen) > forgetAfter:
			delete(b.counts, k)
		}
	}
}

// Counts returns a Count for each rule that was raised, sorted by service and rule. leftOut is the number of messages
// that were left out because of the limits per hour.
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
	sorting.By(list, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Severity, y.Severity))
	})
	return list, b.leftOut
}
