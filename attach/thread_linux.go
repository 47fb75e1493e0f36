package attach

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnOwnThread calls work on an OS thread of its own, and returns at once. The thread ends when work returns. Its
// priority and its tracing, if work changed them, end with it.
func OnOwnThread(work func()) {
	go func() {
		runtime.LockOSThread() // never unlocked, but on the process's first thread, which Go never ends
		if unix.Gettid() != os.Getpid() {
			work()
			return
		}
		taken := make(chan struct{})
		go func() { // on another one, while this one is taken
			runtime.LockOSThread()
			close(taken)
			work()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}
