package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/report"
)

// hogging is a program that holds the GVL from the input line "hog" to the line "stop", and prints both times. In
// between it has 13 threads, and otherwise 4. The tests use the number of threads as the condition of --when. The
// length of holds and waits would be a bad condition: on a busy machine, they can be long at any time.
const hogging = `$stdout.sync = true
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
3.times { |i| Thread.new { Thread.current.name = "worker #{i}"; loop { sleep 0.02 } } }
stop, from, hog, extra = true, 0, nil, nil
puts "up"
while line = STDIN.gets
  case line.chomp
  when "hog"
    stop = false
    from = now.()
    extra = 8.times.map { Thread.new { sleep } }
    hog = Thread.new { Thread.current.name = "hog"; i = 0; i += 1 until stop }
  when "stop"
    stop = true
    hog.join
    extra.each { |t| t.kill.join }
    puts "#{from} #{now.()}"
  when "exec" then exec(RbConfig.ruby, $0)
  end
end
`

// watcher is a running `ddtop record --when`.
type watcher struct {
	cmd *exec.Cmd
	log *logText
	out *logText
}

func startWatch(t *testing.T, args ...string) *watcher {
	t.Helper()
	w := &watcher{exec.Command(ddtop, append([]string{"record", "--json", "--overhead", "off"}, args...)...), new(logText), new(logText)}
	w.cmd.Stderr, w.cmd.Stdout = w.log, w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill() // this fails if ddtop has already ended
			_ = w.cmd.Wait()
		}
	})
	return w
}

// events returns the events that ddtop has printed so far. If what is not empty, it returns only the events of this
// name.
func (w *watcher) events(t *testing.T, what string) (out []report.WatchEvent) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(w.out.String()))
	for lines.Scan() {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		var e report.WatchEvent
		if err := d.Decode(&e); err != nil {
			continue // ddtop is still writing this line
		}
		if what == "" || e.Event == what {
			out = append(out, e)
		}
	}
	return out
}

// await waits until ddtop has printed another event with the name what, and returns it. The parameter before is the
// number of such events that the test already knows.
func (w *watcher) await(t *testing.T, what string, before int) report.WatchEvent {
	t.Helper()
	var all []report.WatchEvent
	for deadline := time.Now().Add(rubytest.Timeout); len(all) <= before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s; it printed\n%s\nand said\n%s", what, w.out, w.log)
		}
		all = w.events(t, what)
	}
	return all[before]
}

// awaitSaid waits until ddtop has written these words to standard error.
func (w *watcher) awaitSaid(t *testing.T, words string) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); !strings.Contains(w.log.String(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %q; it printed\n%s\nand said\n%s", words, w.out, w.log)
		}
	}
}

// end ends ddtop by a signal, and returns its exit code.
func (w *watcher) end(t *testing.T, s syscall.Signal) int {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	_ = w.cmd.Wait() // ignore the error: the exit code below is checked
	return w.cmd.ProcessState.ExitCode()
}

// hog lets the program hold the GVL until ddtop has begun a recording. It returns when the program began and ended to
// hold the GVL.
func (w *watcher) hog(t *testing.T, p *rubytest.Process) (fromNS, toNS int64) {
	t.Helper()
	before := len(w.events(t, "began"))
	p.Send(t, "hog")
	w.await(t, "began", before)
	p.Send(t, "stop")
	from, to, ok := strings.Cut(p.Line(t), " ")
	fromNS, err := strconv.ParseInt(from, 10, 64)
	if err == nil {
		toNS, err = strconv.ParseInt(to, 10, 64)
	}
	if !ok || err != nil {
		t.Fatal(from, to, err)
	}
	return fromNS, toNS
}

// whole opens a recording, and checks that no part of it is damaged.
func whole(t *testing.T, path string) *recording.Reader {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := r.Damage(); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return r
}

