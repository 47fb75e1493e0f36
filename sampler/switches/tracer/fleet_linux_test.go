package tracer

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

// obeying is a Ruby program that executes orders from its standard input, one order a line. It answers each order after
// it has executed it, and then waits for the next one. For the order "threads", it starts threads and joins them. For
// "fork", it waits for the end of the child.
const obeying = `
require "rbconfig"
STDOUT.sync = true
naps = ->(n) { n.times { sleep 0.0002 } }
puts "ready"
while (line = STDIN.gets)
  word, n = line.split
  case word
  when "sleep" then naps.(n.to_i)
  when "threads" then Array.new(n.to_i) { Thread.new { naps.(10) } }.each(&:join)
  when "fork" then Process.wait(fork { naps.(20); exit!(0) })
  when "exec" then exec(RbConfig.ruby, "--disable=gems", $0)
  when "exit" then exit!(0)
  end
  puts "done"
end
`

// threadSwitches returns how often each thread of a process has lost its CPU since the thread began.
func threadSwitches(t *testing.T, pid int) map[int32]uint64 {
	t.Helper()
	of := make(map[int32]uint64)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		for line := range strings.Lines(string(b)) {
			if what, n, ok := strings.Cut(line, "ctxt_switches:"); ok && (what == "voluntary_" || what == "nonvoluntary_") {
				x, err := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				of[int32(tid)] += x
			}
		}
	}
	return of
}

// unread returns a Target whose offsets are wrong on purpose, so that no words of the process can be read.
func unread(pid int) Target { return Target{PID: pid, ExecutionContext: -1 << 46, Before33: true} }

// obedient is a process that runs the program obeying, with the records that its Feed returned.
type obedient struct {
	*rubytest.Process
	feed *Feed
	// before and begun are the results of threadSwitches just before and just after Follow. after and end are the
	// results of threadSwitches just before and just after the last Drain. They are nil if the process has ended.
	before, begun, after, end map[int32]uint64
	// outs counts, for each thread, the records of the kind Out, which say that the thread has lost its CPU. The field
	// ended has the threads with a record of their end. The field all counts all records.
	outs  map[int32]uint64
	ended map[int32]bool
	all   uint64
}

