package cli_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
)

// inFolder starts ddtop in a pseudo-terminal, in a folder that a shell goes to: were it the test's own child that does, the
// test, which answers for the folder's disk, could stand still meanwhile.
func inFolder(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	return programInTerminal(t, "/bin/sh", append([]string{"-c", `cd "$1" && shift && exec "$@"`, "sh", dir, ddtop}, args...)...)
}

// ends waits until a process that was told to has ended, except for what the kernel waits for: closing a file on FUSE waits
// for its server whatever signal comes (fuse_flush, FR_FORCE, Linux 6.18), so that its first thread is ending until the disk
// is back.
func ends(t *testing.T, pid int, disk *stuckfs.FS) {
	t.Helper()
	defer disk.Release()
	awaitExit(t, pid)
}

// awaitExit waits until a process that was told to end calls exit, and not for what the kernel waits for then.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	begun := time.Now()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if err != nil || len(fields) < 7 {
			t.Fatalf("process %d: %q, %v", pid, stat, err)
		}
		const exiting = 4 // PF_EXITING
		if flags, err := strconv.ParseUint(fields[6], 10, 64); err != nil || flags&exiting != 0 {
			t.Logf("it took %v", time.Since(begun))
			return
		}
		if time.Since(begun) > quitWithin {
			t.Errorf("it did not end within %v", quitWithin)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestScreenRecordsToADiskThatHangs: the screen goes on, and is left by key and by signal, and what the recording lacks is said.
func TestScreenRecordsToADiskThatHangs(t *testing.T) {
	rubytest.Long(t)
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, c := range []struct {
		name  string
		leave func(x *terminal)
	}{
		{"q", func(x *terminal) { x.press(t, "q") }},
		{"W and q", func(x *terminal) { x.press(t, "Wq") }},
		{"SIGTERM", signalled(t, syscall.SIGTERM)},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := stuckfs.Mount(t)
			x := inFolder(t, disk.Dir, "-p", strconv.Itoa(p.PID))
			x.see(t, "spinner")
			x.press(t, "W")
			x.seeWords(t, "W ends it")
			until(t, func() bool { return disk.Written() > 0 }, "something written")
			disk.Stick()
			until(t, func() bool { return disk.Waiting() > 0 }, "a write that hangs")
			x.press(t, "2\x0c")
			x.seeWords(t, "current frame")
			c.leave(x)
			ends(t, x.cmd.Process.Pid, disk)
			x.leaves(t, 1)
			if !strings.Contains(x.text(), "the disk was too slow: the last ") {
				t.Errorf("it does not say what is missing: %s", tail(x))
			}
		})
	}
}

// TestRecordToADiskThatHangs: a signal ends it, and it says what is missing, and where the rest is.
func TestRecordToADiskThatHangs(t *testing.T) {
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			if s != syscall.SIGINT {
				rubytest.Long(t)
			}
			disk := stuckfs.Mount(t)
			path := disk.File("x.ddtop")
			cmd, out, errs := prepare(t.Context(), "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--format", "ddtop", "-o", path)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool { return disk.Written() > 0 }, "something written")
			disk.Stick()
			until(t, func() bool { return disk.Waiting() > 0 }, "a write that hangs")
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			ends(t, cmd.Process.Pid, disk)
			r := finish(t, cmd, out, errs)
			for _, says := range []string{"the disk was too slow: the last ", path + " is as it was; what was measured is in " + path + ".partial\n"} {
				if r.code != 1 || strings.Count(r.err, says) != 1 {
					t.Errorf("exit code %d, it said %q, not %q", r.code, r.err, says)
				}
			}
		})
	}
}
