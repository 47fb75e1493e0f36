package alert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
)

// mostInAnHour returns the largest number of messages in any period of an hour.
func mostInAnHour(at []time.Time) (most int) {
	for i := range at {
		n := 0
		for _, x := range at[i:] {
			if x.Sub(at[i]) < time.Hour {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestRestartsAreBounded: a service crashes again and again, so its process always has a new PID. Its finding still
// causes at most ten messages an hour. The Board counts the other messages.
func TestRestartsAreBounded(tt *testing.T) {
	t := newTold()
	var at []time.Time
	t.Tell = func(*Message) { at = append(at, t.now) }
	const alerts = 100
	for pid := range alerts {
		f := t.process(100+pid, "shop")
		t.set(f, t.finding("deadlock", "crit", 1))
		t.pass(gatherFor)
		f.Leave(t.now, true)
		t.pass(overFor)
	}
	if most := mostInAnHour(at); most != mostAnHour {
		tt.Errorf("%d messages in an hour", most)
	}
	if _, left := t.Counts(); int(left)+len(at) != 2*alerts {
		tt.Errorf("%d told and %d left out, of %d", len(at), left, 2*alerts)
	}
	t.pass(2 * time.Hour)
	if len(t.quotas) != 0 {
		tt.Errorf("%d quotas are kept", len(t.quotas))
	}
}

// TestNamedProcessIsBounded: a message counts towards the limit of the process that it names. The start of an alert may
// name one process, and the end another one that has a worse finding. In the test, one process has the worst finding of
// many alerts, but other processes had these findings first.
func TestNamedProcessIsBounded(tt *testing.T) {
	t := newTold()
	worst := t.process(1, "shop")
	var at []time.Time
	told := 0
	t.Tell = func(m *Message) {
		if told++; m.PID == 1 {
			at = append(at, t.now)
		}
	}
	rules := []string{"db_slow", "gvl_hog", "lock_convoy", "io_busy", "http_slow", "pool_wait", "dns_slow", "redis_slow"}
	for i, rule := range rules {
		first := t.process(10+i, "shop")
		t.set(first, t.finding(rule, "warn", .1))
		// For every second rule, the start message is sent now. So it names the process that had the finding first.
		t.pass(gatherFor * time.Duration(i%2))
		t.set(worst, t.finding(rule, "crit", 1))
		t.pass(gatherFor)
		t.set(first)
		t.set(worst)
		t.pass(overFor)
	}
	if most := mostInAnHour(at); most > mostAnHour || most < mostAnHour/2 {
		tt.Errorf("%d messages name the process in an hour", most)
	}
	if told%2 != 0 {
		tt.Errorf("%d messages: a start has no end", told)
	}
}

// TestUnreadIsNotOver: if an alert ends only because ddtop cannot read its process, the message must not say that the
// finding is over.
func TestUnreadIsNotOver(tt *testing.T) {
	for _, ended := range []bool{false, true} {
		t := newTold()
		f := t.process(1, "shop")
		t.set(f, t.finding("deadlock", "crit", 1))
		t.pass(gatherFor)
		f.Leave(t.now, ended)
		t.pass(overFor)
		m := t.messages[len(t.messages)-1]
		text := m.Headline() + m.Body()
		if m.Event != End || m.Unread == ended || strings.Contains(text, "over: ") != ended || strings.Contains(text, "could not read") == ended {
			tt.Errorf("ended %v: %+v: %s", ended, m, text)
		}
	}
}

// TestStopMakesNoCapture: if ddtop ends soon after a finding began, the start message is still waiting, and ddtop sends
// it at its end. This message names no capture, because ddtop ends before it could make one.
func TestStopMakesNoCapture(tt *testing.T) {
	t := newTold()
	f := t.Join(Process{push.Process{PID: 1}, tagsOf("shop")}, func(*Finding) Capture {
		tt.Error("a capture was ordered")
		return Capture{Recording: "x"}
	})
	t.set(f, t.finding("deadlock", "crit", 1))
	f.Stop()
	t.Finish(t.now)
	if len(t.messages) != 1 || t.messages[0].Event != Start || t.messages[0].Recording != "" {
		tt.Errorf("%+v", t.messages)
	}
}

// TestForksDoNotPileUp: an alert may go on for days while its processes end and new ones come. The board counts the
// processes that have ended, but must not keep an entry in memory for each of them.
func TestForksDoNotPileUp(tt *testing.T) {
	t := newTold()
	stays := t.process(1, "shop")
	t.set(stays, t.finding("deadlock", "crit", 1))
	const forks = 1000
	for pid := range forks {
		f := t.process(2+pid, "shop")
		f.capture = func(*Finding) Capture { return Capture{} }
		t.set(f, t.finding("deadlock", "warn", 0))
		t.pass(time.Second)
		f.Leave(t.now, true)
		if f.capture != nil {
			tt.Fatal("the alert keeps the samples of a process that was left")
		}
	}
	for _, a := range t.alerts {
		if len(a.had) != 1 || len(a.now) != 1 {
			tt.Errorf("%d processes are kept", len(a.had))
		}
	}
	t.set(stays)
	t.pass(overFor)
	if m := t.messages[len(t.messages)-1]; m.Event != End || m.Processes != forks+1 {
		tt.Errorf("%+v", m)
	}
}

// TestServicesDoNotPileUp: services come and go, and the number of services with counts is limited. A new service
// replaces a service without a process. A service that has a process stays.
func TestServicesDoNotPileUp(tt *testing.T) {
	t := newTold()
	stays := t.process(1, "shop")
	t.set(stays, t.finding("deadlock", "crit", 1))
	last := ""
	for pid := range 3 * maxServices {
		last = fmt.Sprint("job", pid)
		f := t.process(2+pid, last)
		t.set(f, t.finding("deadlock", "crit", 1))
		t.pass(time.Second)
		f.Leave(t.now, true)
	}
	names := make(map[string]int64)
	list, _ := t.Counts()
	for _, c := range list {
		names[c.Service] = c.Raised
	}
	if len(names) > maxServices || names["shop"] != 1 || names[last] != 1 {
		tt.Errorf("figures of %d services: %v", len(names), names)
	}
}
