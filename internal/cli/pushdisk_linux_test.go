package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
)

// sleepingRuby starts a Ruby that only sleeps, so that `ddtop push` has a process to follow.
func sleepingRuby(t *testing.T) *rubytest.Process {
	t.Helper()
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")
	return ruby
}

// startIntake starts a server in place of a Datadog agent, and returns it and its URL.
func startIntake(t *testing.T) (*datadogIntake, string) {
	t.Helper()
	in := new(datadogIntake)
	s := httptest.NewServer(in)
	t.Cleanup(s.Close)
	return in, "datadog://" + strings.TrimPrefix(s.URL, "http://")
}

// follow checks that each profile arrived once and begins at the time at which the previous one ended. All profiles
// must be of the same process.
func (d *datadogIntake) follow(t *testing.T) {
	t.Helper()
	list := d.uploads()
	for i, u := range list {
		if u.tag("profile_seq") != strconv.Itoa(i) || i > 0 && u.event.Start != list[i-1].event.End {
			t.Errorf("profile %d has number %s and begins at %s", i, u.tag("profile_seq"), u.event.Start)
		}
	}
}

// TestPushWithASpoolThatHangs: each destination has a folder of unsent profiles (spool). If the disk with the spool of
// one destination does not answer, `ddtop push` still samples. It also sends to the other destination, and SIGTERM
// still ends it.
func TestPushWithASpoolThatHangs(t *testing.T) {
	t.Parallel()
	ruby := sleepingRuby(t)
	in, to := startIntake(t)
	spool := t.TempDir()
	const dead = "datadog://127.0.0.1:1"
	args := []string{"-p", strconv.Itoa(ruby.PID), "--to", dead, "--period", "1s", "--spool", spool}
	p := startPush(t, args...) // this first run only creates the folder
	p.await(t, "the spool", func() bool { return strings.Contains(p.log.String(), "sending failed") })
	p.end(t)
	found, err := filepath.Glob(filepath.Join(spool, "*127-0-0-1-1-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the dead one's spool: %v, %v", found, err)
	}
	disk := stuckfs.MountAt(t, found[0])
	p = startPush(t, append(args, "--to", to)...)
	p.await(t, "profiles", func() bool { return len(in.uploads()) > 1 })
	disk.Stick()
	p.await(t, "a disk that hangs", func() bool { return disk.Waiting() > 0 })
	n := len(in.uploads())
	p.await(t, "profiles while the disk hangs", func() bool { return len(in.uploads()) >= n+4 })
	if disk.Waiting() == 0 {
		t.Error("the disk has answered")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await(t, "its exit", func() bool { return exits(t, p.cmd.Process.Pid) })
	disk.Release() // the process can end only now: its end closes files, and for this the kernel waits for the disk
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v; it said:\n%s", err, p.log)
	}
	in.follow(t)
	if text := p.log.String(); !strings.Contains(text, "are lost") {
		t.Errorf("it said:\n%s", text)
	}
}

