package attach

import (
	"bytes"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// OnOwnThread calls work on an OS thread of its own, and returns at once. The thread ends when work returns. So a
// priority that work sets, or a process that it traces, does not affect other goroutines.
func OnOwnThread(work func()) {
	go func() {
		runtime.LockOSThread() // stays locked, so the thread ends. Go never ends the process's first thread.
		if unix.Gettid() != os.Getpid() {
			work()
			return
		}
		taken := make(chan struct{})
		go func() { // the new goroutine runs on another thread, because this goroutine occupies the first one
			runtime.LockOSThread()
			close(taken)
			work()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}

// ownTID returns the ID of the OS thread that runs the caller. A goroutine can move to another thread at any time
// unless it has called runtime.LockOSThread.
func ownTID() int32 { return int32(unix.Gettid()) }

// lacksCPU reports whether a thread of ddtop computes or waits for a CPU, for Go's scheduler or for another goroutine.
// It returns false if the thread is blocked in a system call (proc_pid_stat(5), proc_pid_syscall(5)). If tid is 0, the
// thread has not started yet, and the result is true.
func lacksCPU(tid int32) bool {
	if tid == 0 {
		return true
	}
	task := "/proc/self/task/" + strconv.Itoa(int(tid))
	text, err := os.ReadFile(task + "/syscall")
	if err != nil {
		return false
	}
	call, _, _ := bytes.Cut(text, []byte(" "))
	switch word := string(bytes.TrimSpace(call)); word {
	case "running", strconv.Itoa(unix.SYS_FUTEX):
		return true
	}
	stat, err := os.ReadFile(task + "/stat")
	i := bytes.LastIndexByte(stat, ')')
	return err == nil && i >= 0 && bytes.HasPrefix(stat[i+1:], []byte(" R"))
}
