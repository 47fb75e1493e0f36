package group

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// TestFailedReadsAreNoEnd: the kernel refuses to open files, for several reasons that have nothing to do with the
// process. ddtop must never take such a failure for the end of the process. It must still notice when the process
// really ends.
func TestFailedReadsAreNoEnd(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	ended := false
	end := func() {
		if !ended {
			ended = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	defer end()
	p, err := attach.Open(pid)
	for errors.Is(err, attach.ErrNotLoaded) { // the process is still in exec
		p, err = attach.Open(pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	id, err := kernel.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	reasons := []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EACCES, unix.EIO}
	for _, reason := range reasons {
		g := new(Group)
		r := relativeOf(id)
		g.add(r)
		withoutFiles(t, reason, func() {
			if err := p.Check(); errors.Is(err, attach.ErrGone) || errors.Is(err, attach.ErrReplaced) {
				t.Errorf("%v: %v", reason, err)
			}
			if _, err := kernel.Identify(pid); !errors.Is(err, reason) || errors.Is(err, kernel.ErrGone) {
				t.Errorf("%v: it is identified with %v", reason, err)
			}
			if living := g.lookForEnds(); len(living) != 1 || !r.EndedAt.IsZero() || !strings.Contains(r.Why, "could not be looked at: ") {
				t.Errorf("%v: %d processes live, %q", reason, len(living), r.Why)
			}
		})
		if living := g.lookForEnds(); len(living) != 1 || r.Why != "" {
			t.Errorf("when files open again, %d processes live, %q", len(living), r.Why)
		}
	}
	end()
	for _, reason := range reasons {
		withoutFiles(t, reason, func() {
			if err := p.Check(); !errors.Is(err, attach.ErrGone) {
				t.Errorf("%v, and it has ended: %v", reason, err)
			}
		})
	}
	g := new(Group)
	g.add(relativeOf(id))
	if living := g.lookForEnds(); len(living) != 0 {
		t.Error("its end is not seen")
	}
}

// withoutFiles calls fn on a thread for which the kernel refuses to open files, with reason as the error.
func withoutFiles(t *testing.T, reason unix.Errno, fn func()) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_OPENAT},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(reason)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	failed := make(chan error)
	attach.OnOwnThread(func() { // the thread and its filter end with this function
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
				err = fmt.Errorf("a filter of system calls: %w", e)
			}
		}
		if err == nil {
			fn()
		}
		failed <- err
	})
	if err := <-failed; err != nil {
		rubytest.Skip(t, "%v", err)
	}
}

// TestSearchesRest: if a search for processes takes long, ddtop must wait longer before the next search. All searches
// together may take at most a hundredth of the time.
func TestSearchesRest(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 20 * time.Millisecond: 2 * time.Second, 50 * time.Millisecond: 5 * time.Second, time.Second: 10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			searches := 0
			g := &Group{opts: Options{Find: func(func(int) bool) []int {
				searches++
				time.Sleep(takes)
				return nil
			}}}
			g.lookForNew(nil)
			time.Sleep(want - 10*time.Millisecond)
			if g.lookForNew(nil); searches != 1 {
				t.Errorf("a search of %v is made again within %v", takes, want)
			}
			time.Sleep(20 * time.Millisecond)
			if g.lookForNew(nil); searches != 2 {
				t.Errorf("a search of %v is not made again after %v", takes, want)
			}
		})
	}
}
