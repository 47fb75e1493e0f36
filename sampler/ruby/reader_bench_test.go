package ruby

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// benchThreads is a program with n threads that wait. The stack of each thread has as many frames as the argument depth
// says.
const benchThreads = `n, depth = ARGV.map(&:to_i)
def down(d, &b); d == 0 ? b.call : down(d - 1, &b); end
Array.new(n) { Thread.new { down(depth - 3) { sleep } } }.each { |t| sleep 0.001 until t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`

// openReader attaches a Reader to a process.
func openReader(tb testing.TB, pid int) *Reader {
	tb.Helper()
	return openReaderWith(tb, pid, Options{})
}

func openReaderWith(tb testing.TB, pid int, opts Options) *Reader {
	tb.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { p.Close() })
	m, err := attach.FindRuby(p)
	if err != nil {
		tb.Fatal(err)
	}
	version, _, err := m.RubyVersion(p)
	if err != nil {
		tb.Fatal(err)
	}
	table, _, err := layout.For(version, m.Machine, m.JmpBuf())
	if err != nil {
		tb.Fatal(err)
	}
	vm, err := rubyvm.LocateVM(context.Background(), p, m, table, version)
	if err != nil {
		tb.Fatal(err)
	}
	if opts.TIDs == nil {
		// After a fork, Ruby 3.1 and 3.2 keep the parent's tid, which is no task of the process. So the benchmark
		// checks that the task exists.
		opts.TIDs = func(stored int32) (int32, bool) {
			_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, stored))
			return stored, err == nil
		}
	}
	dict := sampler.NewDictionary()
	r, err := NewReader(vm, m, pid, dict, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// BenchmarkTick measures ticks of a process whose threads sleep in stacks of 30, 100 and 1,000 frames. It measures
// three kinds of tick: one that reads only locks, one that finds all stacks unchanged, and one that decodes all stacks
// again. For comparison, floor measures only the system calls that read the same ranges of memory.
func BenchmarkTick(b *testing.B) {
	r := rubytest.One(b)
	for _, c := range []struct{ threads, depth int }{{1, 30}, {10, 30}, {100, 30}, {500, 30}, {10, 100}, {10, 1000}} {
		n := c.threads
		name := func(what string) string { return fmt.Sprintf("%s/threads=%d/depth=%d", what, n, c.depth) }
		p := r.Start(b, benchThreads, rubytest.Options{Args: []string{fmt.Sprint(n), fmt.Sprint(c.depth)}})
		p.Expect(b, "ready")
		rd := openReader(b, p.PID)
		var s sampler.Sample
		tick := func(b *testing.B, depth sampler.Depth, before func()) {
			for range 5 { // run ticks until ddtop has found the stacks unchanged often enough
				if err := rd.Read(depth, &s); err != nil {
					b.Fatal(err)
				}
			}
			calls := rd.reads.Calls
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if before != nil {
					before()
				}
				if err := rd.Read(depth, &s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rd.reads.Calls-calls)/float64(b.N), "calls/op")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/thread")
		}
		floor := func(b *testing.B) {
			batch := append([]attach.Range(nil), rd.plan.ranges...)
			b.ResetTimer()
			for range b.N {
				if _, err := rd.mem.ReadBatch(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(batch)), "ranges")
		}
		b.Run(name("lock"), func(b *testing.B) { tick(b, sampler.LockTick, nil) })
		b.Run(name("lock-floor"), floor)
		b.Run(name("unchanged"), func(b *testing.B) { tick(b, sampler.StackTick, nil) })
		b.Run(name("unchanged-floor"), floor)
		b.Run(name("decoded"), func(b *testing.B) {
			tick(b, sampler.StackTick, func() {
				for _, t := range rd.list.order {
					// pretend that the thread has just run, so that its stack must be decoded again
					t.stack.kept, t.stack.quiet, t.stack.rests = t.stack.kept[:0], 0, false
				}
			})
		})
		b.Run(name("decoded-floor"), floor)
		p.Stop(b)
	}
}
