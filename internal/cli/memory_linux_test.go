package cli_test

import (
	"context"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// mostMemory limits the memory that a run of ddtop may use, in bytes. The limit is the same for all processes and
// files.
const mostMemory = 512 << 20

// runMeasured is like run, but also returns the most memory that the run took.
func runMeasured(t *testing.T, args ...string) (r result, bytes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd, out, errs := prepare(ctx, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r = finish(t, cmd, out, errs)
	return r, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// TestLyingRecording: a hostile recording of 6,539 bytes has only one block, which unpacks to 60 million empty strings.
// ddtop must refuse it, report the place of the fault, and use little memory.
func TestLyingRecording(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "lies.ddtop")
	for _, args := range [][]string{{"report", file}, {"report", file, "--format", "dump"}, {"report", file, "--format", "firefox"}} {
		r, bytes := runMeasured(t, args...)
		r.want(t, 1, "recording "+file+": the block at offset 66: damaged recording: a list too long")
		if bytes > mostMemory {
			t.Errorf("%q took %d MB", args, bytes>>20)
		}
	}
}

// hoarder is a program that makes classes, methods and files with names of 60 KB, without end. It also has 600 threads
// whose stacks are 3,000 calls deep.
const hoarder = `
big = "x" * 60_000
def down(k, &b); k == 0 ? b.call : down(k - 1, &b); end
threads = Array.new(600) { Thread.new { down(3000) { sleep } } }
Thread.pass until threads.all? { |t| t.status == "sleep" }
n = 0
8.times do
  Thread.new do
    loop do
      i = (n += 1)
      k = Class.new
      Object.const_set("K#{i}_#{big}", k)
      k.class_eval("def m#{i}_#{big}; 3.times { sleep 0.003 }; end", "/f#{i}_#{big}.rb", i)
      k.new.send("m#{i}_#{big}")
      Object.send(:remove_const, "K#{i}_#{big}")
    end
  end
end
$stdout.sync = true
puts "up"
sleep`

// TestHoarder: if a program tries to fill the memory of ddtop, ddtop stays below mostMemory.
func TestHoarder(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, hoarder, rubytest.Options{})
	p.Expect(t, "up")
	r, bytes := runMeasured(t, "stat", "-p", strconv.Itoa(p.PID), "-d", "20s", "--json")
	r.want(t, 0)
	t.Logf("%d MB", bytes>>20)
	if bytes > mostMemory {
		t.Errorf("it took %d MB", bytes>>20)
	}
}
