package live_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// adversary is a program that makes it hard for ddtop to follow thread switches. It reads commands, such as "fork", and
// prints a line after it has executed each.
const adversary = `
$stdout.sync = true
Thread.new { loop { 1000.times { |i| i * i }; sleep 0.001 } }
puts 1
while line = $stdin.gets
  case line.chomp
  when "fork"
    1000.times { Process.wait(fork { exit! }) }
  when "pipes" # two threads that do nothing but wake each other
    a, b, c, d = *IO.pipe, *IO.pipe
    n = 20_000
    other = Thread.new { n.times { a.readbyte; d.write "x" } }
    n.times { b.write "x"; c.readbyte }
    other.join
  when "threads"
    2000.times { Thread.new { Thread.pass }.join }
  when "exec"
    exec RbConfig.ruby, "-e", "sleep 60"
  end
  puts "done"
end
`

// maxFailed returns how many words of memory may be unreadable in the given number of records. A record has ten words,
// and one word in a hundred may be unreadable.
func maxFailed(records uint64) uint64 { return records / 10 }

// TestSwitchesAdversaries: a process forks a thousand children. Then its threads only wake each other, and then threads
// begin and end quickly. ddtop must follow the process all the time. A page of memory can be missing for a moment, for
// example during a fork, so a few words may be unreadable. When the process replaces itself by another program, ddtop
// must stop following it.
func TestSwitchesAdversaries(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Long(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, adversary, rubytest.Options{})
		p.Expect(t, "1")
		s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		began := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			known := false
			ended <- s.Run(context.Background(), func(x *sampler.Sample) {
				if x.Changes.Known() && !known {
					known = true
					close(began)
				}
				for i := range x.Changes.List {
					if c := &x.Changes.List[i]; c.AtNS > x.TimeNS || c.AtNS < x.Changes.FromNS {
						t.Errorf("a change at %d, between %d and %d", c.AtNS, x.Changes.FromNS, x.Changes.ToNS)
					}
				}
			})
		}()
		select {
		case <-began:
		case <-time.After(rubytest.Timeout):
			t.Fatalf("%+v", s.SwitchStatus())
		}
		for _, what := range []string{"fork", "pipes", "threads"} {
			before := s.SwitchStatus()
			p.Send(t, what)
			p.Expect(t, "done")
			st := s.SwitchStatus()
			rubytest.Report(t, "%s: %d records, %d lost, %.0f ms of the kernel", what, st.Records-before.Records, st.Lost-before.Lost, float64(st.BusyNS-before.BusyNS)/1e6)
			if !st.On || st.Failed > maxFailed(st.Records) {
				t.Errorf("%s: %+v", what, st)
			}
		}
		p.Send(t, "exec")
		select {
		case err := <-ended:
			if !errors.Is(err, sampler.ErrEnded) {
				t.Error(err)
			}
		case <-time.After(rubytest.Timeout):
			t.Fatal("it is followed although it has replaced itself")
		}
		if st := s.SwitchStatus(); st.On || st.Ended == "" {
			t.Errorf("after exec: %+v", st)
		}
	})
}
