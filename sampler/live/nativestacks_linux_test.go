package live

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
)

// nativeSource opens a process. It returns a function that takes a sample and reads the native stacks of the sample's
// threads.
func nativeSource(t *testing.T, pid int) func() (*sampler.Sample, NativeStacks, *sampler.Dictionary) {
	t.Helper()
	s, err := Open(t.Context(), pid, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return func() (*sampler.Sample, NativeStacks, *sampler.Dictionary) {
		t.Helper()
		sample, err := s.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stacks, err := s.NativeStacks(t.Context(), sample, nil)
		if err != nil {
			t.Fatal(err)
		}
		return sample, stacks, s.Dictionary()
	}
}

// waitsIn has C functions in which threads of the program states.rb wait. A thread is named by the beginning of its
// name. At least one of the functions must be on the thread's native stack.
var waitsIn = []struct {
	thread    string
	functions []string
}{
	{"main", []string{"read", "poll"}},
	{"read-", []string{"read", "poll", "ppoll", "recvfrom"}},
	{"write-", []string{"write", "poll", "ppoll"}},
	{"accept", []string{"accept4", "poll", "ppoll"}},
	{"select", []string{"select"}},
	{"wait-readable", []string{"poll", "ppoll"}},
	{"connect", []string{"connect", "poll", "ppoll"}},
	{"", []string{"pthread_cond_wait", "pthread_cond_timedwait", "poll", "ppoll", "waitpid", "wait4"}},
}

// TestNativeStacksBelowRuby: each native stack of a waiting thread must have the C functions that the thread's
// innermost Ruby frame called. This must hold without a JIT and with each JIT. ddtop must accept all of these stacks.
func TestNativeStacksBelowRuby(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			t.Run(v.Name, func(t *testing.T) {
				p, _ := r.StartStates(t, v.Apply(rubytest.Options{}))
				checkAllFit(t, p.PID, checkWait)
			})
		}
	})
}

// checkAllFit reads native stacks until it has at least one of each thread of a process, and calls check with each
// stack. It fails the test if a stack does not fit the thread's Ruby frames.
func checkAllFit(t *testing.T, pid int, check func(*testing.T, sampler.ThreadInfo, sampler.NativeStack)) {
	t.Helper()
	read := nativeSource(t, pid)
	seen := make(map[sampler.ThreadID]bool)
	for until := time.Now().Add(rubytest.Timeout); ; {
		sample, stacks, dict := read()
		left := ""
		for i := range sample.Threads {
			thread := &sample.Threads[i]
			info, _ := dict.Thread(thread.ID)
			stack, ok := stacks.Ruby[thread.ID]
			if thread.TID == 0 && ok {
				t.Errorf("%s has no native thread and %+v", info.Name, stack)
			}
			if stack.Missing == native.ErrMisfit.Error() {
				t.Errorf("%s: %s", info.Name, stack.Missing)
			}
			if ok && stack.Missing == "" {
				check(t, info, stack)
				seen[thread.ID] = true
			}
			if thread.TID != 0 && !seen[thread.ID] {
				left += " " + info.Name + " (" + stack.Missing + ")"
			}
		}
		if left == "" || t.Failed() {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("no native stacks of%s", left)
		}
	}
}