// TestPushWhereTheSpoolIsRemoved: if the folder of unsent profiles (spool) is removed, `ddtop push` makes it again and
// reports this. Later profiles are kept in the new folder.
func TestPushWhereTheSpoolIsRemoved(t *testing.T) {
	t.Parallel()
	ruby := sleepingRuby(t)
	in, to := startIntake(t)
	in.answers(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	spool := filepath.Join(t.TempDir(), "spool")
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", to, "--period", "1s", "--spool", spool)
	spooled := func() int {
		list, err := filepath.Glob(filepath.Join(spool, "*", "*.spooled"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	p.await(t, "what could not be sent", func() bool { return spooled() > 1 })
	tries := 0
	p.await(t, "its removal", func() bool { // try again, because ddtop may create files in the folder meanwhile
		tries++
		return os.RemoveAll(spool) == nil
	})
	p.await(t, "what could not be sent since", func() bool { return spooled() > 1 })
	p.end(t)
	if n := strings.Count(p.log.String(), "made again"); n < 1 || n > tries {
		t.Errorf("it said %d times that the folder was gone, which was removed %d times:\n%s", n, tries, p.log)
	}
}

// TestPushOnAFullDisk: if the disk has no room for unsent profiles or for files, `ddtop push` still sends profiles to
// the agent. When there is room again, push writes files again.
func TestPushOnAFullDisk(t *testing.T) {
	t.Parallel()
	ruby := sleepingRuby(t)
	in, to := startIntake(t)
	dir := t.TempDir()
	if err := unix.Mount("ddtop-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a disk of 1 MB (root can): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	fill := filepath.Join(dir, "foreign")
	foreign, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", to, "--to", "file://"+filepath.Join(dir, "profiles"), "--period", "1s", "--spool", filepath.Join(dir, "spool"))
	written := func() int { return len(profilesIn(t, filepath.Join(dir, "profiles"))[ruby.PID]) }
	p.await(t, "profiles at both", func() bool { return len(in.uploads()) > 0 && written() > 0 })
	for size := 4096; size > 0; { // fill the disk to the last byte
		if _, err = foreign.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		t.Fatal(err)
	}
	n := len(in.uploads())
	p.await(t, "profiles at the agent from a full disk", func() bool { return len(in.uploads()) >= n+3 })
	p.await(t, "that the files can't be written", func() bool { return strings.Contains(p.log.String(), "sending failed") })
	before := written()
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if err := foreign.Close(); err != nil {
		t.Fatal(err)
	}
	p.await(t, "files where there is room again", func() bool { return written() > before+3 })
	p.end(t)
	// If the full disk has no room for a new profile, `ddtop push` drops an unsent profile. All other profiles arrive
	// once and in order.
	last := -1
	for _, u := range in.uploads() {
		seq, err := strconv.Atoi(u.tag("profile_seq"))
		if err != nil || seq <= last {
			t.Errorf("profile %d came after %d: %v", seq, last, err)
		}
		last = seq
	}
	list := profilesIn(t, filepath.Join(dir, "profiles"))[ruby.PID]
	for i := range list[1:] {
		if list[i+1].TimeNanos < list[i].TimeNanos+list[i].DurationNanos {
			t.Errorf("file %d begins before the one before ended", i+1)
		}
	}
}

// TestPushEndsThoughNobodyAnswers: `ddtop push` has two destinations, a server that hangs and one that does not exist.
// SIGTERM still ends ddtop. The profiles stay on the disk, in the spool. When ddtop starts the next time, it sends all
// of them.
func TestPushEndsThoughNobodyAnswers(t *testing.T) {
	t.Parallel()
	ruby := sleepingRuby(t)
	in, to := startIntake(t)
	hangs, asked := make(chan struct{}), make(chan struct{}, 100)
	in.answers(func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-hangs
		return true
	})
	args := []string{"-p", strconv.Itoa(ruby.PID), "--to", to, "--to", "datadog://127.0.0.1:1", "--period", "1s", "--spool", filepath.Join(t.TempDir(), "spool")}
	p := startPush(t, args...)
	<-asked
	begun := time.Now()
	p.end(t) // `ddtop push` must end without an answer of the server
	t.Logf("it took %v", time.Since(begun))
	// `ddtop push` must end within five seconds. If a slow disk takes all of this time, the last profile is lost, and
	// push reports this.
	if text := p.log.String(); strings.Count(text, "are left in the spool") != 2 && !strings.Contains(text, "are lost") {
		t.Errorf("it said:\n%s", text)
	}
	in.answers(nil)
	close(hangs)
	p = startPush(t, args...)
	// The number of profiles that the first run left is not known. So the test waits only until the first profile of
	// each run has arrived.
	p.await(t, "the first profile of each run", func() bool {
		runs := 0
		for _, u := range in.uploads() {
			if u.tag("profile_seq") == "0" {
				runs++
			}
		}
		return runs == 2
	})
	p.end(t)
	list := in.uploads()
	for i, u := range list {
		if u.tag("profile_seq") != "0" && u.event.Start != list[i-1].event.End {
			t.Errorf("profile %d begins at %s, after the end at %s", i, u.event.Start, list[i-1].event.End)
		}
	}
}
