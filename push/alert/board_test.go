package alert

import (
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
)

// told is a Board with a clock that the test moves. It keeps the messages that the board sends.
type told struct {
	*Board
	now      time.Time
	messages []Message
	last     int
}

func newTold() *told {
	t := &told{Board: NewBoard(), now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	t.Tell = func(m *Message) { t.messages = append(t.messages, *m) }
	return t
}

// pass moves the clock forward in steps of a second.
func (t *told) pass(d time.Duration) {
	for range int(d / time.Second) {
		t.now = t.now.Add(time.Second)
		t.Step(t.now)
	}
}

// fresh returns the messages that were sent since the last call of fresh, each as "start rule processes/followed pid".
func (t *told) fresh() (out []string) {
	for _, m := range t.messages[t.last:] {
		out = append(out, fmt.Sprintf("%s %s %d/%d %d", m.Event, m.Rule, m.Processes, m.Followed, m.PID))
	}
	t.last = len(t.messages)
	return out
}

func (t *told) want(tt *testing.T, what string, want ...string) {
	tt.Helper()
	if got := t.fresh(); fmt.Sprint(got) != fmt.Sprint(want) {
		tt.Errorf("%s: told %q, want %q", what, got, want)
	}
}

func tagsOf(service string) push.Tags {
	return push.Tags{{Key: "service", Value: service}, {Key: "env", Value: "prod"}, {Key: "host", Value: "h"}}
}

func (t *told) process(pid int, service string) *Followed {
	return t.Join(Process{push.Process{PID: pid, Title: "puma"}, tagsOf(service)}, nil)
}

func (t *told) set(f *Followed, list ...Finding) { f.Set(t.now, f.process.Tags, list) }

func (t *told) finding(rule, severity string, explains float64) Finding {
	return Finding{Rule: rule, Severity: severity, Title: rule, Since: t.now, Explains: explains}
}

// TestWorkersAreOneAlert: if twenty workers of a service have the same finding, there is only one message. The message
// counts the workers, and names the one with the worst finding. Another service gets its own message.
func TestWorkersAreOneAlert(tt *testing.T) {
	t := newTold()
	var workers []*Followed
	for pid := range 20 {
		workers = append(workers, t.process(100+pid, "shop"))
	}
	other := t.process(7, "mail")
	for i, w := range workers {
		t.set(w, t.finding("gvl_hog", "warn", float64(i)/40), t.finding("note", "info", 1))
		if i%8 == 7 {
			t.pass(time.Second)
		}
	}
	t.set(other, t.finding("gvl_hog", "crit", 0))
	t.pass(gatherFor)
	t.want(tt, "after the start", "start gvl_hog 20/20 119", "start gvl_hog 1/1 7")
	for _, w := range workers[1:] {
		t.set(w)
		t.pass(overFor + time.Second)
	}
	t.want(tt, "while one of them has it")
	workers[0].Leave(t.now, true)
	t.pass(overFor - time.Second)
	t.want(tt, "just before it has been over for a minute")
	t.pass(2 * time.Second)
	t.want(tt, "after that", "end gvl_hog 20/19 119")
	m := t.messages[len(t.messages)-1]
	if m.ID != t.messages[0].ID || m.ID == t.messages[1].ID || m.Until == nil || m.Host != "h" || m.Env != "prod" {
		tt.Errorf("%+v", m)
	}
}

// TestFlappingIsOneAlert: a finding that ends and comes back within a minute is still the same alert.
func TestFlappingIsOneAlert(tt *testing.T) {
	t := newTold()
	f := t.process(1, "shop")
	for range 50 {
		t.set(f, t.finding("db_slow", "warn", 0))
		t.pass(2 * time.Second)
		t.set(f)
		t.pass(overFor - time.Second)
	}
	t.want(tt, "while it flaps", "start db_slow 1/1 1")
	t.pass(2 * time.Second)
	t.want(tt, "after it", "end db_slow 1/1 1")
}

// TestAtMostTenAnHour: in any hour, at most ten messages about a process are sent. The Board counts the other messages.
// If the start of an alert is sent, its end is sent, too. Other processes are not affected.
func TestAtMostTenAnHour(tt *testing.T) {
	t := newTold()
	f, other := t.process(1, "shop"), t.process(2, "mail")
	var at []time.Time
	open := 0
	t.Tell = func(m *Message) {
		t.messages = append(t.messages, *m)
		if m.PID == 1 {
			at = append(at, t.now)
			open += map[Kind]int{Start: 1, End: -1}[m.Event]
		}
	}
	const alerts = 120
	for range alerts {
		t.set(f, t.finding("db_slow", "warn", 0))
		t.pass(gatherFor)
		t.set(f)
		t.pass(overFor)
	}
	for i := range at {
		n := 0
		for _, x := range at[i:] {
			if x.Sub(at[i]) < time.Hour {
				n++
			}
		}
		if n > mostAnHour {
			tt.Fatalf("%d messages in the hour after %v", n, at[i])
		}
	}
	if _, left := t.Counts(); int(left)+len(at) != 2*alerts || len(at) < 2*mostAnHour || open != 0 {
		tt.Errorf("%d told, %d left out, of %d; %d have no end", len(at), left, 2*alerts, open)
	}
	if m := t.messages[mostAnHour]; m.LeftOut == 0 {
		tt.Errorf("the first message after that does not say how many were left out: %+v", m)
	}
	t.fresh()
	t.set(other, t.finding("db_slow", "warn", 0))
	t.pass(gatherFor)
	t.want(tt, "of the other", "start db_slow 1/1 2")
}

// TestAtMostTenOfOneProcess: the limit for one process still holds if ddtop follows the process again and again, even
// if its service changes each time (exec). Another process with the same PID has its own limit.
func TestAtMostTenOfOneProcess(tt *testing.T) {
	t := newTold()
	follow := func(start uint64, service string) {
		f := t.Join(Process{push.Process{PID: 1, StartTicks: start}, tagsOf(service)}, nil)
		t.set(f, t.finding("deadlock", "crit", 1))
		t.pass(gatherFor)
		f.Leave(t.now, true)
	}
	for i := range 20 {
		follow(5, fmt.Sprintf("shop%d", i))
	}
	t.pass(overFor)
	if n := len(t.messages); n != mostAnHour || t.messages[n-1].Event != End {
		tt.Errorf("%d messages: %+v", n, t.messages)
	}
	follow(6, "mail")
	if n := len(t.messages); n != mostAnHour+1 {
		tt.Errorf("%d messages with another process", n)
	}
	t.pass(2 * time.Hour)
	if n := len(t.ofProcess); n != 0 {
		tt.Errorf("%d processes are not forgotten", n)
	}
}

// TestInformationIsNoAlarm: findings of severity info are counted, but cause no message.
func TestInformationIsNoAlarm(tt *testing.T) {
	t := newTold()
	f := t.process(1, "shop")
	t.set(f, t.finding("io_busy", "info", 1))
	t.pass(10 * time.Minute)
	t.want(tt, "of information")
	list, _ := t.Counts()
	if len(list) != 1 || list[0].Active != 1 || list[0].Raised != 1 || list[0].Oldest.IsZero() {
		tt.Errorf("%+v", list)
	}
	t.set(f)
	if list, _ = t.Counts(); len(list) != 1 || list[0].Active != 0 || list[0].Raised != 1 || !list[0].Oldest.IsZero() {
		tt.Errorf("after its end: %+v", list)
	}
	f.Leave(t.now, true)
	t.pass(forgetAfter + 2*time.Second)
	if list, _ = t.Counts(); len(list) != 0 {
		tt.Errorf("the service has ended long ago: %+v", list)
	}
}

// TestServiceThatChanges: if the service tag of a process changes, the alerts of the old service end.
func TestServiceThatChanges(tt *testing.T) {
	t := newTold()
	f := t.process(1, "ruby")
	x := t.finding("deadlock", "crit", 1)
	f.Set(t.now, tagsOf("ruby"), []Finding{x})
	t.pass(gatherFor)
	f.Set(t.now, tagsOf("shop"), []Finding{x})
	t.pass(overFor)
	t.want(tt, "of both", "start deadlock 1/1 1", "start deadlock 1/1 1", "end deadlock 1/0 1")
}

// TestFinish: when ddtop ends, it sends the messages that are still waiting, about starts and ends of findings. If a
// finding is still active, ddtop sends no message about its end.
func TestFinish(tt *testing.T) {
	t := newTold()
	f, g := t.process(1, "shop"), t.process(2, "mail")
	t.set(f, t.finding("deadlock", "crit", 1))
	t.set(g, t.finding("deadlock", "crit", 1))
	f.Leave(t.now, true)
	t.Finish(t.now)
	t.want(tt, "at the end", "start deadlock 1/1 2", "start deadlock 1/0 1", "end deadlock 1/0 1")
}

// TestCaptureIsInBothMessages: each alert has one capture. The message about the start and the message about the end
// name this same capture.
func TestCaptureIsInBothMessages(tt *testing.T) {
	t := newTold()
	n := 0
	f := t.Join(Process{push.Process{PID: 1}, tagsOf("shop")}, func(x *Finding) Capture {
		n++
		return Capture{Recording: x.Rule + ".ddtop", Page: x.Rule + ".html"}
	})
	t.set(f, t.finding("deadlock", "crit", 1))
	t.pass(gatherFor)
	t.set(f)
	t.pass(overFor)
	if n != 1 || len(t.messages) != 2 || t.messages[0].Recording != "deadlock.ddtop" || t.messages[1].Page != "deadlock.html" {
		tt.Errorf("%d captures; %+v", n, t.messages)
	}
}
