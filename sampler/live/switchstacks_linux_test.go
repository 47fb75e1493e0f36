package live_test

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// calling is a program with a thread that runs three methods in turns and competes with another thread for the GVL. It
// logs when each call began and ended.
const calling = `
require "json"
def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
def call_a(till) = (nil while now < till)
def call_b(till) = (nil while now < till)
def call_c(till) = (nil while now < till)
calls = []
Thread.new { loop { 1000.times { |i| i * i } } }
caller = Thread.new do
  until $stop
    3.times do |i|
      from = now
      [:call_a, :call_b, :call_c][i].then { |name| send(name, from + 3_000_000); calls << {name: name, from: from, to: now} }
    end
  end
end
puts 1; $stdout.flush
$stdin.gets
$stop = true
caller.join
puts calls.to_json; $stdout.flush
$stdin.gets
`

// TestSwitchesReadStacks: between samples, a clock in the kernel copies the stack of the thread that holds the GVL.
// Each copy must have the method that the program ran at that time, according to the program's own log.
func TestSwitchesReadStacks(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	r := rubytest.One(t)
	if !r.AtLeast(3, 0) {
		rubytest.Skip(t, "the program is written for Ruby 3")
	}
	p := r.Start(t, calling, rubytest.Options{})
	p.Line(t)
	s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type seen struct {
		atNS  int64
		stack sampler.StackID
	}
	var all []seen
	held := make(map[sampler.ThreadID]bool)
	const enough = 30
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	err = s.Run(ctx, func(x *sampler.Sample) {
		for i := range x.Changes.List {
			c := &x.Changes.List[i]
			if c.State == sampler.GVLHeld && held[c.Thread] && c.Stack != 0 {
				all = append(all, seen{c.AtNS, c.Stack})
			}
			held[c.Thread] = c.State == sampler.GVLHeld
		}
		if len(all) >= enough {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var calls []struct {
		Name     string
		From, To int64
	}
	p.Send(t, "")
	p.JSON(t, &calls)
	d, compared := s.Dictionary(), 0
	for _, x := range all {
		name := ""
		for id := x.stack; id != 0 && name == ""; {
			caller, frame := d.Stack(id)
			switch f := d.Frame(frame).Name; f {
			case "call_a", "call_b", "call_c", "Object#call_a", "Object#call_b", "Object#call_c":
				name = f[len(f)-len("call_a"):]
			}
			id = caller
		}
		if name == "" {
			continue // the stack is of the other thread, or between two calls
		}
		compared++
		in := false
		for _, c := range calls {
			// the times of changes are multiples of 100 ns
			in = in || c.Name == name && x.atNS >= c.From-100 && x.atNS <= c.To
		}
		if !in {
			t.Errorf("at %d the stack says %s, and the log of the program does not", x.atNS, name)
		}
	}
	// Each of the two threads has the GVL for half of the time. Only one of them logs its calls. So about half of the
	// stacks should be in a call, and fewer than three are an error.
	if compared < 3 {
		t.Errorf("of %d stacks %d are in a call", len(all), compared)
	}
}
