package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// exactRecording starts a ddtop that records a process in exact mode.
func exactRecording(t *testing.T, path string, pid int, more ...string) *startedDdtop {
	t.Helper()
	d := startDdtop(t, append([]string{"record", "-p", strconv.Itoa(pid), "--exact", "--exact-cost", "off", "-d", "1h", "-o", path}, more...)...)
	return d
}

// lostRecords is ddtop's message about lost records. They are lost if the ring buffer of the probes is full, which
// happens on a busy machine.
const lostRecords = "records of exact mode were lost, and what was around them is told as doubtful\n"

// TestExactEverywhere: each command that measures accepts --exact. The times that its output calls exact are right.
func TestExactEverywhere(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := startStamping(t, r, stampingBesideWork)
		p.Expect(t, "ready")
		pid, dir := strconv.Itoa(p.PID), t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		exact := []string{"-p", pid, "--exact", "--exact-cost", "off", "-d", "1s"}
		// complete reports whether all records of the probes arrived. On a busy machine records can be lost. Any other
		// message about exact mode fails the test.
		complete := func(what, said string) bool {
			t.Helper()
			rest := strings.ReplaceAll(said, lostRecords, "")
			if strings.Contains(rest, "exact mode") {
				t.Errorf("%s: it says %s", what, said)
			}
			return rest == said
		}
		d := exactRecording(t, in("x.ddtop"), p.PID)
		d.records(t, in("x.ddtop"))
		moreStamps(t, p, p.PID, 100)
		d.end(t)
		complete("x.ddtop", d.log.String())
		for _, name := range []string{"x.pb.gz", "x.folded", "x.chrome.json", "x.firefox.json", "x.html", "x.jsonl"} {
			got := run(t, append([]string{"record", "-o", in(name)}, exact...)...)
			got.want(t, 0)
			complete(name, got.err)
			if info, err := os.Stat(in(name)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
			if n := rubytest.ChangedCode(t, p.PID); n != 0 {
				t.Errorf("%s: %d bytes of the process's code are not the file's afterwards", name, n)
			}
		}
		if known := checkStamps(t, in("x.ddtop"), stampsOf(t, p, p.PID)); known < 100 {
			rubytest.TooSeldom(t, "%d stamps are in the time that is known exactly", known)
		}
		run(t, append([]string{"dump"}, exact...)...).want(t, 0)

		// A recording was made in exact mode. A report from this recording has exact figures, too.
		asJSON := run(t, "report", in("x.ddtop"), "--json")
		asJSON.want(t, 0)
		var told report.Stat
		if err := json.Unmarshal([]byte(asJSON.out), &told); err != nil {
			t.Fatal(err)
		}
		// At least one wait must be exact, but not all. A wait that began before the recording, or goes on after it,
		// has an unknown length.
		exactly := func(w report.StatWait) bool { return w.Exact }
		if told.ExactNS <= 0 || told.ExactNS > told.DurationNS || !slices.ContainsFunc(told.LongestWaits, exactly) {
			t.Errorf("of %d ns %d are exact, of the longest waits %+v", told.DurationNS, told.ExactNS, told.LongestWaits)
		}
		if text := run(t, "report", in("x.ddtop")); !strings.Contains(text.out, "in the queue") {
			t.Errorf("it does not say what waits consist of:\n%s", text.out)
		}

		lines := run(t, append([]string{"stat", "--interval", "250ms", "--json"}, exact...)...)
		lines.want(t, 0)
		var known, all, first int64
		for s := bufio.NewScanner(strings.NewReader(lines.out)); s.Scan(); {
			var line report.TimedLine
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if first++; first > 1 { // the first line begins before the second sample, so its beginning is not exact
				known, all = known+line.ExactNS, all+line.DurationNS
			}
			if line.ExactNS > line.DurationNS {
				t.Errorf("of a line of %d ns %d are exact", line.DurationNS, line.ExactNS)
			}
		}
		if all == 0 || known != all && complete("stat", lines.err) {
			t.Errorf("of %d ns %d are exact", all, known)
		}

		both := run(t, append([]string{"stat", "-p", pid + "," + strconv.Itoa(os.Getppid()), "--json"}, exact[2:]...)...)
		if both.code == 0 {
			t.Errorf("one of the processes is no Ruby, and it says %s", both.out)
		}
		if n := rubytest.ChangedCode(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the file's", n)
		}
	})
}

// startedDdtop is a running ddtop and its log.
type startedDdtop struct {
	pusher
}

