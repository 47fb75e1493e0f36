package live

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// makes simulates a process that makes records of thread switches. Each number in records is the number of records in
// one second.
func makes(x *switchRun, records ...uint64) {
	b := x.source.budget
	for i, n := range records {
		b.Records.Add(&x.load, int64(i+1)*1e9, 1e9, n, b.ForRecords())
	}
}

// TestSwitchBound: if ddtop's CPU time has a limit, each of two events must end the following of thread switches. One
// event is that the kernel spends more than a tenth of a CPU on it. The other is that the process makes too many
// records for the limit. Too many records for only a moment must not end it. If the process has ractors, following must
// always end.
func TestSwitchBound(t *testing.T) {
	for _, c := range []struct {
		name     string
		overhead float64
		set      func(*switchRun)
		says     string
	}{
		{"much, and no limit", 0, func(x *switchRun) { x.busy = 0.5 }, ""},
		{"little", 0.03, func(x *switchRun) { x.busy = 0.09 }, ""},
		{"much", 0.03, func(x *switchRun) { x.busy, x.rate = 0.12, 81_000 }, "its threads switch 81000 times a second, and to record that took the kernel 12 % of a CPU"},
		{"many records", 0.03, func(x *switchRun) { makes(x, 60_000, 60_000) },
			"its threads switch 60000 times a second, and to follow that takes more than --overhead allows"},
		{"many records for a moment", 0.03, func(x *switchRun) { makes(x, 10, 20_000) }, ""},
		{"ractors", 0, func(x *switchRun) { x.Ractors = true }, "ractors"},
	} {
		x := &switchRun{source: &Source{sampling: sampling{budget: pace.NewBudget(c.overhead)}}, to: exact.NewMachine(func(*exact.Change) {}), quit: make(chan struct{})}
		c.set(x)
		x.judge()
		if x.on() == (c.says != "") || !strings.Contains(x.ended, c.says) {
			t.Errorf("%s: on %v, ended %q", c.name, x.on(), x.ended)
		}
	}
}
