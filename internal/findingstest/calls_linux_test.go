package findingstest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// callsText matches what the finding http_slow says about calls to a service. The groups of the expression match the
// lengths of the calls.
var callsText = regexp.MustCompile(
	`^\d+ % of the busy time waits for \S+:443 HTTPS(?:, where \S+ \(pid \d+\) listens)?, [\d.]+ calls per second: half take ≤ ([^,]+), 95 % ≤ ([^,]+), the longest ([^,;]+); ` +
		`now [34] threads, the longest ([≤≥]?[\d.]+ \S+) in .*\(script\.rb:\d+\)$`)

// TestCallLengths: the lengths of calls to a service that ddtop reports must agree with the program's own log. Between
// two calls a thread runs so briefly that hardly a tick sees it. So a length may be off by the time between two samples
// of the thread. For this, the test allows an eighth of the call's length, plus the longest time between two ticks that
// read stacks.
func TestCallLengths(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	for _, r := range chosen(t) {
		t.Run(r.Name, func(t *testing.T) { callLengths(t, r) })
	}
}

// callLengths compares the lengths of calls that ddtop reports with the log of the program, testdata/calls/logged.rb.
func callLengths(t *testing.T, r rubytest.Ruby) {
	t.Parallel()
	p := start(t, r, "calls/logged")
	// When ddtop first raises the finding, all threads may be between two calls. The finding's text then has no calls
	// that are in progress. So the test waits for a text that has them.
	s := watch(t, p.PID, nil, raiseTime, func(f report.StatFinding) bool { return f.ID == "http_slow" && callsText.MatchString(f.Text) }, nil)
	f, ok := s.finding("http_slow")
	if !ok {
		rubytest.TooSeldomNow(t, "not raised; seen: %v", s)
	}
	p.Send(t, "seen")
	var shortest, longest float64
	if _, err := fmt.Sscan(p.Line(t), &shortest, &longest); err != nil {
		t.Fatal(err)
	}
	m := callsText.FindStringSubmatch(f.Text)
	if m == nil {
		t.Fatalf("%q does not match %s", f.Text, callsText)
	}
	about := time.Duration(s.stackGapNS)
	low := time.Duration(shortest*7/8*1e9) - about
	high := time.Duration(longest*9/8*1e9) + about
	for i, what := range []string{"half", "95 %", "the longest", "the longest now"} {
		length, atMost := strings.CutPrefix(strings.TrimPrefix(m[i+1], "≥"), "≤")
		d, err := time.ParseDuration(strings.ReplaceAll(length, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		most := high
		if atMost { // the text has "≤" if ddtop saw neither the beginning of the call nor its end
			most += about
		}
		// A call in progress ("now") may have just begun, so the test does not check how short it is.
		if d > most*33/32 || d < low && what != "the longest now" {
			t.Errorf("%s: %v, the program says %v to %v s, stack ticks came up to %v apart: %s", what, d, shortest, longest, about, f.Text)
		}
	}
	t.Logf("%v to %v s, stack ticks up to %v apart: %s", shortest, longest, about, f.Text)
}

// stays is how long ddtop must continue to name a service that stays slow. Two effects could end the finding after a
// while: ddtop may mistake threads with long waits for readers of a stream, and it samples more slowly. stays is long
// enough for both effects to begin.
const stays = 30 * time.Second

// TestSlowServiceStays: all threads call a slow service again and again. ddtop names the service, and goes on naming
// it.
func TestSlowServiceStays(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := start(t, rubytest.One(t), "calls/again")
	gone, all := "", false
	s := watch(t, p.PID, nil, stays, func(f report.StatFinding) bool {
		if f.ID == "http_slow" && f.UntilNS != nil && gone == "" {
			gone = f.Text
		}
		all = all || f.ID == "http_slow" && strings.Contains(f.Text, "8 threads")
		return gone != ""
	}, nil)
	f, ok := s.finding("http_slow")
	if !ok || gone != "" || !all {
		t.Errorf("raised: %v, of all 8 threads: %v, gone: %q; seen: %v", ok, all, gone, s)
	}
	t.Logf("%d samples: %s", s.stat.Samples, f.Text)
}
