package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// stampsCode defines the Ruby method stamp. It starts threads that write the current time (a stamp) into a file again
// and again, one file for each thread. Ruby code reads the clock, so the thread holds the GVL at the time of a stamp.
// Between two stamps the thread sleeps or writes.
const stampsCode = `$stdout.sync = true
def stamp
  3.times do |i|
    Thread.new do
      Thread.current.name = "stamps #{i}"
      File.open("stamps-#{Process.pid}-#{Thread.current.native_thread_id}", "a") do |f|
        f.sync = true
        loop do
          f.puts Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
          200.times { |n| n * n }
          sleep 0.001
        end
      end
    end
  end
end
`

// stamping is a program whose threads write the current time again and again, until it gets a line of input.
const stamping = stampsCode + `stamp
puts "ready"
$stdin.gets`

// stampingBesideWork is like stamping, with one more thread that computes half of the time. Because of it, the threads
// that write stamps have to wait for the GVL, even if the machine rarely lets them run.
const stampingBesideWork = stampsCode + `stamp
Thread.new do
  loop do
    until_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) + 5_000_000
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) < until_ns
    sleep 0.005
  end
end
puts "ready"
$stdin.gets`

// startStamping starts a program that writes stamps.
func startStamping(t *testing.T, r rubytest.Ruby, program string) *rubytest.Process {
	t.Helper()
	if !r.AtLeast(3, 1) {
		rubytest.Skip(t, "Thread#native_thread_id came with 3.1")
	}
	return r.Start(t, program, rubytest.Options{})
}

// stampsOf returns the times that the threads of a process have written so far, by native thread id.
func stampsOf(t *testing.T, p *rubytest.Process, pid int) map[int32][]int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.HostDir, fmt.Sprintf("stamps-%d-*", pid)))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[int32][]int64)
	for _, file := range files {
		tid, err := strconv.Atoi(file[strings.LastIndexByte(file, '-')+1:])
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		for _, line := range lines[:len(lines)-1] { // the last line may be incomplete
			ns, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			out[int32(tid)] = append(out[int32(tid)], ns)
		}
	}
	return out
}

// moreStamps waits until each living thread of a process has written more stamps. The number of the thread with the
// fewest stamps must grow by n.
func moreStamps(t *testing.T, p *rubytest.Process, pid, n int) {
	t.Helper()
	least := func() int {
		least, threads := 1<<30, 0
		for tid, list := range stampsOf(t, p, pid) {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid)); err == nil { // other files are from before an exec
				least, threads = min(least, len(list)), threads+1
			}
		}
		if threads < 3 {
			return 0
		}
		return least
	}
	before := least()
	until(t, func() bool { return least() >= before+n }, "%d more stamps of process %d", n, pid)
}

// exactSpan is a time span in which a recording has all changes of the GVL.
type exactSpan struct {
	fromNS, toNS int64
	changes      map[int32][]sampler.Change
}

// spansIn returns the time spans in which a recording has all changes of the GVL. lastNS is the time of its last
// sample.
func spansIn(t *testing.T, path string) (spans []exactSpan, lastNS int64) {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last := int64(0)
	err = r.Run(t.Context(), func(s *sampler.Sample) {
		lastNS = s.TimeNS
		c := &s.Changes
		if !c.Known() {
			return
		}
		if c.Fresh || len(spans) == 0 || spans[len(spans)-1].toNS != c.FromNS {
			spans = append(spans, exactSpan{fromNS: c.FromNS, changes: make(map[int32][]sampler.Change)})
		}
		x := &spans[len(spans)-1]
		x.toNS = c.ToNS
		for _, one := range c.List {
			if one.AtNS < last {
				t.Errorf("%s: a change of thread %d is %d ns before the last one", path, one.TID, last-one.AtNS)
			}
			last = one.AtNS
			x.changes[one.TID] = append(x.changes[one.TID], one)
		}
	})
	if err != nil && err != sampler.ErrEnded {
		t.Fatal(err)
	}
	return spans, lastNS
}

// checkStamps checks a recording against the times (stamps) at which threads read the clock. By the recording's changes
// of the GVL, each thread must hold the GVL at these times. It returns the number of stamps within the spans in which
// the recording has all changes.
func checkStamps(t *testing.T, path string, stamps map[int32][]int64) (known int) {
	t.Helper()
	spans, _ := spansIn(t, path)
	wrong := 0
	for _, x := range spans {
		for tid, list := range stamps {
			changes := x.changes[tid]
			for _, ns := range list {
				if ns <= x.fromNS || ns > x.toNS {
					continue
				}
				at, found := slices.BinarySearchFunc(changes, ns, func(c sampler.Change, ns int64) int {
					if c.AtNS <= ns {
						return -1
					}
					return 1
				})
				if at < len(changes) && changes[at].Doubtful {
					continue // records were lost before this change, and the recording marks this
				}
				known++
				if found || at == 0 || changes[at-1].State != sampler.GVLHeld {
					state := "not known"
					if at > 0 {
						state = fmt.Sprintf("%v since %v", changes[at-1].State, time.Duration(ns-changes[at-1].AtNS))
					}
					if wrong++; wrong <= 5 {
						t.Errorf("%s: thread %d ran Ruby %v after the beginning, and is %s", filepath.Base(path), tid, time.Duration(ns-x.fromNS), state)
					}
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d times", filepath.Base(path), wrong, known)
	}
	return known
}
