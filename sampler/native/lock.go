package native

import (
	"errors"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// LockWait describes a lock of C code for which a thread waits, and the code that wants the lock.
type LockWait struct {
	// Mutex is true if the lock is a pthread_mutex_t, which stores its owner. LowLevel is true if the lock belongs to
	// the C library itself and does not store its owner. If both are false, the kind is unknown, because the functions
	// on the stack have no names.
	Mutex, LowLevel bool
	// Function is the outermost of the library's functions through which other code came to wait for the lock. It is
	// empty if the function has no name. Library and Path name the library's file.
	Function, Library, Path string
	// start is the address of the function that called the locking function. It is zero if this address is not known.
	start uint64
}

// maxLockFrames limits how many frames of a stack are searched for the function that locks. The search begins at the
// system call, and goes from each function of the C library to its caller.
const maxLockFrames = 8

// WaitsFor returns the kind of lock for which a thread waits. It derives the kind from the functions on the thread's
// stack, innermost first.
func WaitsFor(frames []sampler.NativeFrame) (w LockWait) {
	behind := 0 // index of the first frame that does not belong to the lock's own functions
	for i := range frames[:min(len(frames), maxLockFrames)] {
		switch name := plain(frames[i].Name); {
		case strings.HasPrefix(name, "lll_lock_wait"):
			w.LowLevel, behind = true, i+1
		case strings.HasPrefix(name, "pthread_mutex_"), strings.HasPrefix(name, "pthread_cond_"):
			w.Mutex, w.LowLevel, behind = true, false, i+1
		}
	}
	// From glibc 2.41 on, the function that waits for a low-level lock has no name. All functions that lock mutexes
	// have names. So if the innermost function has no name, the thread waits for a low-level lock.
	if behind == 0 && len(frames) > 0 && (frames[0].Library == "libc" || frames[0].Library == "libpthread") {
		w.LowLevel, behind = true, 1
	}
	if behind >= len(frames) {
		return w
	}
	first := &frames[behind]
	w.Library, w.Path, w.start = first.Library, first.Path, first.Function
	for i := behind; i < len(frames) && frames[i].Path == first.Path; i++ {
		if frames[i].Name != "" {
			w.Function = frames[i].Name
		}
	}
	return w
}

// plain removes from a function's name the additions that are common in internal names of the C library. For example,
// __libc_read and read64 become read.
func plain(name string) string {
	name = strings.TrimLeft(name, "_")
	for _, prefix := range [...]string{"libc_", "GI_"} {
		name = strings.TrimLeft(strings.TrimPrefix(name, prefix), "_")
	}
	return strings.TrimSuffix(name, "64")
}

// sleeps has the functions of the C library in which threads sleep. While a thread sleeps in one of them, it holds none
// of the C library's own locks.
var sleeps = set(`poll ppoll select pselect epoll_wait epoll_pwait read readv pread preadv write writev pwrite
	recv recvfrom recvmsg send sendto sendmsg accept accept4 connect nanosleep clock_nanosleep usleep sleep pause
	pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait sem_wait sem_timedwait sem_clockwait syscall
	wait waitpid wait3 wait4 waitid sigwait sigwaitinfo sigtimedwait sigsuspend flock fsync fdatasync open openat
	ioctl fcntl pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_clocklock pthread_join
	pthread_clockjoin_np pthread_timedjoin_np eventfd_read`)

// starts has the functions of the C library with which a thread or a program begins. They call the main function of the
// thread or program, and hold no lock.
var starts = set("start_main start_main_impl start_thread clone clone3")

func set(names string) map[string]bool {
	m := make(map[string]bool)
	for _, name := range strings.Fields(names) {
		m[name] = true
	}
	return m
}

// In reports whether a thread is in the function that called the locking function. A thread in this function may hold
// the lock.
func (w *LockWait) In(frames []sampler.NativeFrame) bool {
	return w.start != 0 && slices.ContainsFunc(frames, func(f sampler.NativeFrame) bool {
		return f.Function == w.start && f.Path == w.Path
	})
}

// MayHold reports whether a thread may hold a lock of the C library. path is the library's file. A thread holds such a
// lock only while it runs code of the library. stopped says why the stack is incomplete (Stack.Stopped). It is nil if
// the stack is complete.
func MayHold(frames []sampler.NativeFrame, stopped error, path string) bool {
	if stopped != nil && !outsideBeyond(stopped, frames, path) || len(frames) == 0 {
		return true
	}
	for i := 0; i < len(frames); {
		from := i
		for i++; i < len(frames) && frames[i].Path == frames[from].Path; i++ {
		}
		if frames[from].Path != path {
			continue
		}
		outer := ""
		for _, f := range frames[from:i] {
			if f.Name != "" {
				outer = plain(f.Name)
			}
		}
		switch {
		case from == 0 && i < len(frames) && frames[i-1].Name != "" && sleeps[outer]:
		case from > 0 && (i == len(frames) && stopped == nil || starts[outer] && i+1 >= len(frames)):
		default:
			return true
		}
	}
	return false
}

// outsideBeyond is for a stack whose outer functions ddtop could not read. It reports whether these functions certainly
// hold no lock of the C library. This depends on the last function that was read. While the C library holds a lock, it
// calls no Ruby code. It also calls no other libraries, except libraries that look up names.
func outsideBeyond(stopped error, frames []sampler.NativeFrame, path string) bool {
	if errors.Is(stopped, errJIT) {
		return true
	}
	var unknown unknownRegister
	if !errors.As(stopped, &unknown) || len(frames) == 0 {
		return false
	}
	last := &frames[len(frames)-1]
	return last.Path != path && !strings.HasPrefix(last.Library, "libnss")
}
