package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// fragmentProgram is a program that allocates 40 MB with malloc in four threads, and frees every second block. The
// freed memory stays in malloc's arenas. The program then lets malloc print how much memory of its arenas is in use.
const fragmentProgram = `
require "fiddle"
def function(name, args, result) Fiddle::Function.new(Fiddle::Handle::DEFAULT[name], args, result); end
MALLOC = function("malloc", [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
FREE = function("free", [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
SET = function("memset", [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
STATS = function("malloc_stats", [], Fiddle::TYPE_VOID)
# Without fast bins, whose blocks malloc_stats counts as free, and which are marked as in use.
function("mallopt", [Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_INT).call(1, 0) # M_MXFAST
KEPT = Array.new(20_000) { |i| "kept #{i}" }
4.times.map do
  Thread.new do
    blocks = Array.new(5000) { MALLOC.call(2000).to_i.tap { |at| SET.call(at, 1, 2000) } }
    blocks.each_with_index { |at, i| FREE.call(at) if i.odd? }
  end
end.each(&:join)
puts "joined"; $stdout.flush; $stdin.gets
GC.start
STATS.call
puts "ready"; $stdout.flush; $stdin.gets`

func memoryOf(t *testing.T, pid int) *report.HeapMemory {
	t.Helper()
	js := run(t, "heap", strconv.Itoa(pid), "--json", "--overhead", "off")
	js.want(t, 0)
	var h report.Heap
	if err := json.Unmarshal([]byte(js.out), &h); err != nil {
		t.Fatal(err)
	}
	if h.Memory == nil {
		t.Fatal(js.err)
	}
	return h.Memory
}

func partOf(m *report.HeapMemory, kind string) uint64 {
	for _, p := range m.Parts {
		if p.Kind == kind {
			return p.Bytes
		}
	}
	return 0
}

// rollup returns a value of /proc/PID/smaps_rollup in bytes.
func rollup(t *testing.T, pid int, name string) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `: *(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s", text)
	}
	n, _ := strconv.ParseUint(string(m[1]), 10, 64)
	return n << 10
}

func within(got, want uint64, share float64) bool {
	return float64(max(got, want)-min(got, want)) <= share*float64(want)
}

// memoryBesideKernel compares ddtop's sums of a process's memory with the kernel's sums, and returns what ddtop read.
// The proportional share (Pss) changes whenever another process maps or unmaps the same library. Rubies of other tests
// do this. So a reading counts only if the kernel's share is nearly the same before and after it.
func memoryBesideKernel(t *testing.T, pid int) (m *report.HeapMemory) {
	t.Helper()
	until(t, func() bool {
		before := rollup(t, pid, "Pss")
		m = memoryOf(t, pid)
		rss, pss := rollup(t, pid, "Rss"), rollup(t, pid, "Pss")
		var sum uint64
		for _, x := range m.Parts {
			sum += x.Bytes
		}
		if sum != m.RSSBytes || !within(m.RSSBytes, rss, 0.01) {
			t.Fatalf("%d bytes in parts, %d; the kernel says %d", sum, m.RSSBytes, rss)
		}
		return within(before, pss, 0.001) && within(m.PSSBytes, pss, 0.02)
	}, "ddtop's proportional share is the kernel's")
	return m
}

// TestHeapMemory compares the parts of a process's memory, as ddtop reports them, with the kernel's sums. It also
// compares malloc's memory with malloc_stats(3).
func TestHeapMemory(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, fragmentProgram, rubytest.Options{})
		p.Expect(t, "joined")
		// A thread's stack may be freed only after the join of the thread. So the test waits until only the main thread
		// and Ruby's timer thread are left.
		until(t, func() bool {
			tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
			return err == nil && len(tasks) <= 2
		}, "the threads that were joined end")
		p.Send(t, "")
		p.Expect(t, "ready")
		memoryOf(t, p.PID) // this first call only makes pages of libruby resident, so that the next one finds them
		m := memoryBesideKernel(t, p.PID)
		arenas, _, _ := strings.Cut(p.Stderr(), "Total")
		var system, used uint64
		for _, x := range regexp.MustCompile(`system bytes *= *(\d+)\nin use bytes *= *(\d+)`).FindAllStringSubmatch(arenas, -1) {
			a, _ := strconv.ParseUint(x[1], 10, 64)
			b, _ := strconv.ParseUint(x[2], 10, 64)
			system, used = system+a, used+b
		}
		switch {
		case m.Malloc.FreeBytes == nil:
			t.Fatalf("%+v", m.Malloc)
		case m.Malloc.Allocator == nil || *m.Malloc.Allocator != "glibc" || m.Malloc.Arenas < 5:
			t.Errorf("%+v", m.Malloc)
		// malloc itself reports more free bytes than ddtop. It also counts blocks in its caches, and pages that were
		// never touched.
		case *m.Malloc.FreeBytes < 4*2500*1990 || *m.Malloc.FreeBytes > system-used:
			t.Errorf("%d bytes free, malloc says %d", *m.Malloc.FreeBytes, system-used)
		}
		inUse := m.Malloc.Bytes - *m.Malloc.FreeBytes
		if !r.AtLeast(3, 0) {
			inUse += partOf(m, sampler.MemoryRuby) // before 3.0, Ruby gets its heap pages from malloc
		}
		if !within(inUse, used, 0.02) || m.Malloc.Bytes != partOf(m, sampler.MemoryMalloc) {
			t.Errorf("%d bytes in use, malloc says %d", inUse, used)
		}
		if partOf(m, sampler.MemoryRuby) < 20_000*40 || partOf(m, sampler.MemoryFiles) == 0 || partOf(m, sampler.MemoryStacks) == 0 {
			t.Errorf("%+v", m.Parts)
		}
		if m.Advice == nil || !strings.Contains(*m.Advice, "MALLOC_ARENA_MAX=2") {
			t.Errorf("%v", m.Advice)
		}
	})
}

// TestHeapMemoryCopied reads a forked process that wrote to half of a String that it has from its parent. ddtop must
// report how much memory was copied by this, and how much is still shared.
func TestHeapMemoryCopied(t *testing.T) {
	p := rubytest.One(t).Start(t, `
