package live_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestExactForgets: after a thread has ended, the changes of the GVL in samples must not contain it. The threads of
// this test end in different ways: by themselves, killed at any place, by another thread's exception, or in a child
// process.
func TestExactForgets(t *testing.T) {
	const program = `$stdout.sync = true
Thread.report_on_exception = false
keeps = Array.new(2) { Thread.new { sleep } }
puts "ready"
$stdin.gets
ends = [
  -> { 300.times { Thread.new { sleep 0 }.join } },
  -> { 60.times { t = Array.new(4) { Thread.new { loop { Thread.pass } } }; Thread.pass; t.each(&:kill).each(&:join) } },
  -> { 100.times { t = Thread.new { sleep }; Thread.pass; t.raise("x"); t.join rescue nil } },
  -> { 100.times { Thread.new { Thread.exit }; Thread.new { Thread.current.kill }.join } },
  -> { 10.times { Process.wait(fork { Thread.new { sleep 0 }.join; exit! }) } }
]
ends.map { |e| Thread.new(&e) }.each(&:join)
sleep 0.001 until Thread.list.size == 3
puts "done"
$stdin.gets`
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, program, rubytest.Options{})
		if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		c, over := newChanging(t), make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		sent, settled := false, false
		var doneNS int64
		if err := s.Run(ctx, func(x *sampler.Sample) {
			c.take(x)
			switch {
			case c.known == 1 && !sent:
				sent = true
				go func() { p.Send(t, "go"); p.Expect(t, "done"); close(over) }()
			case doneNS != 0 && c.toNS > doneNS:
				// A native thread ends a little after its Ruby thread. If it still exists at this sample, the next
				// sample is checked.
				if settled = len(c.missing(p.PID)) == 0; settled {
					cancel()
				}
			case doneNS == 0:
				select {
				case <-over:
					doneNS = x.TimeNS
				default:
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		report, err := s.EndExact()
		if err != nil || report.Wrong || report.Ended != "" || report.Lost != 0 || report.Checks.Unclosed != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if !settled || len(c.states) < 3 {
			t.Errorf("%d threads are told of, and these have ended: %v", len(c.states), c.missing(p.PID))
		}
		rubytest.Report(t, "%d changes; %+v", c.changes, report)
	})
}

// missing returns the native threads that still have a state in the changes, although the kernel does not list them.
func (c *changing) missing(pid int) []string {
	var tids []string
	for tid := range c.states {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid)); err != nil {
			tids = append(tids, strconv.Itoa(int(tid)))
		}
	}
	return tids
}
