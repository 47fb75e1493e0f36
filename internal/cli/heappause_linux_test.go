package cli_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// pausing runs ddtop until it does not fail with "Try again", at most five times. ddtop fails in this way if a thread
// of the target does not stop in time. This happens on a busy machine if the thread gets no CPU.
func pausing(t *testing.T, args ...string) (r result) {
	t.Helper()
	for range 5 {
		if r = run(t, args...); r.code != 1 || !strings.Contains(r.err, "Try again") {
			break
		}
	}
	return r
}

// TestHeapPause counts objects, shows what holds them and writes a file, each with --pause. With this flag, `ddtop
// heap` stops the process and copies its memory, so all results are from one instant. ddtop announces that it will stop
// the process, and afterwards reports for how long.
func TestHeapPause(t *testing.T) {
	p := rubytest.One(t).Start(t, heapProgram, rubytest.Options{})
	p.Expect(t, "ready")
	pid := strconv.Itoa(p.PID)
	const ahead, behind = "stopping process ", "was stopped for "
	count := pausing(t, "heap", pid, "--pause", "--json")
	count.want(t, 0, ahead, behind)
	var h report.Heap
	if err := json.Unmarshal([]byte(count.out), &h); err != nil {
		t.Fatal(err)
	}
	if k := kindOf(&h, "Order"); k.Objects != 4321 || h.PauseNS == nil || *h.PauseNS <= 0 || h.CopiedBytes == nil || *h.CopiedBytes < h.Bytes {
		t.Errorf("%d objects, %+v", k.Objects, h)
	}
	if strings.Index(count.err, ahead) > strings.Index(count.err, behind) {
		t.Errorf("it said %q", count.err)
	}
	holders := pausing(t, "heap", pid, "--pause", "--holders", "Order", "--overhead", "off")
	holders.want(t, 0, ahead, behind)
	if !strings.Contains(holders.out, "4321 objects") || !strings.Contains(holders.out, "The program stood still for ") {
		t.Error(holders.out)
	}
	file := filepath.Join(t.TempDir(), "x.json")
	pausing(t, "heap", pid, "--pause", "-o", file, "--overhead", "off").want(t, 0, ahead, behind)
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), `"class":"0x`) < 4321 {
		t.Error("the file lacks objects", err)
	}
	var plain report.Heap
	if err := json.Unmarshal([]byte(run(t, "heap", pid, "--json").out), &plain); err != nil || plain.PauseNS != nil || plain.CopiedBytes != nil {
		t.Errorf("without --pause: %v, %+v", err, plain)
	}
	run(t, "heap", pid, "--pause", "--max-memory", "1MB").want(t, 1, "--max-memory", "was not stopped")
	run(t, "heap", pid, "--pause", "-d", "1s").want(t, 2, "--pause")
	run(t, "heap", pid, "--children", "--pause").want(t, 2, "--pause")
	run(t, "heap", file, "--pause").want(t, 2, "--pause")
	run(t, "heap", "--core", file, "--pause").want(t, 2, "--pause")
}

// TestHeapPauseKilled kills ddtop at different moments after the message that it will stop the process. The stopped
// process must always continue.
func TestHeapPauseKilled(t *testing.T) {
	const kills, step = 12, 250 * time.Microsecond
	p := rubytest.One(t).Start(t, `keep = Array.new(400_000) { |i| "string #{i}" }
puts "ready"; $stdout.flush
Thread.new { loop { "x" } }
while $stdin.gets; puts "on"; $stdout.flush; end`, rubytest.Options{})
	p.Expect(t, "ready")
	stopped := 0
	for i := range kills {
		cmd := exec.Command(ddtop, "heap", strconv.Itoa(p.PID), "--pause")
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(said)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "stopping process") {
			t.Fatal(line, err)
		}
		for range i { // wait longer before each kill, but not longer than until a thread is seen stopped
			if traced(t, p.PID) {
				break
			}
			time.Sleep(step)
		}
		if traced(t, p.PID) {
			stopped++
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // ignore the error: it only says that ddtop was killed
		p.Send(t, "are you there")
		p.Expect(t, "on") // fails if the process does not answer
		if traced(t, p.PID) {
			t.Fatalf("kill %d: a thread is still stopped", i)
		}
	}
	if stopped == 0 {
		t.Error("no kill was within a stop: the test cannot tell")
	}
	t.Logf("%d of %d kills were within a stop", stopped, kills)
}

// traced reports whether ptrace has stopped a thread of a process.
func traced(t *testing.T, pid int) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(text), ") "); ok && strings.HasPrefix(rest, "t ") {
			return true
		}
	}
	return false
}
