package foreigntest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// helperMode is the name of an environment variable. If it is set, this test binary runs no tests, but calls one
// function. If its value is "enter", this is the function enter. If it is "look", this is the function look with two
// arguments, a PID and a file. "drop" does the same as "look", but first gives up the capabilities that allow it to
// open deleted files.
const helperMode = "DDTOP_FOREIGN_HELPER"

func TestMain(m *testing.M) {
	mode := os.Getenv(helperMode)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := helper(mode); err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func helper(mode string) error {
	switch {
	case mode == "enter" && len(os.Args) > 4:
		return enter(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	case mode == "drop":
		return dropAndLook()
	case mode == "look" && len(os.Args) == 3:
		pid, err := strconv.Atoi(os.Args[1])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(look(pid, os.Args[2]))
	}
	return fmt.Errorf("no helper %q with %q", mode, os.Args[1:])
}

// These files are in the script's folder. With them, a test outside of the namespaces and its helper process inside
// exchange data.
const (
	askFile    = "truth.json"  // the test writes Ruby's report to this file, and then sends SIGUSR1
	answerFile = "answer.json" // the helper process writes its result to this file
)

// debugFolder is the folder of separate debug files. In the new mount namespace, another folder is mounted at this
// path.
const debugFolder = "/usr/lib/debug"

// enter runs as the first process of new PID and mount namespaces, as in a container. It makes the folder root its root
// (pivot_root). There it mounts a /proc and an empty debugFolder, into which it copies debugFile under the given build
// ID. enter then runs the program as a child in the current folder, and ends when the child ends. On SIGUSR1 it reads
// the program from inside the namespaces, as ddtop does.
func enter(root, debugFile, buildID string, program []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	inner, ok := strings.CutPrefix(dir, root)
	if !ok || len(buildID) < 3 {
		return fmt.Errorf("%s is not below %s, or no build id %q", dir, root, buildID)
	}
	debug, err := os.ReadFile(debugFile)
	if err != nil {
		return err
	}
	place := filepath.Join(root, debugFolder, ".build-id", buildID[:2])
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"bind " + root, func() error { return unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"mount proc", func() error { return unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, "") }},
		{"make " + debugFolder, func() error { return os.MkdirAll(filepath.Join(root, debugFolder), 0o755) }},
		{"mount tmpfs", func() error { return unix.Mount("tmpfs", filepath.Join(root, debugFolder), "tmpfs", 0, "") }},
		{"make " + place, func() error { return os.MkdirAll(place, 0o755) }},
		{"write a debug file", func() error { return os.WriteFile(filepath.Join(place, buildID[2:]+".debug"), debug, 0o644) }},
		{"enter " + root, func() error { return os.Chdir(root) }},
		{"pivot_root", func() error { return unix.PivotRoot(".", ".") }},
		{"unmount the old root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"enter " + inner, func() error { return os.Chdir(inner) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for range asked {
			if err := answer(cmd.Process.Pid); err != nil {
				fmt.Fprintln(os.Stderr, "helper:", err)
			}
		}
	}()
	return cmd.Wait()
}

// answer reads the program as ddtop does and writes the result to a file, as the answer to the test.
func answer(pid int) error {
	text, err := json.Marshal(look(pid, askFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(answerFile+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(answerFile+".new", answerFile)
}

// dropAndLook runs "look" without the capabilities that allow a process to open files behind /proc/PID/map_files. It
// first removes the capabilities from the bounding set. Then it calls exec, which removes them from the thread.
func dropAndLook() error {
	runtime.LockOSThread()
	for _, capability := range []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_CHECKPOINT_RESTORE} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	if err := os.Setenv(helperMode, "look"); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// runHelper runs this test binary as a helper process and returns the helper's result.
func runHelper(t *testing.T, mode string, args ...string) found {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), helperMode+"="+mode)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper %s %v: %v", mode, args, err)
	}
	var f found
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatalf("helper %s said %q: %v", mode, text, err)
	}
	return f
}

func itoa(n int) string { return strconv.Itoa(n) }
