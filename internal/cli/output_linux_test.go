package cli_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// notes is a buffer that the test can read while a program still writes to it.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// TestPipeWithoutReader: if the output is a named pipe that no process reads, ddtop waits for a reader and says so.
// ctrl-c ends the waiting with an error. If a reader comes, it gets all of the output.
func TestPipeWithoutReader(t *testing.T) {
	t.Parallel()
	path, pid := record(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"a report":    {"report", path, "--json", "-o", pipe},
		"a recording": {"record", "-p", strconv.Itoa(pid), "-d", "60s", "--format", "ddtop", "-o", pipe},
	} {
		cmd, out, _ := prepare(t.Context(), args...)
		var errs notes
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return strings.Contains(errs.String(), "waiting for a program that reads "+pipe) }, "%s waits", name)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		r := finish(t, cmd, out, &errs.text)
		if r.code != 1 || !strings.Contains(r.err, pipe+" can't be written: no program reads from this pipe") {
			t.Errorf("%s: exit code %d, it said %q", name, r.code, r.err)
		}
	}
	cmd, _, errs := prepare(t.Context(), "report", path, "--json", "-o", pipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, cmd, new(bytes.Buffer), errs).want(t, 0)
	checkStat(t, pid, string(got))
}

// readable checks that a file is a recording with samples. The recording may be incomplete.
func readable(t *testing.T, path string) {
	t.Helper()
	r := run(t, "report", path, "--format", "dump")
	if r.code != 0 || !strings.Contains(r.out, "spinner") {
		t.Errorf("report %s: exit code %d, it said %q and printed %.200q", path, r.code, r.err, r.out)
	}
}

// TestKilledRecording: if ddtop is killed while it records over an existing file, that file keeps its content. The
// samples so far are in a file with the ending .partial, and ddtop report can read it.
func TestKilledRecording(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	path := filepath.Join(t.TempDir(), "old.ddtop")
	if err := os.WriteFile(path, []byte("what was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out, errs := prepare(t.Context(), "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--overhead", "off", "--format", "ddtop", "-o", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		info, err := os.Stat(path + ".partial")
		return err == nil && info.Size() > 8<<10
	}, "some blocks of a recording")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	finish(t, cmd, out, errs)
	if text, err := os.ReadFile(path); err != nil || string(text) != "what was there" {
		t.Errorf("%s holds %.40q, %v", path, text, err)
	}
	readable(t, path+".partial")
}

// smallDisk mounts a file system of 32 KB that is unmounted at the end of the test. If it cannot mount one, it skips
// the test.
func smallDisk(t *testing.T) (dir string) { return diskOf(t, "32k") }

// diskOf mounts a file system of the given size that is unmounted at the end of the test. If it cannot mount one, it
// skips the test.
func diskOf(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("ddtop-test", dir, "tmpfs", 0, "size="+size); err != nil {
		rubytest.Skip(t, "mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestRecordingOnAFullDisk: if the disk is full, `ddtop record` fails and names the file that holds the samples so far.
// If the recording would replace an existing file, this file keeps its content, and the samples are in a file with the
// ending .partial. In either case, `ddtop report` can read the samples.
func TestRecordingOnAFullDisk(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	record := func(path, says string) {
		t.Helper()
		r := run(t, "record", "-p", strconv.Itoa(p.PID), "-d", "10m", "--overhead", "off", "--format", "ddtop", "-o", path)
		if r.code != 1 || !strings.Contains(r.err, "no space left on device") || strings.Count(r.err, says+"\n") != 1 || strings.Contains(r.err, "/proc/self") {
			t.Errorf("exit code %d, it said %q, not %q", r.code, r.err, says)
		}
	}
	path := filepath.Join(smallDisk(t), "new.ddtop")
	record(path, "what was measured until then is in "+path)
	readable(t, path)

	path = filepath.Join(smallDisk(t), "old.ddtop")
	if err := os.WriteFile(path, []byte("what was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	record(path, path+" is as it was; what was measured is in "+path+".partial")
	if text, err := os.ReadFile(path); err != nil || string(text) != "what was there" {
		t.Errorf("%s holds %.40q, %v", path, text, err)
	}
	readable(t, path+".partial")
}
