package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// pusher is a running `ddtop push`.
type pusher struct {
	cmd *exec.Cmd
	log *logText
}

// logText collects the output of a program while it runs.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startPush(t *testing.T, args ...string) pusher {
	t.Helper()
	return startPushWith(t, nil, args...)
}

// startPushWith does the same as startPush, with more environment variables.
func startPushWith(t *testing.T, env []string, args ...string) pusher {
	t.Helper()
	p := pusher{exec.Command(ddtop, append([]string{"push", "--overhead", "off"}, args...)...), new(logText)}
	p.cmd.Stderr = p.log
	p.cmd.Env = append(os.Environ(), "DD_API_KEY=", "HTTPS_PROXY=", "HTTP_PROXY=")
	p.cmd.Env = append(p.cmd.Env, env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill() // this fails if ddtop has already ended
			_ = p.cmd.Wait()
		}
	})
	return p
}

// await calls the function so repeatedly until it returns true. The parameter what describes this condition in the
// error.
func (p pusher) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s; it said:\n%s", what, p.log)
		}
	}
}

// end ends ddtop by SIGTERM, and checks that its exit code is a success.
func (p pusher) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v; it said:\n%s", err, p.log)
	}
}

// profilesIn returns the profiles in a folder. The key is the PID in the names of the files. The profiles of a process
// are in the order of time.
func profilesIn(t *testing.T, dir string) map[int][]*profile.Profile {
	t.Helper()
	out := make(map[int][]*profile.Profile)
	list, err := filepath.Glob(filepath.Join(dir, "*.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	for _, file := range list {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(file), ".pb.gz"), "-")
		pid, err := strconv.Atoi(parts[len(parts)-2])
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseData(b)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := p.CheckValid(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		out[pid] = append(out[pid], p)
	}
	return out
}

// TestPushToFiles: each profile begins at the time at which the previous profile ended. When SIGTERM ends ddtop, it
// writes the last profile.
func TestPushToFiles(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; Thread.new { loop { 1000.times { |i| i * i }; sleep 0.001 } }.name = "worker"; puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")
	dir := filepath.Join(t.TempDir(), "profiles")
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", "file://"+dir, "--period", "1s", "--spool", filepath.Join(t.TempDir(), "spool"))
	p.await(t, "three profiles", func() bool { return len(profilesIn(t, dir)[ruby.PID]) >= 3 })
	ended := time.Now()
	p.end(t)
	took := time.Since(ended)
	list := profilesIn(t, dir)[ruby.PID]
	wall := slices.IndexFunc(list[0].SampleType, func(v *profile.ValueType) bool { return v.Type == "wall-time" })
	for i, one := range list {
		if i > 0 && one.TimeNanos != list[i-1].TimeNanos+list[i-1].DurationNanos {
			t.Errorf("period %d begins %d ns after the one before ended", i, one.TimeNanos-list[i-1].TimeNanos-list[i-1].DurationNanos)
		}
		// A period ends at the first sample after its planned end, so it ends a little late. The next period's end is
		// planned from the planned end of this period, not from the late one. So the delays must not add up.
		if length := one.TimeNanos + one.DurationNanos - list[0].TimeNanos; i < len(list)-1 && length < int64(i+1)*1e9 {
			t.Errorf("%d periods are %d ns long", i+1, length)
		}
		sums := make(map[string]int64) // the wall time by thread
		for _, s := range one.Sample {
			sums[s.Label["thread name"][0]] += s.Value[wall]
		}
		for _, name := range []string{"main", "worker"} {
			if sums[name] != one.DurationNanos {
				t.Errorf("period %d: %q has %d ns of %d", i, name, sums[name], one.DurationNanos)
			}
		}
	}
	// ddtop may warn about lost profiles only if it took at least four seconds to end. In this case it lacked CPU time,
	// or waited for the disk.
	if text := p.log.String(); took < 4*time.Second && strings.Contains(text, "level=WARN") || strings.Contains(text, "level=ERROR") {
		t.Errorf("it ended in %v, and said:\n%s", took, text)
	}
}

// TestPushFollows: `ddtop push --match` finds processes by their titles. It finds processes that start, fork, become
// another Ruby by exec, or are started again.
func TestPushFollows(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	title := fmt.Sprintf("shop-%d", os.Getpid())
	start := func() *rubytest.Process {
		return rubytest.One(t).Start(t, fmt.Sprintf(`
$stdout.sync = true
$0 = "%[1]s: master"
puts "up"
while (line = STDIN.gets)
  case line.strip
  when "fork" then puts fork { $0 = "%[1]s: worker"; STDIN.reopen("/dev/null"); sleep }
  when "exec" then exec(RbConfig.ruby, "-e", "$stdout.sync = true; $0 = '%[1]s: again'; puts 'again'; STDIN.gets")
  end
end`, title), rubytest.Options{})
	}
	dir := t.TempDir()
	p := startPush(t, "--match", "^"+title+": ", "--to", "file://"+dir, "--period", "1s")
	has := func(pid, n int) {
		t.Helper()
		p.await(t, fmt.Sprintf("%d profiles of %d", n, pid), func() bool { return len(profilesIn(t, dir)[pid]) >= n })
	}
	first := start()
	first.Expect(t, "up")
	has(first.PID, 1)
	first.Send(t, "fork")
	worker, err := strconv.Atoi(first.Line(t))
	if err != nil {
		t.Fatal(err)
	}
	has(worker, 2)
	first.Send(t, "exec")
	first.Expect(t, "again")
	begun := time.Now().UnixNano()
	p.await(t, "a profile of what exec has made of it", func() bool {
		return slices.ContainsFunc(profilesIn(t, dir)[first.PID], func(one *profile.Profile) bool { return one.TimeNanos > begun })
	})
	if err := syscall.Kill(worker, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.await(t, "the worker's end", func() bool {
		return strings.Contains(p.log.String(), fmt.Sprintf("msg=\"it has ended\" pid=%d", worker))
	})
	first.Stop(t)
	second := start()
	second.Expect(t, "up")
	has(second.PID, 2)
	p.end(t)
}

// TestPushEndsWithItsProcess: if the user named a process by its PID, `ddtop push` ends when the process has ended,
// because it cannot come back.
func TestPushEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; puts "up"; STDIN.gets`, rubytest.Options{})
	ruby.Expect(t, "up")
	dir := t.TempDir()
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", "file://"+dir, "--period", "1s")
	p.await(t, "a profile", func() bool { return len(profilesIn(t, dir)[ruby.PID]) > 0 })
	ruby.CloseStdin(t)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v; it said:\n%s", err, p.log)
	}
	if text := p.log.String(); !strings.Contains(text, "all processes have ended") || strings.Contains(text, "level=ERROR") {
		t.Errorf("it said:\n%s", text)
	}
}

// TestPushTakesTheSource: like all other commands, `ddtop push` follows threads by the source that --source names, such
// as thread switches.
func TestPushTakesTheSource(t *testing.T) {
	t.Parallel()
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	ruby := sleepingRuby(t)
	for _, source := range []string{"polling", "switches"} {
		_, to := startIntake(t)
		p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", to, "--source", source)
		p.await(t, "the process", func() bool { return strings.Contains(p.log.String(), "msg=following") })
		if source == "switches" {
			p.await(t, "programs in the kernel", func() bool { return len(programsOf(t, p.cmd.Process.Pid)) > 0 })
		} else if n := len(programsOf(t, p.cmd.Process.Pid)); n > 0 {
			t.Errorf("--source %s: it has %d programs in the kernel", source, n)
		}
	}
}

// TestPushHeap: with --heap, `ddtop push` counts the live objects by class for one of several profiles. In this
// profile, the objects have the names that Datadog uses. The other profiles have no live objects.
func TestPushHeap(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, `class Kept; end; KEEP = Array.new(1234) { Kept.new }
$stdout.sync = true; Thread.new { loop { 1000.times { |i| i * i }; sleep 0.001 } }; puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")
	dir := filepath.Join(t.TempDir(), "profiles")
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", "file://"+dir, "--period", "1s", "--heap")
	live := func(one *profile.Profile) int {
		return slices.IndexFunc(one.SampleType, func(v *profile.ValueType) bool { return v.Type == "heap-live-samples" })
	}
	with, without := 0, 0
	p.await(t, "profiles with and without live objects", func() bool {
		with, without = 0, 0
		for _, one := range profilesIn(t, dir)[ruby.PID] {
			at := live(one)
			if at < 0 {
				without++
				continue
			}
			with++
			kept, wall := int64(0), int64(0)
			for _, s := range one.Sample {
				if wall += s.Value[0]; len(s.Label["allocation class"]) == 1 && s.Label["allocation class"][0] == "Kept" {
					kept = s.Value[at]
				}
			}
			if kept != 1234 || wall == 0 || one.SampleType[0].Type != "wall-time" || one.SampleType[at+1].Type != "heap-live-size" {
				t.Fatalf("%d objects, %d ns", kept, wall)
			}
		}
		return with > 0 && without > 1
	})
	p.end(t)
	if with > 1+(with+without)/heapPeriods {
		t.Errorf("%d of %d profiles have live objects", with, with+without)
	}
}

// heapPeriods is the number of profiles (periods) from one count of live objects to the next.
const heapPeriods = 5