// TestRecordWhen: each time the condition of --when becomes true, ddtop makes one recording. The recording covers the
// time in which the condition is true, and the requested time before and after it. If SIGTERM ends ddtop, it first
// completes the current recording.
func TestRecordWhen(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, hogging, rubytest.Options{})
	p.Expect(t, "up")
	dir := filepath.Join(t.TempDir(), "kept")
	w := startWatch(t, "--when", "threads>10", "--before", "1s", "--after", "2s", "--over", "1s", "-o", dir, "-p", strconv.Itoa(p.PID))
	for i := range 3 {
		fromNS, toNS := w.hog(t, p)
		if i == 2 {
			break // the signal below ends the last recording
		}
		e := w.await(t, "wrote", i)
		r := whole(t, e.Path)
		first, last := r.Span()
		// Each recording must have the requested time before the event. The first one may have less, because ddtop had
		// just attached.
		if i > 0 && first > fromNS-1e9 || last < toNS+2e9 || first != e.StartNS || last != e.EndNS {
			t.Errorf("held from %d to %d, recorded from %d to %d: %+v", fromNS, toNS, first, last, e)
		}
		notes := r.Notes()
		if len(notes) != 1 || !strings.HasPrefix(notes[0].Text, "threads>10: ") || notes[0].AtNS < fromNS || notes[0].AtNS > toNS {
			t.Errorf("its notes are %+v", notes)
		}
		if info, err := os.Stat(e.Path); err != nil || info.Size() != e.Bytes || e.PID != p.PID || e.Condition != "threads>10" {
			t.Errorf("%+v: %v", e, err)
		}
		if !strings.HasPrefix(filepath.Base(e.Path), "script.rb-"+strconv.Itoa(p.PID)+"-") || !strings.HasSuffix(e.Path, "-threads.ddtop") {
			t.Errorf("its name is %s", e.Path)
		}
	}
	if code := w.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d; it said\n%s", code, w.log)
	}
	if began, wrote := len(w.events(t, "began")), len(w.events(t, "wrote")); began != 3 || wrote != 3 {
		t.Errorf("%d began and %d were written:\n%s", began, wrote, w.out)
	}
	for _, e := range w.events(t, "wrote") {
		whole(t, e.Path)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 3 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestRecordWhenItRestarts: while ddtop watches with --when, the process becomes another Ruby by exec. ddtop must close
// the recording and watch the new Ruby. If the process ends, ddtop closes the recording and ends too.
func TestRecordWhenItRestarts(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, hogging, rubytest.Options{})
	p.Expect(t, "up")
	dir := t.TempDir()
	w := startWatch(t, "--when", "threads>10", "--before", "1s", "--after", "5m", "--over", "1s", "-o", dir, "-p", strconv.Itoa(p.PID))
	w.hog(t, p)
	p.Send(t, "exec")
	p.Expect(t, "up")
	r := whole(t, w.await(t, "wrote", 0).Path)
	if end, ok := r.End(); !ok {
		t.Errorf("its end is not in it: %+v", end)
	}
	w.hog(t, p)
	p.CloseStdin(t)
	p.Wait(t)
	r = whole(t, w.await(t, "wrote", 1).Path)
	if end, ok := r.End(); !ok || !strings.Contains(end.Reason, "exit") {
		t.Errorf("its end is %+v", end)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("%v; it said\n%s", err, w.log)
	}
}

// TestRecordWhenTheDiskIsFull: ddtop reports a full disk only once, and goes on watching. If the condition of --when is
// still true when there is room again, ddtop records it.
func TestRecordWhenTheDiskIsFull(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, hogging, rubytest.Options{})
	p.Expect(t, "up")
	dir := diskOf(t, "4m")
	room := filepath.Join(dir, "room")
	w := startWatch(t, "--when", "threads>10", "--before", "0s", "--after", "2s", "--over", "1s", "-o", dir, "-p", strconv.Itoa(p.PID))
	w.awaitSaid(t, "waiting for")
	if err := os.WriteFile(room, bytes.Repeat([]byte{1}, 8<<20), 0o600); err == nil {
		t.Fatal("the disk takes 8 MB")
	}
	p.Send(t, "hog")
	w.awaitSaid(t, "no space left on device")
	w.await(t, "failed", 0)
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(partials(t, dir)) == 1 }, "another recording")
	p.Send(t, "stop")
	p.Line(t)
	whole(t, w.await(t, "wrote", 0).Path)
	if n := strings.Count(w.log.String(), "no space left on device"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, w.log)
	}
	if code := w.end(t, syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d; it said\n%s", code, w.log)
	}
}

