package moves

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// sleeping starts a thread that sleeps n times after start, and then ends. It returns the thread's tid.
func sleeping(t *testing.T, n int) (tid int32, start chan<- struct{}, slept, ended <-chan struct{}) {
	t.Helper()
	tids, begin, done, over := make(chan int32), make(chan struct{}), make(chan struct{}), make(chan struct{})
	attach.OnOwnThread(func() { // the thread ends with the function
		defer close(over)
		tids <- int32(unix.Gettid())
		<-begin
		for range n {
			ts := unix.NsecToTimespec(2e6)
			_ = unix.Nanosleep(&ts, nil)
		}
		close(done)
		<-begin
	})
	return <-tids, begin, done, over
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

// TestMoves: the events report that a thread gets a CPU exactly as often as the kernel counts. Getting and losing a CPU
// alternate, at ascending times. The thread's end is reported, too.
func TestMoves(t *testing.T) {
	const n = 50
	tid, start, slept, ended := sleeping(t, n)
	m := Open(os.Getpid())
	defer m.Close()
	if err := m.Follow(tid); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	tasks, err := kernel.OpenTasks(os.Getpid(), sampler.NewDictionary())
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	turns := func() int64 {
		cpu, err := tasks.CPU(tid)
		if err != nil {
			t.Fatal(err)
		}
		return cpu.Turns
	}
	before, from := turns(), monotonic(t)
	start <- struct{}{}
	<-slept
	var all []Move
	take := func(of int32, e *Move) {
		if of != tid {
			t.Errorf("of thread %d", of)
		}
		all = append(all, *e)
	}
	read := func() int {
		if lost := m.Read(take); lost != 0 {
			t.Errorf("%d lost", lost)
		}
		return len(slices.DeleteFunc(slices.Clone(all), func(e Move) bool { return e.Kind != In }))
	}
	// The thread may not have reached its last sleep yet. So the test waits until there are as many events as the
	// kernel counts.
	in, is := read(), turns()-before
	for deadline := time.Now().Add(rubytest.Timeout); int64(in) != is && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		in, is = read(), turns()-before
	}
	if int64(in) != is || in < n {
		t.Errorf("%d times on a CPU by events, %d by the kernel's count; it slept %d times", in, is, n)
	}
	on, last, asleep := false, from, int64(0)
	for _, e := range all {
		if e.NS < last || (e.Kind == In) == on {
			t.Fatalf("%+v after %d, on a CPU: %v", e, last, on)
		}
		if e.Kind == In && last != from {
			asleep += e.NS - last
		}
		on, last = e.Kind == In, e.NS
	}
	if asleep < (n-1)*2e6 || last > monotonic(t) {
		t.Errorf("%d ns without a CPU in %d sleeps of 2 ms, the last event %d ns ago", asleep, n, monotonic(t)-last)
	}
	close(start)
	<-ended
	for deadline := time.Now().Add(rubytest.Timeout); m.Len() > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		read()
	}
	if m.Len() != 0 || !slices.ContainsFunc(all, func(e Move) bool { return e.Kind == Ended }) {
		t.Errorf("%d threads are followed after the end", m.Len())
	}
	if err := m.Follow(tid); !errors.Is(err, kernel.ErrGone) {
		t.Errorf("of a thread that has ended: %v", err)
	}
}

