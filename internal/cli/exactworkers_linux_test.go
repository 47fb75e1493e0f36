package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// preforking is a master whose worker processes write the time again and again (stamps). After the line "replace" it
// kills the first worker and starts another one. After the line "exec" the newest worker executes another Ruby program.
const preforking = stampsCode + `require "rbconfig"
def worker
  r, w = IO.pipe
  pid = fork { w.close; stamp; r.gets; exec(RbConfig.ruby, "worker.rb") }
  r.close
  [pid, w]
end
all = 4.times.map { worker }
puts "up #{all.map(&:first).join(" ")}"
while line = $stdin.gets
  case line.chomp
  when "replace"
    pid, = all.shift
    Process.kill(:KILL, pid)
    Process.wait(pid)
    all << worker
    puts "new #{all.last.first}"
  when "exec"
    all.last.last.puts "exec"
  end
end
all.each { |pid, | Process.kill(:KILL, pid) }
`

// TestExactFollowsWorkers: with --children, ddtop follows each worker process of a master in exact mode. It makes a
// recording for each of them. It also follows workers that start later, and the program that a worker becomes by exec.
func TestExactFollowsWorkers(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := startStamping(t, r, preforking)
		if err := os.WriteFile(filepath.Join(p.HostDir, "worker.rb"), []byte(stampsCode+"stamp\nsleep\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		var workers [4]int
		if _, err := fmt.Sscanf(p.Expect(t, "up"), "up %d %d %d %d", &workers[0], &workers[1], &workers[2], &workers[3]); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		d := exactRecording(t, filepath.Join(dir, "all.ddtop"), p.PID, "--children", "--overhead", "off")
		// name returns the path of the recording of a process. ddtop creates this file when it begins to follow the
		// process.
		name := func(pid int, more string) string { return filepath.Join(dir, fmt.Sprintf("all-%d%s.ddtop", pid, more)) }
		recorded := func(pid int, more string) {
			t.Helper()
			d.follows(t, name(pid, more))
			moreStamps(t, p, pid, 1000)
		}
		for _, pid := range workers {
			recorded(pid, "")
		}
		p.Send(t, "replace")
		var fresh int
		if _, err := fmt.Sscanf(p.Expect(t, "new"), "new %d", &fresh); err != nil {
			t.Fatal(err)
		}
		recorded(fresh, "")
		before := stampsOf(t, p, fresh)
		p.Send(t, "exec")
		recorded(fresh, "-2")
		after := stampsOf(t, p, fresh)
		d.end(t)
		for _, pid := range workers {
			if n := checkStamps(t, name(pid, ""), stampsOf(t, p, pid)); n < 100 {
				rubytest.TooSeldom(t, "of worker %d %d stamps are in the time that is known exactly", pid, n)
			}
		}
		if n := checkStamps(t, name(fresh, ""), before); n < 100 {
			rubytest.TooSeldom(t, "of the worker that came later %d stamps are", n)
		}
		for tid := range before {
			delete(after, tid)
		}
		for line := range strings.Lines(d.log.String()) {
			// On a busy machine records of the probes can be lost, which ddtop reports. checkStamps leaves out the
			// doubtful times.
			if strings.Contains(line, "exact") && !strings.Contains(line, lostRecords) {
				t.Errorf("it says %s", line)
			}
		}
		if n := checkStamps(t, name(fresh, "-2"), after); n < 100 {
			rubytest.TooSeldom(t, "of what it became %d stamps are", n)
		}
		for _, pid := range append(workers[1:], fresh, p.PID) {
			rubytest.Probed(t, pid, false)
		}
	})
}
