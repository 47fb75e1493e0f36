package foreigntest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// These tests run Rubies for another kind of machine: Debian's arm64 builds under the emulator qemu-user. ddtop must
// use the memory layout of the target's machine, not of its own machine. The target's ELF file names the machine. In
// the emulator, the Ruby's memory has the same addresses as on an arm64 machine. Each thread of the Ruby is a thread of
// the emulator, and each system call a call of the emulator.

// TestOtherMachine: if Ruby is built for another kind of machine, ddtop reads every thread of the parked program just
// as Ruby itself reports it.
func TestOtherMachine(t *testing.T) {
	rubytest.EachForeign(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel() // an emulated Ruby keeps one CPU busy while it starts
		p, truth := r.StartParked(t, rubytest.Options{RubyArgs: []string{"--disable=gems"}})
		f := lookAt(p.PID, truth)
		f.report(t, r.Name)
		got := f.Process
		if got.Machine != "aarch64" || got.RubyVersion != truth.Ruby || got.RubyDescription != truth.Description || got.LayoutNote != "" {
			t.Errorf("read %s of machine %s, %q, %q; Ruby says %s, %q", got.RubyVersion, got.Machine, got.RubyDescription,
				got.LayoutNote, truth.Ruby, truth.Description)
		}
		if got.Title != "parked.rb" {
			t.Errorf("titled %q", got.Title)
		}
	})
}

// TestOtherMachineStates: Ruby is built for another kind of machine. ddtop must report the states that the program
// itself names for its threads. For this, ddtop must read the scheduler and the locks in that machine's layout, and the
// kernel's data about the emulator's threads.
func TestOtherMachineStates(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachForeign(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		lookAtStates(t, r)
	})
}

// TestMusl: if Ruby is linked with the C library musl (as on Alpine), ddtop reads every thread of the parked program as
// Ruby itself reports it.
func TestMusl(t *testing.T) {
	rubytest.EachMusl(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{RubyArgs: []string{"--disable=gems"}})
		f := lookAt(p.PID, truth)
		f.report(t, r.Name)
		if got := f.Process; got.RubyVersion != truth.Ruby || got.LayoutNote != "" || got.Title != "parked.rb" {
			t.Errorf("read %s, %q, titled %q", got.RubyVersion, got.LayoutNote, got.Title)
		}
	})
}

// TestMuslStates: if Ruby is linked with the C library musl, ddtop reports the states that the program itself names for
// its threads.
func TestMuslStates(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachMusl(t, lookAtStates)
}

// TestMuslRequests: if Ruby is linked with the C library musl, ddtop reports which requests threads serve, and no
// request after it has ended. ddtop finds requests in thread-local variables. musl and glibc place these differently.
func TestMuslRequests(t *testing.T) {
	rubytest.EachMusl(t, func(t *testing.T, r rubytest.Ruby) {
		const threads = 5
		p := r.Start(t, `
$stdout.sync = true
ready, go = Queue.new, Queue.new
app = ->(env) { ready << 1; go.pop }
served = Array.new(5) do |i|
  Thread.new do
    Thread.current.name = "worker #{i}"
    app.call({ "REQUEST_METHOD" => "GET", "PATH_INFO" => "/orders/#{i}", "SERVER_PROTOCOL" => "HTTP/1.1" })
    sleep
  end
end
5.times { ready.pop }
puts "ready"
gets
go.close
Thread.pass until served.none? { |t| t.backtrace.any? { |l| l.include?("pop") } }
puts "over"
gets
`, rubytest.Options{RubyArgs: []string{"--disable=gems"}})
		p.Expect(t, "ready")
		if got := servedPaths(t, p.PID); len(got) != threads {
			t.Errorf("%d threads serve requests: %v", len(got), got)
		} else {
			for i := range threads {
				if name, want := fmt.Sprintf("worker %d", i), fmt.Sprintf("/orders/%d", i); got[name] != want {
					t.Errorf("%s serves %q, want %q", name, got[name], want)
				}
			}
		}
		p.Send(t, "go on")
		p.Expect(t, "over")
		if got := servedPaths(t, p.PID); len(got) != 0 {
			t.Errorf("after the end %v", got)
		}
	})
}

// servedPaths takes one sample of a process and returns the path of each thread's request, by the thread's name.
func servedPaths(t *testing.T, pid int) map[string]string {
	t.Helper()
	s, err := live.Open(t.Context(), pid, live.Options{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	paths := make(map[string]string)
	if err := s.Run(ctx, func(sample *sampler.Sample) {
		for i := range sample.Threads {
			info, _ := s.Dictionary().Thread(sample.Threads[i].ID)
			if w := s.Dictionary().Work(sample.Threads[i].Serving.Work); w.Number != 0 {
				paths[info.Name] = w.Values
			}
		}
		cancel()
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// lookAtStates samples a program until ddtop has seen each thread in all states that the program names for it.
func lookAtStates(t *testing.T, r rubytest.Ruby) {
	p, said := r.StartStates(t, rubytest.Options{RubyArgs: []string{"--disable=gems"}}, rubytest.GroupSpin)
	ctx, cancel := context.WithTimeout(t.Context(), r.Timeout())
	defer cancel()
	s, err := live.Open(ctx, p.PID, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// ddtop must see each thread in the first state of its list. Threads that compute take turns. So ddtop must see
	// such a thread in each state of its list Must, too.
	open := make(map[string][]string)
	for _, th := range said.Threads {
		open[th.Name] = slices.Clone(th.States[:1])
		open[th.Name] = append(open[th.Name], th.Must...)
	}
	last := make(map[string]string)
	c := gvl.NewClassifier(s.Process(), s.Dictionary())
	err = s.Run(ctx, func(sample *sampler.Sample) {
		for i, st := range c.Classify(sample) {
			info, _ := s.Dictionary().Thread(sample.Threads[i].ID)
			last[info.Name] = gvl.Describe(st, s.Dictionary())
			left := slices.DeleteFunc(open[info.Name], func(want string) bool { return want == st.State.String() })
			if open[info.Name] = left; len(left) == 0 {
				delete(open, info.Name)
			}
		}
		if len(open) == 0 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, left := range open {
		rubytest.TooSeldom(t, "%s: never seen %v; last %s", name, left, last[name])
	}
	for _, th := range said.Threads {
		if info := last[th.Name]; info == "" {
			rubytest.TooSeldom(t, "%s: never seen", th.Name)
		}
	}
	if len(said.Threads) < 20 {
		t.Errorf("the program has %d threads only", len(said.Threads))
	}
}