TEXT = "x" * 40_000_000
reader, writer = IO.pipe
child = fork do
  (0...20_000_000).step(4096) { |i| TEXT.setbyte(i, 1) }
  writer.write "done"; writer.close
  sleep # the line to come is the parent's
end
writer.close
reader.read(4)
puts child, "ready"; $stdout.flush
$stdin.gets
Process.kill(:KILL, child)`, rubytest.Options{})
	child, err := strconv.Atoi(p.Line(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Expect(t, "ready")
	c := memoryOf(t, child).Copied
	if c == nil || c.Parent != p.PID || c.InheritedBytes < 40_000_000 {
		t.Fatalf("%+v", c)
	}
	if c.CopiedBytes < 20_000_000 || c.CopiedBytes > 30_000_000 || c.SharedBytes < 19_000_000 || c.SharedBytes+c.CopiedBytes > c.InheritedBytes {
		t.Errorf("%+v", c)
	}
	text := run(t, "heap", strconv.Itoa(child), "--overhead", "off")
	text.want(t, 0)
	if !strings.Contains(text.out, "copied since the fork") || !strings.Contains(text.out, "Ruby's heap pages") {
		t.Error(text.out)
	}
	if memoryOf(t, p.PID).Copied != nil {
		t.Error("a process that was not forked has copies")
	}
	p.Send(t, "")
	p.Wait(t)
}

// growingProgram is a program whose memory grows by 40 MB a second. With the argument "c", C code allocates the memory.
// With "ruby", Ruby allocates it for Strings. With "none", the memory does not grow.
const growingProgram = `
require "fiddle"
def function(name, args, result) Fiddle::Function.new(Fiddle::Handle::DEFAULT[name], args, result); end
MALLOC = function("malloc", [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
SET = function("memset", [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
KEPT = []
puts "ready"; $stdout.flush
loop do
  20.times do
    if ARGV[0] == "c"
      SET.call(MALLOC.call(100_000), 1, 100_000)
    elsif ARGV[0] == "ruby"
      KEPT << "x" * 100_000
    end
  end
  sleep 0.05
end`

// TestHeapMemoryGrown: ddtop distinguishes growing memory of C code from growing memory of Ruby's objects. If it is C
// code, ddtop names no class of objects, but the function that allocates the memory.
func TestHeapMemoryGrown(t *testing.T) {
	rubytest.Long(t)
	for arg, is := range map[string]string{"c": "c_code", "ruby": "objects", "none": ""} {
		t.Run(arg, func(t *testing.T) {
			t.Parallel()
			p := rubytest.One(t).Start(t, growingProgram, rubytest.Options{Args: []string{arg}})
			p.Expect(t, "ready")
			js := run(t, "heap", strconv.Itoa(p.PID), "-d", "3s", "--json", "--overhead", "off")
			js.want(t, 0)
			var h report.Heap
			if err := json.Unmarshal([]byte(js.out), &h); err != nil {
				t.Fatal(err)
			}
			g := h.Memory.Grown
			switch {
			case is == "" && g != nil:
				t.Errorf("memory that stays grows: %+v", g)
			case is == "":
			case g == nil || g.Is != is || g.Part != sampler.MemoryMalloc || g.Bytes < grownBytes || g.PartBytes > g.Bytes:
				t.Errorf("%+v", g)
			}
			if is == "c_code" && len(h.Growth.Classes) > 0 {
				t.Errorf("%+v", h.Growth.Classes)
			}
			a := h.Memory.Asks
			if (a != nil) != (is == "c_code") {
				t.Errorf("it asks for memory: %+v", a)
			}
			if why := live.MayRun(); a != nil && (a.Missing != nil) != (why != nil) {
				t.Errorf("missing: %v, %v", a.Missing, why)
			}
			if a != nil && a.Missing == nil && (a.Bytes < grownBytes || len(a.Stacks) == 0 || !slices.ContainsFunc(a.Stacks[0].Frames,
				func(f report.DumpFrame) bool { return f.Label == "Fiddle::Function#call" })) {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestHeapReaderNamesCodeThatAsks: while memory of C code grows, the screen names the code that asks the kernel for
// memory. To know this, the screen's reader of the heap traces the calls that allocate memory. When the memory stops
// growing, the reader stops tracing.
func TestHeapReaderNamesCodeThatAsks(t *testing.T) {
	if err := live.MayRun(); err != nil {
		t.Skip(err)
	}
	p := rubytest.One(t).Start(t, growingProgram, rubytest.Options{Args: []string{"c"}})
	p.Expect(t, "ready")
	readers := heaps.NewReaders(live.Options{})
	defer readers.Close()
	asked := func() string {
		_, m, err := readers.Of(p.PID).Count(t.Context(), true)
		if err != nil || m == nil {
			t.Fatal(err)
		}
		return m.Asked
	}
	until(t, func() bool {
		return strings.Contains(asked(), "Fiddle::Function#call → ") && strings.Contains(asked(), " asked the kernel for 100 %")
	}, "the code is named")
	if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return asked() == "" }, "following ends with the growth")
	if err := syscall.Kill(p.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// grownBytes is the least growth of memory that ddtop reports.
const grownBytes = 8_000_000