func startDdtop(t *testing.T, args ...string) *startedDdtop {
	t.Helper()
	cmd, _, _ := prepare(t.Context(), args...)
	d := &startedDdtop{pusher{cmd, new(logText)}}
	cmd.Stderr = d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // this fails if ddtop has already ended
			_ = cmd.Wait()
		}
	})
	return d
}

// follows waits until ddtop follows its process in exact mode. The sign for this is the recording, which ddtop creates
// after it has put its probes into the process.
func (d *startedDdtop) follows(t *testing.T, path string) {
	t.Helper()
	d.await(t, path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// records waits until the recording has samples. ddtop writes a block of samples every two seconds.
func (d *startedDdtop) records(t *testing.T, path string) {
	t.Helper()
	d.follows(t, path)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	d.await(t, "the head of "+path, func() bool { return size() > 0 })
	before := size()
	d.await(t, "samples in "+path, func() bool { return size() > before })
}

// TestExactTwice: if two ddtops follow one process in exact mode, both measure correctly. If one of them ends, the
// other goes on.
func TestExactTwice(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := startStamping(t, r, stamping)
		p.Expect(t, "ready")
		dir := t.TempDir()
		first, second := filepath.Join(dir, "first.ddtop"), filepath.Join(dir, "second.ddtop")
		a, b := exactRecording(t, first, p.PID), exactRecording(t, second, p.PID)
		a.records(t, first)
		b.records(t, second)
		moreStamps(t, p, p.PID, 500)
		a.end(t)
		if rubytest.ChangedCode(t, p.PID) == 0 {
			t.Error("the second one's probes are gone, too")
		}
		before := stampsOf(t, p, p.PID)
		moreStamps(t, p, p.PID, 300)
		b.end(t)
		rubytest.Probed(t, p.PID, false)
		stamps, later := stampsOf(t, p, p.PID), make(map[int32][]int64)
		for tid, list := range stamps {
			later[tid] = list[len(before[tid]):]
		}
		n, m, after := checkStamps(t, first, stamps), checkStamps(t, second, stamps), checkStamps(t, second, later)
		if n < 500 || m < 500 || after < 300 {
			rubytest.TooSeldom(t, "the first one knows %d stamps, the second one, which went on, %d, and %d of them after the end of the first", n, m, after)
		}
	})
}

// TestExactEndsInTheMidst: if exact mode has used up its CPU budget, ddtop removes the probes, but goes on measuring by
// sampling.
func TestExactEndsInTheMidst(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		start := func() *rubytest.Process {
			p := r.Start(t, handsOver, rubytest.Options{})
			p.Expect(t, "ready")
			return p
		}
		p, path := start(), filepath.Join(t.TempDir(), "x.ddtop")
		// cheap starts a ddtop that allows exact mode only a small cost. It calls ready, and then lets the program hand
		// the GVL over so often that the probes cost too much. ddtop then removes the probes. After that, cheap lets it
		// sample for a while and ends it.
		cheap := func(ready func(*startedDdtop), args ...string) result {
			t.Helper()
			cmd, out, errs := prepare(t.Context(), append(args, "-p", strconv.Itoa(p.PID), "--exact", "--exact-cost", "0.1%", "-d", "1h")...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			rubytest.Probed(t, p.PID, true)
			ready(&startedDdtop{pusher{cmd, new(logText)}})
			p.Send(t, "go")
			rubytest.Probed(t, p.PID, false)
			before := sleeps(t, cmd.Process.Pid)
			until(t, func() bool {
				for tid, n := range sleeps(t, cmd.Process.Pid) {
					if n >= before[tid]+200 { // each sleep of the sampling thread is a sample
						return true
					}
				}
				return false
			}, "ddtop to sample on")
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			return finish(t, cmd, out, errs)
		}
		// Little changes before the program begins to hand over the GVL. So in this time, two samples are enough to
		// know all changes between them.
		cheap(func(d *startedDdtop) { d.records(t, path) }, "record", "-o", path).want(t, 0,
			// the line may begin with a text about lost records
			"ended itself, and ", " was sampled from then on: it cost the process")
		// If too much changes between two samples, ddtop does not know all changes between them. Each such gap divides
		// the time in which all changes are known.
		spans, lastNS := spansIn(t, path)
		if n := len(spans); n == 0 || spans[n-1].toNS >= lastNS {
			t.Errorf("%d spans are exact; the last sample is of %d ns", n, lastNS)
		}
		if n := rubytest.ChangedCode(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the file's", n)
		}
		p.Stop(t)
		p = start()
		stat := cheap(func(*startedDdtop) {}, "stat", "--json")
		stat.want(t, 0, "exact mode ended itself")
		var s report.Stat
		if err := json.Unmarshal([]byte(stat.out), &s); err != nil {
			t.Fatal(err)
		}
		if s.Exact == nil || !strings.Contains(s.Exact.Ended, "it cost the process") || s.Exact.Wrong || s.Exact.DurationNS >= s.DurationNS {
			t.Errorf("%+v of %d ns", s.Exact, s.DurationNS)
		}

		dir := t.TempDir()
		push := startPush(t, "-p", strconv.Itoa(p.PID), "--to", "file://"+dir, "--period", "1s", "--exact", "--exact-cost", "0.1%", "--status", "127.0.0.1:0")
		push.await(t, "the end of exact mode", func() bool { return strings.Contains(push.log.String(), "it is tried again in 1m0s") })
		before := len(profilesIn(t, dir)[p.PID])
		push.await(t, "profiles after that", func() bool { return len(profilesIn(t, dir)[p.PID]) >= before+2 })
		if !strings.Contains(push.log.String(), "it cost the process") {
			t.Errorf("it does not say why: %s", push.log)
		}
		push.end(t)
		list := profilesIn(t, dir)[p.PID]
		for i := 1; i < len(list); i++ {
			if gap := list[i].TimeNanos - list[i-1].TimeNanos - list[i-1].DurationNanos; gap > 1000 || gap < -1000 {
				t.Errorf("between profiles %d and %d are %d ns", i-1, i, gap)
			}
		}
	})
}

