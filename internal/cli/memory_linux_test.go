package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// mostMemory limits the memory that a run of ddtop may use, in bytes. The limit is the same for all processes and
// files.
const mostMemory = 512 << 20

// runMeasured is like run, but also returns the most memory that the run took, in bytes.
func runMeasured(t *testing.T, args ...string) (r result, bytes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd, out, errs := prepare(ctx, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := followPeak(t, cmd.Process.Pid)
	r = finish(t, cmd, out, errs)
	return r, peak()
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// followPeak reads the peak of a process's memory every 5 ms. The function peak ends this, and returns the last result
// in bytes. ru_maxrss would also include the memory of this test's own process: the kernel counts the memory that the
// new process shared with it before exec (exec_mmap in fs/exec.c, 6.18).
func followPeak(t *testing.T, pid int) (peak func() int64) {
	t.Helper()
	// The open file belongs to this process, even if another one gets the same PID later.
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	most, buf := int64(0), make([]byte, 8192)
	read := func() {
		n, _ := status.ReadAt(buf, 0) // an error means that the process has ended
		if m := peakLine.FindSubmatch(buf[:max(n, 0)]); m != nil {
			kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
			most = kb << 10
		}
	}
	read()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer status.Close()
		for {
			select {
			case <-stop:
				return
			case <-t.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
				read()
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		if most == 0 {
			t.Error("the peak of the process's memory was never read")
		}
		return most
	}
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