// TestMovesTellOfChildren: when a followed thread starts another thread, ddtop gets an event that names the new thread
// (Move.Child).
func TestMovesTellOfChildren(t *testing.T) {
	m := Open(os.Getpid())
	defer m.Close()
	want, child := make(chan int32), int32(0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tids, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range tids { // any of these threads may start the next one
		tid, _ := strconv.Atoi(d.Name())
		if err := m.Follow(int32(tid)); err != nil && !errors.Is(err, kernel.ErrGone) {
			rubytest.Skip(t, "%v", err)
		}
	}
	made := make(map[int32]bool)
	for range 20 { // some of these goroutines run on idle threads
		go func() {
			runtime.LockOSThread()
			want <- int32(unix.Gettid())
		}()
		child = <-want
		m.Read(func(_ int32, e *Move) {
			if e.Kind == Started {
				made[e.Child] = true
			}
		})
		if made[child] {
			return
		}
	}
	t.Errorf("thread %d is not among those that were made: %v", child, made)
}

// TestMovesAreBounded: if a thread's buffer for events is full, ddtop counts the lost events and continues to read. If
// ddtop has too few descriptors to follow another thread, Follow returns an error with the reason.
func TestMovesAreBounded(t *testing.T) {
	tid, start, slept, _ := sleeping(t, 0)
	m := Open(os.Getpid())
	defer m.Close()
	if err := m.Follow(tid); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	m.room = 1
	if err := m.Follow(int32(unix.Gettid())); !errors.Is(err, Err) {
		t.Errorf("beyond the room: %v", err)
	}
	start <- struct{}{}
	<-slept
	r := m.rings[tid]
	// The test makes up the record that the kernel writes about lost events if the ring buffer is full.
	var e Move
	b := make([]byte, 32)
	copy(b, []byte{recordLost, 0, 0, 0, 0, 0, 32, 0})
	b[16] = 7
	if lost := takeMove(b, func(x *Move) { e = *x }); lost != 7 || e != (Move{}) {
		t.Errorf("%d lost, %+v", lost, e)
	}
	if len(r.mem) > (1+pagesFor(0))*os.Getpagesize() {
		t.Errorf("%d bytes", len(r.mem))
	}
}

// TestMovesGrow: if a thread's buffer was too small for its events, ddtop makes the buffer larger. The same number of
// events then fits.
func TestMovesGrow(t *testing.T) {
	const n = 200 // each sleep makes two events, so the events of all sleeps need more than a page
	m := Open(os.Getpid())
	defer m.Close()
	tids, begin, done := make(chan int32), make(chan int), make(chan struct{})
	attach.OnOwnThread(func() {
		tids <- int32(unix.Gettid())
		for sleeps := range begin {
			for range sleeps {
				ts := unix.NsecToTimespec(1e6)
				_ = unix.Nanosleep(&ts, nil)
			}
			done <- struct{}{}
		}
	})
	tid := <-tids
	defer close(begin)
	if err := m.Follow(tid); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	r, err := m.rings[tid], error(nil)
	_ = unix.Munmap(r.mem)
	if r.mem, err = mapMoves(r.fd, leastMovePages); err != nil {
		t.Fatal(err)
	}
	after := func(sleeps int) uint64 {
		begin <- sleeps
		<-done
		return m.Read(func(int32, *Move) {})
	}
	first := after(n)
	if first == 0 {
		t.Error("that events were lost is known with the next one only")
	}
	if got := len(r.mem) / os.Getpagesize(); got != 1+mostMovePages {
		rubytest.Skip(t, "the kernel gives no more than %d pages", got)
	}
	after(n)
	if lost := after(2); lost != first {
		t.Errorf("%d more events were lost", lost-first)
	}
}

// TestMovesRefused: if the kernel refuses to report events, the error of Follow has the reason. This can be a filter of
// system calls, as in containers, or a setting of the machine. If too many files are open, the error says what to do.
func TestMovesRefused(t *testing.T) {
	m := &Moves{pid: 1, rings: map[int32]*moveRing{}}
	for err, want := range map[error]error{unix.EPERM: Err, unix.EACCES: Err, unix.ENOSYS: Err, unix.EMFILE: Err, unix.ESRCH: kernel.ErrGone, unix.EINVAL: Err} {
		if got := m.refusal(5, err); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := m.refusal(5, unix.EMFILE); !strings.Contains(got.Error(), "raise ulimit -n") {
		t.Errorf("%v, which does not say what to do", got)
	}
}

// FuzzMoves: reading any bytes as a record does not panic.
func FuzzMoves(f *testing.F) {
	f.Add([]byte{14, 0, 0, 0, 0, 0x20, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= recordHeader {
			takeMove(b, func(e *Move) { _ = fmt.Sprint(*e) })
		}
	})
}