func (o *obedient) drain(t *testing.T) {
	if err := o.feed.DrainStacks(func(s *bpf.Stack) {
		if int(s.TGID) != o.PID {
			t.Errorf("process %d was given a stack of process %d", o.PID, s.TGID)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := o.feed.Drain(func(r *switches.Record) {
		o.all++
		switch r.Kind {
		case switches.Out:
			o.outs[r.TID]++
		case switches.Exited:
			o.ended[r.TID] = true
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestSeveralProcesses: one goroutine reads the records of all processes. By the kernel's own count, the Feed of each
// process returns exactly one record each time that one of its threads loses its CPU. No record is missing, and none
// belongs to another process. During the test, some processes start threads and join them, fork, exec or exit. If the
// test drains one Feed late, this delays no other Feed.
func TestSeveralProcesses(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	r := rubytest.One(t)
	orders := [][]string{
		{"sleep 200"}, {"threads 8", "sleep 20", "threads 8"}, {"fork", "sleep 30", "fork"}, {"exec", "sleep 30"}, {},
		{"sleep 100", "fork", "threads 4"},
		{"sleep 50", "exit"}, {"threads 6", "exit"},
	}
	all := make([]*obedient, len(orders))
	for i := range orders {
		p := r.Start(t, obeying, rubytest.Options{})
		p.Expect(t, "ready")
		all[i] = &obedient{Process: p, outs: make(map[int32]uint64), ended: make(map[int32]bool)}
	}
	for _, o := range all {
		o.before = settled(t, o.PID)
		var err error
		if o.feed, err = Follow(unread(o.PID)); err != nil {
			t.Fatal(err)
		}
		defer o.feed.Close()
		o.begun = threadSwitches(t, o.PID)
	}
	// The test drains the Feed of the last process only at the end, to show that this delays no other Feed.
	var over atomic.Bool
	var fetching sync.WaitGroup
	fetching.Go(func() {
		for !over.Load() {
			if err := all[0].feed.Fetch(); err != nil {
				t.Error(err)
				return
			}
			for _, o := range all[:len(all)-1] {
				if o.feed.Waiting() {
					o.drain(t)
				}
			}
		}
	})
	defer fetching.Wait()
	defer over.Store(true)
	for turn := range 3 {
		for i, o := range all {
			if turn < len(orders[i]) {
				o.Send(t, orders[i][turn])
			}
		}
		for i, o := range all {
			switch {
			case turn >= len(orders[i]):
			case orders[i][turn] == "exec":
				o.Expect(t, "ready")
			case orders[i][turn] == "exit":
				o.Wait(t)
			default:
				o.Expect(t, "done")
			}
		}
	}
	for i, o := range all {
		if len(orders[i]) == 0 || orders[i][len(orders[i])-1] != "exit" {
			o.after = settled(t, o.PID)
		}
	}
	over.Store(true)
	fetching.Wait()
	for i, o := range all {
		counts, err := o.feed.Counts()
		if err != nil {
			t.Fatal(err)
		}
		o.drain(t)
		if o.after != nil {
			o.end = threadSwitches(t, o.PID)
		}
		if counts.Lost != 0 || counts.Records > o.all {
			t.Errorf("%q: %d records were handed out, the programs made %d, and %d had no room",
				orders[i], o.all, counts.Records, counts.Lost)
		}
		for tid, n := range o.after {
			if least, got := n-o.begun[tid], o.outs[tid]; got < least || !o.ended[tid] && got > o.end[tid]-o.before[tid] {
				t.Errorf("%q: %d records of thread %d, which lost its CPU %d times", orders[i], got, tid, least)
			}
			delete(o.outs, tid)
		}
		// All threads but the main thread have ended, so there must be a record of the end of each.
		for tid := range maps.Keys(o.outs) {
			if !o.ended[tid] {
				t.Errorf("%q: thread %d has records, is not there, and has no record of its end", orders[i], tid)
			}
		}
		if o.after == nil && !o.ended[int32(o.PID)] {
			t.Errorf("%q: the process has ended, and its Feed has no record of that", orders[i])
		}
	}
}

// settled waits until all threads of a process wait in a system call and two consecutive results of threadSwitches are
// equal. It returns this result.
func settled(t *testing.T, pid int) map[int32]uint64 {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); time.Now().Before(deadline); {
		asleep := allWait(pid)
		was := threadSwitches(t, pid)
		if is := threadSwitches(t, pid); asleep && allWait(pid) && maps.Equal(was, is) {
			return is
		}
	}
	t.Fatalf("the threads of process %d do not come to rest", pid)
	return nil
}

// allWait reports whether all threads of a process wait in a system call. If a thread is just about to wait, the kernel
// answers only after the thread has lost its CPU (task_current_syscall in lib/syscall.c).
func allWait(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, name := range files {
		if b, err := os.ReadFile(name); err != nil || strings.HasPrefix(string(b), "running") {
			return false
		}
	}
	return len(files) > 0
}

// passing is a Ruby program with pairs of threads that only wake each other. They begin after the first line of
// standard input.
const passing = `
puts "ready"; STDOUT.flush
STDIN.gets
2.times do
  a, b, c, d = *IO.pipe, *IO.pipe
  Thread.new { loop { a.readbyte; d.write "x" } }
  Thread.new { loop { b.write "x"; c.readbyte } }
end
sleep
`

// TestRingFullOfOne: one process makes more records than fit into the ring and into the queue of its Feed. All records
// that did not fit are counted as lost for this process. Another process loses no record.
func TestRingFullOfOne(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	r := rubytest.One(t)
	busy, calm := r.Start(t, passing, rubytest.Options{}), r.Start(t, obeying, rubytest.Options{})
	var feeds [2]*Feed
	for i, p := range []*rubytest.Process{busy, calm} {
		p.Expect(t, "ready")
		var err error
		if feeds[i], err = Follow(unread(p.PID)); err != nil {
			t.Fatal(err)
		}
		defer feeds[i].Close()
	}
	counts := func(i int) Counts {
		t.Helper()
		c, err := feeds[i].Counts()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	calm.Send(t, "sleep 100")
	calm.Expect(t, "done")
	settled(t, calm.PID)
	counts(0)
	busy.Send(t, "begin")
	var inRing uint64
	for deadline := time.Now().Add(rubytest.Timeout); inRing == 0; inRing = counts(0).Lost {
		if time.Now().After(deadline) {
			t.Fatalf("the ring was not full within %v", rubytest.Timeout)
		}
	}
	if err := feeds[1].Fetch(); err != nil {
		t.Fatal(err)
	}
	if !feeds[0].MayHaveLost() || !feeds[1].MayHaveLost() {
		t.Error("the ring was full, and a Feed does not know that")
	}
	// The ring held more records than one Feed may keep until Drain. So Fetch had to drop some of them.
	if lost := counts(0).Lost; feeds[0].dropped == 0 || lost < inRing+feeds[0].dropped || !feeds[0].Waiting() {
		t.Errorf("%d records lost, %d of them in the ring at least, and %d dropped", lost, inRing, feeds[0].dropped)
	}
	records := uint64(0)
	if err := feeds[1].Drain(func(*switches.Record) { records++ }); err != nil {
		t.Error(err)
	}
	if c := counts(1); c.Lost != 0 || c.Records != records {
		t.Errorf("the calm process has %d records, was given %d, and %d are lost. The busy one lost %d in the ring",
			c.Records, records, c.Lost, inRing)
	}
}
