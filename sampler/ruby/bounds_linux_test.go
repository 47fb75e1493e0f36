package ruby

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// longNames is a program with a thread, a class, a method and a file whose names are 60 KB long.
const longNames = `
long = "é" * 30_000
name = "K" + long
Object.const_set(name, Class.new)
Object.const_get(name).class_eval("def m#{long}; sleep; end", "/f#{long}.rb", 1)
t = Thread.new { Object.const_get(name).new.send("m" + long) }
t.name = "t" + long
Thread.pass until t.status == "sleep"
$stdout.sync = true
puts "ready"
$stdin.gets`

// readTick reads all stacks once. It tries again if the list of threads changes meanwhile.
func readTick(t *testing.T, rd *Reader, s *sampler.Sample) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); rd.Read(sampler.StackTick, s) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("no consistent list of threads for a minute")
		}
	}
}

// TestLongNames: ddtop must keep the first 4 KB of a name of 60 KB, and mark the name as cut. This must be true for
// names of threads, classes, methods and files.
func TestLongNames(t *testing.T) {
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, longNames, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		readTick(t, rd, &s)
		seen := make(map[string]bool)
		check := func(what, name, prefix string) {
			if !strings.HasPrefix(name, prefix+"éé") {
				return
			}
			seen[what] = true
			if len(name) > sampler.MaxNameBytes || len(name) < sampler.MaxNameBytes-8 || !strings.HasSuffix(name, "é"+sampler.CutMark) || !utf8.ValidString(name) {
				t.Errorf("the %s has %d bytes and ends with %q", what, len(name), name[len(name)-8:])
			}
		}
		for i := range s.Threads {
			info, _ := rd.dict.Thread(s.Threads[i].ID)
			check("thread's name", info.Name, "t")
			for _, id := range rd.dict.Frames(s.Threads[i].Stack, nil) {
				f := rd.dict.Frame(id)
				check("label", f.Label, "K")
				check("method's name", f.Name, "m")
				check("path", f.Path, "/f")
			}
		}
		for _, what := range []string{"thread's name", "label", "method's name", "path"} {
			if !seen[what] {
				t.Errorf("no %s was read", what)
			}
		}
	})
}

// ractorsOfThreads is a program with the main ractor and four others. Each of the four has five threads.
const ractorsOfThreads = `
Warning[:experimental] = false
ractors = Array.new(4) do
  Ractor.new do
    threads = Array.new(4) { Thread.new { sleep } }
    Thread.pass until threads.all? { |t| t.status == "sleep" }
    $stdout.syswrite("up\n")
    sleep
  end
end
sleep`

// TestThreadsOfAllRactors: all ractors together have one limit on the number of threads. If a ractor's list of threads
// would exceed the limit, reading the list counts as failed. ddtop must still read the lists of the other ractors. The
// list of ractors has a limit, too.
func TestThreadsOfAllRactors(t *testing.T) {
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		if !ruby.AtLeast(3, 0) {
			t.Skip("no ractors before 3.0")
		}
		p := ruby.Start(t, ractorsOfThreads, rubytest.Options{})
		for range 4 {
			p.Expect(t, "up")
		}
		rd := openReader(t, p.PID)
		var s sampler.Sample
		readTick(t, rd, &s)
		if all := len(s.Threads); all != 21 {
			t.Fatalf("%d threads, want 21", all)
		}
		for _, limit := range []int{1, 6, 8, 20, 21} {
			rd := openReader(t, p.PID)
			rd.list.maxThreads = limit
			for range 5 {
				readTick(t, rd, &s)
				if len(s.Threads) != limit || (s.Reads.Failed > 0) != (limit < 21) || len(s.Ractors) != 5 {
					t.Errorf("of at most %d threads: %d, in %d ractors, %d failed reads", limit, len(s.Threads), len(s.Ractors), s.Reads.Failed)
				}
			}
		}
		for _, limit := range []int{1, 3, 4, 5} {
			rd := openReader(t, p.PID)
			rd.list.maxRactors = limit
			for range 5 {
				readTick(t, rd, &s)
				if len(s.Ractors) != limit || (s.Reads.Failed > 0) != (limit < 5) || len(s.Threads) != 1+5*(limit-1) {
					t.Errorf("of at most %d ractors: %d, with %d threads, %d failed reads", limit, len(s.Ractors), len(s.Threads), s.Reads.Failed)
				}
			}
		}
	})
}

// deepThreads is a program with 60 threads that wait 1,000 calls deep.
const deepThreads = `
def down(k); k == 0 ? sleep : down(k - 1); end
threads = Array.new(60) { Thread.new { down(1000) } }
Thread.pass until threads.all? { |t| t.status == "sleep" }
$stdout.sync = true
puts "ready"
$stdin.gets
threads.each(&:kill).each(&:join)
puts "gone"
$stdin.gets`

// TestStackBytes: if the stacks of all threads take too much memory, ddtop reads only a part of each stack. The
// innermost and the outermost frames of each stack must be right, and a mark must show that the middle is missing. When
// enough memory is free again, ddtop must read more frames than the minimum.
func TestStackBytes(t *testing.T) {
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, deepThreads, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		const limit = 1 << 20
		rd.stacks.maxStackBytes, rd.stacks.cutAt = limit, limit
		var s sampler.Sample
		for range 20 {
			readTick(t, rd, &s)
			rd.stacks.countStacks()
			if rd.stacks.stackBytes > 3*limit {
				t.Fatalf("stacks take %d bytes of %d", rd.stacks.stackBytes, limit)
			}
		}
		if rd.stacks.maxDepth >= 1000 || len(s.Threads) != 61 {
			t.Fatalf("%d frames of %d threads", rd.stacks.maxDepth, len(s.Threads))
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			if th.ID == s.Threads[0].ID {
				continue
			}
			frames := rd.dict.Frames(th.Stack, nil)
			if len(frames) < 10 || th.Quality&sampler.StackTruncated == 0 || len(frames)+int(th.Omitted) < 1000 {
				t.Fatalf("%d frames, %d left out, quality %v", len(frames), th.Omitted, th.Quality)
			}
			if in, out := rd.dict.Frame(frames[0]).Name, rd.dict.Frame(frames[len(frames)-1]).Label; in != "sleep" || !strings.HasPrefix(out, "block") {
				t.Errorf("from %s to %s", out, in)
			}
		}
		p.Send(t, "")
		p.Expect(t, "gone")
		readTick(t, rd, &s)
		if before := rd.stacks.maxDepth; rd.stacks.stackBytes > limit/8 || before == minDepth {
			t.Errorf("%d bytes and %d frames after the threads are gone", rd.stacks.stackBytes, before)
		}
	})
}