// TestRecordWhenWhatFailsIsInTheExitCode: the condition of --when was true, but ddtop could not record it until its own
// end. ddtop's exit code must be 1.
func TestRecordWhenWhatFailsIsInTheExitCode(t *testing.T) {
	p := rubytest.One(t).Start(t, hogging, rubytest.Options{})
	p.Expect(t, "up")
	dir := filepath.Join(t.TempDir(), "kept")
	w := startWatch(t, "--when", "threads>10", "--before", "0s", "--after", "1s", "--over", "1s", "-o", dir, "-p", strconv.Itoa(p.PID))
	w.awaitSaid(t, "waiting for")
	// A file replaces the folder, so that even root cannot make a recording in it.
	if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.Send(t, "hog")
	w.await(t, "failed", 0)
	if code := w.end(t, syscall.SIGINT); code != 1 || !strings.Contains(w.log.String(), "recording threads>10 of process "+strconv.Itoa(p.PID)) {
		t.Errorf("exit code %d; it said\n%s", code, w.log)
	}
}

func partials(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.partial"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRecordWhenTheDiskHangs: `ddtop record --when` writes to a disk that hangs. Sampling goes on, and a signal still
// ends ddtop. ddtop fails and says that the disk was too slow.
func TestRecordWhenTheDiskHangs(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, hogging, rubytest.Options{})
	p.Expect(t, "up")
	disk := stuckfs.Mount(t)
	w := startWatch(t, "--when", "threads>10", "--before", "1s", "--after", "1s", "--over", "1s", "-o", disk.Dir, "-p", strconv.Itoa(p.PID))
	w.awaitSaid(t, "waiting for")
	disk.Stick()
	w.hog(t, p)
	until(t, func() bool { return disk.Waiting() > 0 }, "a request that hangs")
	awaitTicks(t, w.cmd.Process.Pid)
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ends(t, w.cmd.Process.Pid, disk)
	_ = w.cmd.Wait() // ignore the error: the exit code below is checked
	if code := w.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(w.log.String(), "the disk was too slow") {
		t.Errorf("exit code %d; it said\n%s", code, w.log)
	}
}

// TestRecordWhenKilled: if ddtop is killed while `ddtop record --when` writes a recording, the unfinished file has the
// ending .partial. `ddtop report` can read this file.
func TestRecordWhenKilled(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, hogging, rubytest.Options{})
	p.Expect(t, "up")
	dir := t.TempDir()
	w := startWatch(t, "--when", "threads>10", "--before", "1s", "--after", "5m", "--over", "1s", "-o", dir, "-p", strconv.Itoa(p.PID))
	w.hog(t, p)
	until(t, func() bool {
		list := partials(t, dir)
		if len(list) != 1 {
			return false
		}
		info, err := os.Stat(list[0])
		return err == nil && info.Size() > 4096
	}, "some blocks")
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.cmd.Wait() // ignore the error: it only says that ddtop was killed
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != 1 {
		t.Errorf("left are %v, %v", all, err)
	}
	r := run(t, "report", partials(t, dir)[0], "--format", "dump")
	if r.code != 0 || !strings.Contains(r.out, "worker 1") {
		t.Errorf("exit code %d, it said %q and printed %.200q", r.code, r.err, r.out)
	}
}

// TestRecordWhenUsage: `ddtop record --when` refuses wrong arguments before it attaches to a process or writes a file.
func TestRecordWhenUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		args string
		says string
	}{
		{"--when gvl_hug -o " + dir, "did you mean gvl_hog?"},
		{"--when held_share>1.5 -o " + dir, "more than all of it"},
		{"--when gvl_hog", "needs -o FOLDER"},
		{"--when gvl_hog -o -", "needs -o FOLDER"},
		{"--when gvl_hog -o " + file, "is a file"},
		{"--when gvl_hog --size 10kB -o " + dir, "takes 1MB or more"},
		{"--when gvl_hog --size 999999 -o " + dir, "takes 1MB or more"},
		{"--when gvl_hog --keep 0 -o " + dir, "--keep takes 1 to"},
		{"--when gvl_hog --format svg -o " + dir, "writes recordings"},
		{"--when gvl_hog --metric cpu -o " + dir, "does not go with --when"},
		{"--when gvl_hog --longest 10s --after 1m -o " + dir, "is shorter than --after"},
		{"--when gvl_hog --before 1h -o " + dir, "it takes"},
		{"--before 3s -o " + file, "goes with --when"},
		{"--json -o " + file, "goes with --when"},
	} {
		r := run(t, append([]string{"record", "-p", pid}, strings.Fields(c.args)...)...)
		if r.code != 2 || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: exit code %d, it said %q, want %q", c.args, r.code, r.err, c.says)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || !slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == "file" }) || len(list) != 1 {
		t.Errorf("left are %v, %v", list, err)
	}
}