// callsProgram has a thread for each way in which Ruby code calls other Ruby code through C. Each thread waits at a
// queue inside such a call.
const callsProgram = `
QUEUE = SizedQueue.new(1)
QUEUE << 0
def full(*); QUEUE.push(1); end
class Shop
  define_method(:block) { QUEUE.push(1) }
  define_method(:lambda, &->(*) { QUEUE.push(1) })
  define_method(:method, &method(:full))
  attr_writer :queue
  def plain(*); QUEUE.push(1); end
  def to_s; QUEUE.push(1); end
  def <=>(other); QUEUE.push(1); end
  def each; yield 1; end
  def method_missing(*) ; QUEUE.push(1); end
  def respond_to_missing?(*); false; end
  def initialize(wait = false); QUEUE.push(1) if wait; end
  include Enumerable
end
class Stall < Shop
  def plain(*); super; end
end
class Slots < Struct.new(:slot)
  def coerce(other); QUEUE.push(1); end
end
CALLS = {
  "Method#call of a block" => -> { Kernel.instance_method(:method).bind(Shop.new).call(:block).call },
  "Method#call of a lambda" => -> { Shop.instance_method(:lambda).bind(Shop.new).call },
  "Method#call of a method" => -> { Shop.instance_method(:method).bind(Shop.new).call },
  "Method#call" => -> { Shop.instance_method(:plain).bind(Shop.new).call },
  "Method#call of Proc#call" => -> { proc { QUEUE.push(1) }.method(:call).call },
  "Method#call of send" => -> { Shop.new.method(:send).call(:block) },
  "Method#to_proc" => -> { [1].each(&Object.instance_method(:full).bind(self)) },
  "Symbol#to_proc" => -> { [Shop.new].each(&:block) },
  "super" => -> { Stall.new.plain },
  "send" => -> { Shop.new.send(:block) },
  "send of push" => -> { QUEUE.send(:push, 1) },
  "method_missing" => -> { Shop.new.nobody },
  "method_missing by send" => -> { Shop.new.public_send(:nobody) },
  "new" => -> { Shop.new(true) },
  "interpolation" => -> { "#{Shop.new}" },
  "sort" => -> { [Shop.new, Shop.new].sort },
  "coerce" => -> { 1 + Slots.new },
  "Enumerable" => -> { Shop.new.map { QUEUE.push(1) } },
  "Comparable" => -> { [Shop.new, Shop.new].max },
  "Hash.new" => -> { Hash.new { QUEUE.push(1) }[1] },
  "catch" => -> { catch(:out) { QUEUE.push(1) } },
  "ensure" => -> { begin; raise "x"; rescue; begin; 1; ensure; QUEUE.push(1); end; end },
  "eval" => -> { eval("QUEUE.push(1)") },
  "instance_eval" => -> { Shop.new.instance_eval { QUEUE.push(1) } },
  "instance_exec" => -> { Shop.new.instance_exec(1, &->(*) { QUEUE.push(1) }) },
  "define_method by send" => -> { Shop.new.public_send(:lambda) },
  "Mutex#synchronize" => -> { Mutex.new.synchronize { QUEUE.push(1) } },
  "Fiber" => -> { Fiber.new { QUEUE.push(1) }.resume },
  "Enumerator" => -> { Enumerator.new { |y| QUEUE.push(1) }.next },
}
CALLS.each { |name, call| Thread.new { call.call }.name = name }
sleep 0.01 until QUEUE.num_waiting == CALLS.size
puts "up"; $stdout.flush
$stdin.gets
`

// TestNativeStacksOfEachCall: for each way in which Ruby code calls other Ruby code, the native stack must fit Ruby's
// frames. The test needs a real Ruby, because only Ruby has the C functions between these frames.
func TestNativeStacksOfEachCall(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			t.Run(v.Name, func(t *testing.T) {
				p := r.Start(t, callsProgram, v.Apply(rubytest.Options{}))
				p.Expect(t, "up")
				checkAllFit(t, p.PID, func(*testing.T, sampler.ThreadInfo, sampler.NativeStack) {})
			})
		}
	})
}

func checkWait(t *testing.T, info sampler.ThreadInfo, stack sampler.NativeStack) {
	t.Helper()
	name := info.Name
	if info.Main {
		name = "main"
	}
	for _, w := range waitsIn {
		if strings.HasPrefix(name, w.thread) {
			if !slices.ContainsFunc(stack.Frames,
				func(f sampler.NativeFrame) bool { return slices.Contains(w.functions, f.Name) }) {
				t.Errorf("%s has none of %v: %+v", name, w.functions, stack.Frames)
			}
			return
		}
	}
}

