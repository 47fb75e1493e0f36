package ruby

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// heldQueues is a program whose running code has Queues in three kinds of variables: instance variables, local
// variables, and variables around a block whose method has returned. Other Queues are only in constants, in variables
// of classes and in a global variable. No thread waits for any of the Queues.
const heldQueues = `
def queue(n, queue = Queue.new)
  n.times { queue << 1 }
  queue
end
JOBS = queue(44)
module Shop
  module Workers
    QUEUE = queue(55, SizedQueue.new(100))
    EMPTY = Module.new { const_set(:Inner, Module.new { const_set(:DEEP, Queue.new) }) }
  end

  class Audit
    @@lines = queue(66)
    @late = queue(77)
  end
end
$mails = queue(88)
class Mailer
  def initialize
    @jobs = Queue.new
    11.times { @jobs << 1 }
  end

  def run
    sleep
  end
end

def local
  mails = Queue.new
  22.times { mails << 1 }
  sleep
end

def around
  rest = Queue.new
  33.times { rest << 1 }
  Thread.new { sleep }
end

mailer = Mailer.new
threads = [Thread.new { mailer.run }, Thread.new { local }, around]
sleep 0.001 until threads.all? { |t| t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`

// TestLists: ddtop finds the Queues in variables of running code, in constants, in variables of classes and in global
// variables, with their names. Their lengths equal Ruby's.
func TestLists(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, heldQueues, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		want := map[int64]string{11: "@jobs", 22: "mails", 33: "", 44: "JOBS", 55: "Shop::Workers::QUEUE",
			0: "Shop::Workers::EMPTY::Inner::DEEP", 66: "Shop::Audit.@@lines", 77: "Shop::Audit.@late", 88: "$mails"}
		var lists []sampler.List
		for deadline := time.Now().Add(rubytest.Timeout); len(lists) != len(want); {
			if rd.Read(sampler.StackTick, &s) == nil {
				var q sampler.Queues
				rd.Pools(&q)
				lists = q.Lists
			}
			if time.Now().After(deadline) {
				rubytest.TooSeldomNow(t, "Queues %+v, want %v", lists, want)
			}
		}
		for _, l := range lists {
			if name, ok := want[l.Length]; !ok || l.Name != name || l.Object == 0 {
				t.Errorf("%+v, want one of %v", l, want)
			}
		}
	})
}

// usedQueues is a program with Queues that grow. If a thread puts into a Queue or takes from it, the thread's name
// contains the Queue's name. Two threads have the name "neither": both of them put into a Queue and also take from it.
// A third thread only reads a Queue's size, and a fourth uses an Array.
const usedQueues = `
def thread(name)
  Thread.new { Thread.current.name = name; loop { yield; sleep 0.001 } }
end
JOBS = Queue.new
OTHERS = Queue.new
$mails = Queue.new
class Shop
  @@orders = SizedQueue.new(100_000)
  def initialize
    @lines = Queue.new
    @none = []
  end

  def start
    thread("put $mails, @@orders") { $mails << 1; @@orders.push(1); sleep 0.01 }
    thread("take @@orders") { @@orders.shift; sleep 0.1 }
    thread("put @lines") { @lines.enq(1); sleep 0.01 }
    thread("take @lines") { @lines.pop; sleep 0.1 }
    thread("neither @none") { @none.push(1); sleep 0.01 }
  end
end
thread("put JOBS") { JOBS << 1; sleep 0.01 }
thread("take JOBS") { JOBS.pop; sleep 0.1 }
thread("neither OTHERS") { OTHERS << 1; OTHERS.pop; sleep 0.01 }
thread("neither size") { JOBS.size; sleep 0.01 }
thread("neither both") { JOBS << JOBS.pop; sleep 0.01 }
local = Queue.new
thread("put local") { local.push(1); sleep 0.01 }
Shop.new.start
puts "ready"; $stdout.flush; $stdin.gets`

