package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
)

// mapsThenWaits is a program that maps the file named by its first line of input into its memory. After a second line,
// it maps more memory.
const mapsThenWaits = `$stdout.sync = true
file = File.open(STDIN.gets.chomp)
MAPPED = IO::Buffer.map(file, 4096, 0, IO::Buffer::READONLY)
puts "mapped"
STDIN.gets
MORE = "x" * 300_000_000
puts "done"
STDIN.read
`

// silencer is a Ruby process. Its method silence locks the memory of the process, so that a read of the memory hangs.
type silencer struct {
	*rubytest.Process
	disk *stuckfs.FS
	// page is an address in the process's memory at which a page of a file is mapped. The file is on a disk that can
	// hang.
	page int64
}

// startSilent starts a Ruby whose memory cannot be read until the test ends.
func startSilent(t *testing.T) *rubytest.Process {
	t.Helper()
	p := startSilencer(t, "")
	p.silence(t)
	return p.Process
}

// startSilencer starts a silencer. The Ruby process first runs the code in first.
func startSilencer(t *testing.T, first string) silencer {
	t.Helper()
	r := rubytest.One(t)
	if !r.AtLeast(3, 1) {
		rubytest.Skip(t, "IO::Buffer.map, with which the program maps a file, came with 3.1")
	}
	p := r.Start(t, first+mapsThenWaits, rubytest.Options{})
	dir := filepath.Join(p.HostDir, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := stuckfs.MountAt(t, dir)
	page := filepath.Base(disk.File("page"))
	p.Send(t, filepath.Join(p.Dir, "disk", page))
	p.Expect(t, "mapped")
	s := silencer{Process: p, disk: disk}
	until(t, func() bool {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(maps)) {
			if strings.HasSuffix(strings.TrimSpace(line), "/disk/"+page) {
				_, err := fmt.Sscanf(line, "%x-", &s.page)
				return err == nil
			}
		}
		return false
	}, "%s among the mappings", page)
	return s
}

// silence locks the memory of the process until the test ends or the disk is released. A reader reads a page of a file
// whose disk does not answer, and holds the process's mmap lock meanwhile. The process itself waits for this lock,
// because it maps more memory. `ps aux` hangs on such a process.
func (p silencer) silence(t *testing.T) {
	t.Helper()
	disk := p.disk
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	disk.Stick()
	go func() {
		_, err := mem.ReadAt(make([]byte, 1), p.page)
		read <- err
	}()
	t.Cleanup(func() {
		disk.Release()
		if err := errors.Join(<-read, mem.Close()); err != nil {
			t.Errorf("the page came at last, but: %v", err)
		}
	})
	until(t, func() bool { return disk.Waiting() > 0 }, "the reading of the page")
	p.Send(t, "map more")
	waitForState(t, p.PID, "D")
}