// movingThreads is a program with threads that never stay in one place. They sleep briefly, hand each other objects,
// write and read, all inside C methods that call blocks.
const movingThreads = `
require "socket"
$stdout.sync = true
queues = Array.new(4) { Queue.new }
20.times do |i|
  Thread.new do
    a, b = UNIXSocket.pair
    mutex = Mutex.new
    loop do
      [1, 2].each do |n|
        sleep(0.0005 * (i + n))
        [3].map { |x| queues[i % 4] << x }
        queues[i % 4].pop
        mutex.synchronize { a.write("x"); b.readpartial(1) }
        "abc".gsub(/b/) { sleep 0.0005; "c" }
      end
    end
  end
end
puts "ready"
STDIN.gets`

// computingThreads is a program with threads that call C functions all the time. Each thread loses the GVL in a check
// for interrupts. Most often this check comes right after the C function returns, while its control frame (Ruby's frame
// for the call) still exists.
const computingThreads = `
$stdout.sync = true
4.times { Thread.new { text = "a" * 1000; [1].cycle { text.send(:sum); text.sum } } }
puts "ready"
STDIN.gets`

// raisingThreads is a program with threads that leave C functions by exceptions all the time. Some lose the GVL in a
// check for interrupts while Ruby removes the control frames (Ruby's frames) of these functions.
const raisingThreads = `
$stdout.sync = true
4.times { Thread.new { [1].cycle { begin; Integer("x"); rescue ArgumentError; end } } }
puts "ready"
STDIN.gets`

// TestNativeStacksOfMovingThreads: if a thread did not move while its native stack was read, the stack must fit the
// thread's Ruby frames.
func TestNativeStacksOfMovingThreads(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, c := range []struct {
			name, program string
			enough        int
		}{{"moving", movingThreads, 300}, {"computing", computingThreads, 50}, {"raising", raisingThreads, 200}} {
			t.Run(c.name, func(t *testing.T) { stacksFit(t, r.Start(t, c.program, rubytest.Options{}), c.enough) })
		}
	})
}

// stacksFit reads native stacks until it has accepted at least enough of them. It fails the test if a stack does not
// fit its thread's Ruby frames. At first ddtop may leave out stacks, until a stack shows which C function is Ruby's
// interpreter.
func stacksFit(t *testing.T, p *rubytest.Process, enough int) {
	t.Helper()
	p.Expect(t, "ready")
	read := nativeSource(t, p.PID)
	accepted := 0
	for until := time.Now().Add(rubytest.Timeout); accepted < enough; {
		if time.Now().After(until) {
			t.Fatalf("%d stacks", accepted)
		}
		_, stacks, _ := read()
		for id, stack := range stacks.Ruby {
			switch stack.Missing {
			case "":
				accepted++
			case cstacks.ErrMoves.Error(), cstacks.ErrRubyMoved.Error():
			case native.ErrUnconfirmed.Error():
				if accepted > 0 {
					t.Errorf("after %d stacks, thread %d: %s", accepted, id, stack.Missing)
				}
			default:
				t.Fatalf("after %d stacks, thread %d: %s", accepted, id, stack.Missing)
			}
		}
	}
}

// TestNativeStackIsOfTheSample: a thread can leave its Ruby frames after the sample was taken. In this case, ddtop must
// not add the thread's present native stack to the sample's Ruby frames.
func TestNativeStackIsOfTheSample(t *testing.T) {
	r := rubytest.One(t)
	p := r.Start(t, `
$stdout.sync = true
def first = STDIN.gets
def second = STDIN.gets
puts "first"
first
puts "second"
second`, rubytest.Options{})
	p.Expect(t, "first")
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for until := time.Now().Add(rubytest.Timeout); ; {
		sample, err := s.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stacks, err := s.NativeStacks(t.Context(), sample, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := stacks.Ruby[sample.Threads[0].ID]; ok && x.Missing == "" && len(x.Frames) > 0 {
			p.Send(t, "go on")
			p.Expect(t, "second")
			if stacks, err = s.NativeStacks(t.Context(), sample, nil); err != nil {
				t.Fatal(err)
			}
			if x := stacks.Ruby[sample.Threads[0].ID]; len(x.Frames) > 0 {
				t.Errorf("the thread has moved on: %+v", x)
			}
			return
		}
		if time.Now().After(until) {
			t.Fatal("the thread never waits")
		}
	}
}
