package attach

import (
	"bytes"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// OnOwnThread calls work on an OS thread of its own, and returns at once. The thread ends when work returns. The
// thread's priority and its tracing end with it.
func OnOwnThread(work func()) {
	go func() {
		runtime.LockOSThread() // stays locked, so the thread ends. Go never ends the process's first thread.
		if unix.Gettid() != os.Getpid() {
			work()
			return
		}
		taken := make(chan struct{})
		go func() { // runs on another thread, because this goroutine occupies the first
			runtime.LockOSThread()
			close(taken)
			work()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}

// ownTID returns the number of the OS thread that calls it, which a goroutine keeps only if it is locked to the thread.
func ownTID() int32 { return int32(unix.Gettid()) }

// lacksCPU reports whether a thread of ddtop is not blocked in a system call. Then it computes, or waits for a CPU,
// for Go's scheduler or for another goroutine. tid is 0 if the thread has not started (proc_pid_stat(5),
// proc_pid_syscall(5)).
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