// TestQuitsWhileTheMemoryIsLocked: if the memory of the target is locked, ddtop's reads of it hang. A signal must make
// ddtop print at once what it has measured. ddtop's process ends only when the lock is free: one of its threads waits
// for the lock within process_vm_readv(2), and the kernel cannot end this wait.
func TestQuitsWhileTheMemoryIsLocked(t *testing.T) {
	p := startSilencer(t, "Thread.new { loop {} }\n") // a busy thread, because ddtop samples an idle process rarely
	measured, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer measured.Close()
	cmd, out, errs := prepare(t.Context(), "stat", "-d", "10m", "--overhead", "off", "-p", strconv.Itoa(p.PID))
	cmd.Stdout = measured
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTicks(t, cmd.Process.Pid)
	p.silence(t)
	awaitHang(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitExit(t, cmd.Process.Pid)
	if text, err := os.ReadFile(measured.Name()); err != nil || !strings.Contains(string(text), fmt.Sprintf("pid %d, ", p.PID)) {
		t.Errorf("it printed %.300q, %v", text, err)
	}
	waiting := 0
	for _, task := range tasksOf(t, cmd.Process.Pid) {
		if text, err := os.ReadFile(filepath.Join(task, "stat")); err == nil && strings.Contains(string(text), ") D ") {
			waiting++
		}
	}
	if waiting == 0 {
		t.Error("no thread of it waits: docs/internals/reading.md says that one does")
	}
	p.disk.Release()
	finish(t, cmd, out, errs).want(t, 0, "has not come back for")
}

// answersWithin limits how long a command may take although a process on the machine does not answer. The command must
// not hang.
const answersWithin = time.Minute

// runSoon is like run, but the command must end within answersWithin.
func runSoon(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
	defer cancel()
	cmd, out, errs := prepare(ctx, args...)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := finish(t, cmd, out, errs)
	t.Logf("%v took %v", args, time.Since(began))
	if ctx.Err() != nil {
		t.Fatalf("%v did not end within %v", args, answersWithin)
	}
	return r
}

func TestProcessThatDoesNotAnswer(t *testing.T) {
	healthy := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	healthy.Expect(t, "up")
	silent := startSilent(t)
	pid := strconv.Itoa(silent.PID)

	t.Run("ps", func(t *testing.T) {
		out := runSoon(t, "ps").out
		rows := make(map[string]string)
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 0 {
				rows[f[0]] = line
			}
		}
		if row := rows[pid]; !strings.Contains(row, "did not answer") {
			t.Errorf("its row is %q in\n%s", row, out)
		}
		if row := rows[strconv.Itoa(healthy.PID)]; !strings.Contains(row, "yes") || !strings.Contains(row, "script.rb") {
			t.Errorf("the healthy one's row is %q in\n%s", row, out)
		}
		if why := "it did not answer: reading /proc/" + pid + "/cmdline takes longer than 1s"; !strings.Contains(out, why) {
			t.Errorf("%q is missing in\n%s", why, out)
		}
	})
	t.Run("json", func(t *testing.T) {
		var list []struct {
			PID                int
			Readable, Answered bool
			Why                string `json:"why_not"`
			Title              string
		}
		if err := json.Unmarshal([]byte(runSoon(t, "ps", "--json").out), &list); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, p := range list {
			switch p.PID {
			case silent.PID:
				seen++
				if p.Readable || p.Answered || !strings.Contains(p.Why, "did not answer") || !strings.HasPrefix(p.Title, "ruby") {
					t.Errorf("it says %+v", p)
				}
			case healthy.PID:
				seen++
				if !p.Readable || !p.Answered || p.Why != "" || p.Title != "script.rb" {
					t.Errorf("of the healthy one it says %+v", p)
				}
			}
		}
		if seen != 2 {
			t.Errorf("%d of the two are in %+v", seen, list)
		}
	})
	t.Run("chooser", func(t *testing.T) {
		x := inTerminal(t)
		x.see(t, "Ruby processes")
		x.press(t, pid)
		x.see(t, "did not answer")
		x.press(t, "\x15"+strconv.Itoa(healthy.PID)) // ^U empties the line
		x.see(t, "script.rb")
		x.press(t, "\r")
		x.see(t, "spinner")
		x.press(t, "q")
		x.leaves(t, 0)
	})
	t.Run("attach", func(t *testing.T) {
		for _, args := range commandsOnPID(silent.PID) {
			t.Run(args[0], func(t *testing.T) {
				t.Parallel()
				runSoon(t, args...).want(t, 4, "did not answer", pid)
			})
		}
		runSoon(t, "stat", "-d", "0.1", "-p", strconv.Itoa(healthy.PID)).want(t, 0)
		runSoon(t, "dump", "nonsense-of-no-process").want(t, 4, "of those whose names could be read", "did not answer in time")
		x := inTerminal(t, "-p", pid)
		x.leaves(t, 4)
	})
	t.Run("ctrl-c", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if list, err := attach.List(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%d processes, %v", len(list), err)
		}
		cmd, _, _ := prepare(t.Context(), "ps")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
	})
}