// TestQueueUsers: if a Queue grows, ddtop names the threads that use it: the threads whose code puts into this Queue or
// takes from it.
func TestQueueUsers(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		t.Parallel()
		p := ruby.Start(t, usedQueues, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		want := map[string]bool{"put JOBS": true, "put $mails": true, "put Shop.@@orders": true, "put @lines": true, "put local": true,
			"take JOBS": true, "take Shop.@@orders": true, "take @lines": true}
		got := make(map[string]bool)
		said := func(what, queue string, ids []sampler.ThreadID) {
			for _, id := range ids {
				info, _ := rd.dict.Thread(id)
				names := strings.TrimPrefix(info.Name, what)
				if !strings.HasPrefix(info.Name, what) || !strings.Contains(names, strings.TrimPrefix(queue, "Shop.")) {
					t.Fatalf("%q is said to %s%s", info.Name, what, queue)
				}
				got[what+queue] = true
			}
		}
		next := time.Now()
		for deadline := time.Now().Add(rubytest.Timeout); !maps.Equal(got, want); {
			time.Sleep(time.Until(next))
			next = next.Add(100 * time.Millisecond)
			if rd.Read(sampler.StackTick, &s) == nil {
				var q sampler.Queues
				rd.Pools(&q)
				for _, l := range q.Lists {
					said("put ", l.Name, l.Putters)
					said("take ", l.Name, l.Takers)
				}
			}
			if time.Now().After(deadline) {
				rubytest.TooSeldomNow(t, "said %v, want %v", got, want)
			}
		}
	})
}

// usedArrays is a program with Arrays that grow. Threads take elements from the Arrays in wantedArrays, and are named
// after them. No thread takes from the other Arrays, but code near them looks similar. For example, it takes from
// another Array in the same method, or takes elements in a computation.
const usedArrays = `
def thread(name)
  Thread.new { Thread.current.name = name; loop { yield; sleep 0.001 } }
end
JOBS = []
LOG = []
$mails = []
class Shop
  NOTES = []
  @@orders = []
  @late = []
  class << self
    def late
      @late.shift
      sleep 0.1
    end

    def fill
      [JOBS, LOG, $mails, NOTES, @@orders, @late].each { |a| a << 1 }
    end
  end

  def initialize
    @lock, @filled, @lines, @log = Mutex.new, ConditionVariable.new, [], []
    thread("fill") { @lines << 1; @log << 1; Shop.fill; sleep 0.01 }
    thread("take @lines") { line = @lock.synchronize { @lines.shift }; @log << line; sleep 0.1 }
    thread("take Shop::NOTES") { NOTES.pop; @log << Queue.new.length; sleep 0.1 }
    thread("take Shop.@@orders") { @@orders.shift; sleep 0.1 }
    thread("none") { @log.size; Queue.new.push(1).pop; sleep 0.01 }
  end
end
Shop.new
thread("take JOBS") { JOBS.shift; sleep 0.1 }
thread("take $mails") { $mails.pop; sleep 0.1 }
thread("take Shop.@late") { Shop.late }
local, other = [], []
thread("fill local") { local << 1; other << 1; sleep 0.01 }
lock, filled = Mutex.new, ConditionVariable.new
thread("take local") { lock.synchronize { filled.wait(lock, 0.1) if local.size < 0; local.shift }; other << 1; sleep 0.1 }
puts "ready"; $stdout.flush; $stdin.gets`

// TestArraysAsQueues: a program can use an Array as a queue: the Array grows, and code that waits takes from it. ddtop
// shows such an Array and the threads that run this code.
func TestArraysAsQueues(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		t.Parallel()
		p := ruby.Start(t, usedArrays, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		want := map[string]bool{"JOBS": true, "$mails": true, "Shop::NOTES": true, "Shop.@@orders": true, "Shop.@late": true, "@lines": true, "": true}
		got := make(map[string]bool)
		next := time.Now()
		for deadline := time.Now().Add(rubytest.Timeout); !maps.Equal(got, want); {
			time.Sleep(time.Until(next))
			next = next.Add(100 * time.Millisecond)
			if rd.Read(sampler.StackTick, &s) == nil {
				var q sampler.Queues
				rd.Pools(&q)
				for _, l := range q.Lists {
					for _, id := range l.Takers {
						info, _ := rd.dict.Thread(id)
						name := strings.TrimPrefix(info.Name, "take ")
						switch {
						case name == l.Name && l.Array, name == "local" && l.Name == "":
							got[l.Name] = true
						// ddtop may not have read the name of the class yet
						case l.Name != "" && !strings.HasSuffix(name, l.Name):
							t.Fatalf("%q is said to take from %+v", info.Name, l)
						}
					}
				}
			}
			if time.Now().After(deadline) {
				rubytest.TooSeldomNow(t, "said %v, want %v", got, want)
			}
		}
	})
}
