package kernel

import (
	"errors"
	"sync"
	"syscall"

	"github.com/ddtop/ddtop/attach"
)

// livingRestNS is the shortest interval between two searches for a living task, in ns. A failed reading can mean that
// the task has ended, or only that the target has closed a descriptor. Without the limit, each closed descriptor would
// cause a search.
const livingRestNS = 100e6

// living is a /proc folder through which a process's memory, descriptors and cgroup can be read. It is /proc/PID at
// first. If the first thread ends by pthread_exit, it is the folder of another thread. Any goroutine may use it.
type living struct {
	pid, dir int // dir is /proc/PID

	mu     sync.Mutex
	fd     int // another task's folder, or noFD while dir is in use
	tid    int
	nextNS int64
}

func newLiving(pid, dir int) *living {
	l := &living{pid: pid, dir: dir, fd: noFD, tid: pid}
	l.move()
	return l
}

// open opens a file of the folder. If the task of the folder has ended, open first switches to another task's folder.
func (l *living) open(name string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fd, err := openAt(l.at(), name)
	if err != nil && errors.Is(&Error{Err: err}, ErrGone) && l.move() {
		fd, err = openAt(l.at(), name)
	}
	return fd, err
}

// moved switches to another task's folder if the task of the present folder has ended. It checks this at most once per
// livingRestNS, and reports whether the folder changed.
func (l *living) moved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := monotonic()
	if now < l.nextNS {
		return false
	}
	l.nextNS = now + livingRestNS
	return l.move()
}

// at returns the descriptor of the folder that is in use now. The caller holds mu.
func (l *living) at() int {
	if l.fd >= 0 {
		return l.fd
	}
	return l.dir
}

// move switches to another task's folder if the task of the present folder has ended. The caller holds mu, or is the
// folder's only user.
func (l *living) move() bool {
	var buf [1024]byte
	b, err := readWhole(l.at(), "stat", "stat", buf[:])
	if err == nil {
		if s, ok := parseStat(b); !ok || !s.ended() {
			return false
		}
	} else if !errors.Is(err, ErrGone) {
		return false
	}
	fd, tid, err := attach.OpenLiving(l.dir, l.pid)
	if err != nil {
		return false
	}
	closeFD(l.fd)
	l.fd, l.tid = fd, tid
	return true
}

// namespace returns the inode number of a namespace of the process, such as ns/net. It is zero if it cannot be read.
func (l *living) namespace(name string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return inodeOf(l.at(), name)
}

// task returns the TID of the task to which the folder belongs.
func (l *living) task() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tid
}

func (l *living) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	closeFD(l.fd)
	l.fd = noFD
}

// Exhausted reports whether an error means that ddtop, or the machine, has no descriptors or no memory left. Such an
// error says nothing about the target.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
