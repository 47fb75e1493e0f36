package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
)

// inFolder starts ddtop in a pseudo-terminal, in a folder on a disk that can hang. A shell changes to this folder.
// exec.Cmd must not do this in the test's process: the test is the server of the disk's file system, so it must never
// wait for the disk.
func inFolder(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	return programInTerminal(t, "/bin/sh", append([]string{"-c", `cd "$1" && shift && exec "$@"`, "sh", dir, ddtop}, args...)...)
}

// ends waits until a process that was told to end calls exit. Then it releases the hanging disk. Until the release, the
// first thread of the process may be unable to end. The reason is that the kernel closes a file on FUSE, and waits for
// the file system's server. No signal ends this wait (fuse_flush, FR_FORCE, Linux 6.18).
func ends(t *testing.T, pid int, disk *stuckfs.FS) {
	t.Helper()
	defer disk.Release()
	awaitExit(t, pid)
}

// awaitExit waits until a process that was told to end calls exit. It does not wait until the kernel has removed the
// process.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	for begun := time.Now(); !exits(t, pid); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > quitWithin {
			t.Errorf("it did not end within %v", quitWithin)
			return
		}
	}
}

// exits reports whether a process has called exit. The first thread may wait for the disk and be unable to end, so it
// cannot show this. But exit sends SIGKILL to all other threads (zap_other_threads, kernel/signal.c). So a pending
// SIGKILL of another thread shows that exit was called.
func exits(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if err != nil || len(fields) < 7 {
		t.Fatalf("process %d: %q, %v", pid, stat, err)
	}
	const exiting = 4 // the kernel's flag PF_EXITING
	if flags, err := strconv.ParseUint(fields[6], 10, 64); err != nil || flags&exiting != 0 {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ = strings.Cut(string(status), "SigPnd:\t")
	if err != nil || after == "" {
		t.Fatalf("process %d: %q, %v", pid, status, err)
	}
	line, _, _ := strings.Cut(after, "\n")
	pending, err := strconv.ParseUint(line, 16, 64)
	if err != nil {
		t.Fatalf("process %d: SigPnd %q: %v", pid, line, err)
	}
	return pending&(1<<(unix.SIGKILL-1)) != 0
}

// TestScreenRecordsToADiskThatHangs: the screen records to a disk that hangs. The screen goes on, and a key or a signal
// still ends ddtop. ddtop reports which samples the recording lacks.
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

// missingSaid matches the text on the screen about samples that the recording lacks because the disk is too slow.
var missingSaid = regexp.MustCompile(`the disk is slow: ([0-9,.kM ]+) samples`)

// TestScreenRecordsToASlowDisk: if each write to the disk takes 300 ms, no samples are missing. If the disk accepts
// nothing for a while, the screen shows how many samples are missing. Meanwhile ddtop goes on sampling, so the number
// grows.
func TestScreenRecordsToASlowDisk(t *testing.T) {
	rubytest.Long(t)
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	disk := stuckfs.Mount(t)
	disk.Slow(300 * time.Millisecond)
	x := inFolder(t, disk.Dir, "-p", strconv.Itoa(p.PID))
	x.see(t, "spinner")
	x.press(t, "W")
	x.see(t, "W ends it")
	for range 4 {
		before := disk.Written()
		until(t, func() bool { return disk.Written() > before }, "a block more")
	}
	x.press(t, "2\x0c")
	x.seeWords(t, "current frame")
	x.press(t, "W")
	until(t, func() bool { return strings.Contains(x.raw(), "\x1b]52;c;") }, "the path in the clipboard, there is %q", tail(x))
	if strings.Contains(x.text(), "missing") || missingSaid.MatchString(x.text()) {
		t.Errorf("something is missing: %s", tail(x))
	}

	x.forget()
	x.press(t, "W")
	x.see(t, "W ends it")
	disk.Stick()
	said := make(map[string]bool)
	for deadline := time.Now().Add(limit); len(said) < 2 && time.Now().Before(deadline); {
		x.see(t, "samples are missing in the recording")
		for _, m := range missingSaid.FindAllStringSubmatch(x.text(), -1) {
			said[m[1]] = true
		}
		x.forget()
	}
	if len(said) < 2 {
		t.Errorf("it said %v: it samples no more", said)
	}
	disk.Release()
	x.press(t, "W")
	x.see(t, "samples are missing: the disk was too slow)")
	x.press(t, "q")
	x.leaves(t, 0)
}

// TestScreenRecordsToAFullDisk: if the disk of a recording is full, the screen shows this and goes on. The part of the
// recording that was already written is readable.
func TestScreenRecordsToAFullDisk(t *testing.T) {
	rubytest.Long(t)
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	dir := smallDisk(t)
	x := inFolder(t, dir, "-p", strconv.Itoa(p.PID), "--overhead", "off")
	x.see(t, "spinner")
	x.press(t, "W")
	x.see(t, ".ddtop:") // the message can take two rows
	x.see(t, "device")
	if strings.Contains(x.text(), "/proc/self") {
		t.Errorf("the file is not called by its name: %s", tail(x))
	}
	x.press(t, "2\x0c")
	x.seeWords(t, "current frame")
	awaitTicks(t, x.cmd.Process.Pid)
	x.press(t, "q")
	x.leaves(t, 1)
	if !strings.Contains(x.text(), "no space left on device") {
		t.Errorf("it does not say why: %s", tail(x))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.ddtop"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	readable(t, files[0])
}

// TestRecordToADiskThatHangs: if the disk hangs, a signal still ends `ddtop record`. ddtop reports which samples are
// missing, and which file has the other samples.
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
			cmd, out, errs := prepare(t.Context(), "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--overhead", "off", "--format", "ddtop", "-o", path)
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

// TestRecordToADiskThatDoesNotConfirm: all samples are written, but the disk takes long to confirm that they are
// stored, as a busy disk does. If the file is new, it is complete, and `ddtop record` says that the disk has not
// confirmed it. If the file would replace an existing one, ddtop fails with the same message.
func TestRecordToADiskThatDoesNotConfirm(t *testing.T) {
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, replaces := range []bool{false, true} {
		disk := stuckfs.Mount(t)
		path, code := filepath.Join(disk.Dir, "x.ddtop"), 0
		says := "wrote " + path + ". The disk has not confirmed it within 1.5s"
		if replaces {
			path, code = disk.File("x.ddtop"), 1
			says = "the disk was too slow: all was written, but the disk has not confirmed the file"
		}
		cmd, out, errs := prepare(t.Context(), "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--overhead", "off", "--format", "ddtop", "-o", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return disk.Written() > 0 }, "the process's block")
		first := disk.Written()
		until(t, func() bool { return disk.Written() > first }, "a block of samples")
		disk.StickSync()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		ends(t, cmd.Process.Pid, disk)
		if r := finish(t, cmd, out, errs); r.code != code || strings.Count(r.err, says) != 1 {
			t.Errorf("exit code %d, it said %q, not %q", r.code, r.err, says)
		}
	}
}