// sleeps returns how often each thread of a process went to sleep, by thread id.
func sleeps(t *testing.T, pid int) map[string]int {
	t.Helper()
	out := make(map[string]int)
	for _, tid := range tasks(t, pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, tid))
		if err != nil {
			continue // the thread has ended
		}
		var n int
		if _, rest, ok := strings.Cut(string(b), "\nvoluntary_ctxt_switches:"); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
		}
		out[tid] = n
	}
	return out
}

// handsOver is a program with two threads that hand the GVL to each other as fast as they can. They begin after a line
// of input.
const handsOver = `$stdout.sync = true
a, b = Queue.new, Queue.new
Thread.new { loop { b << a.pop } }
Thread.new { loop { a << b.pop } }
puts "ready"
$stdin.gets
a << 1
$stdin.gets`

// TestExactBySignal: whenever a signal ends ddtop, no probe is left in the process.
func TestExactBySignal(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := startStamping(t, r, stamping)
		p.Expect(t, "ready")
		dir := t.TempDir()
		for i, args := range [][]string{{"record", "-o", filepath.Join(dir, "x.ddtop")}, {"stat"}, {"stat", "--interval", "1s"}, {"dump"}} {
			for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
				d := startDdtop(t, append(args, "-p", strconv.Itoa(p.PID), "-d", "1h", "--exact", "--exact-cost", "off")...)
				rubytest.Probed(t, p.PID, true) // at this moment, ddtop may have put in only its first probes
				if i == 0 {
					moreStamps(t, p, p.PID, 20)
				}
				if err := d.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = d.cmd.Wait() // ignore the error: the test accepts every exit code
				rubytest.Probed(t, p.PID, false)
			}
		}
		p.Send(t, "") // the program must still run: this line makes it end
	})
}

// TestExactWithoutRights: a user may read a process but not put probes into it. ddtop says which right is missing and
// what to do, and the exit code is 3.
func TestExactWithoutRights(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "becoming another user needs root")
	}
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	// When a process changes its user, the kernel forbids this user to read it. After an exec the user may read it
	// again.
	p := rubytest.One(t).Start(t, `require "rbconfig"
Process::GID.change_privilege(65534)
Process::UID.change_privilege(65534)
exec(RbConfig.ruby, "-e", "$stdout.sync = true; puts 'up'; $stdin.gets")`, rubytest.Options{})
	p.Expect(t, "up")
	cmd, out, errs := prepare(t.Context(), "stat", strconv.Itoa(p.PID), "-d", "1s", "--exact")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: nobody}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	finish(t, cmd, out, errs).want(t, 3, "--exact: no permission for exact mode", "sudo")
	if n := rubytest.ChangedCode(t, p.PID); n != 0 {
		t.Errorf("%d bytes of its code are not the file's", n)
	}
}
