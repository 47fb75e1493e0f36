package pace

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
)

// TestMeter: a Meter counts the CPU time of its own thread and of its helper, and of no other thread. The test reads
// both threads' CPU times before and after the Meter does. The Meter's result must be between these readings.
func TestMeter(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// worker starts a thread. It takes CPU time when work is called.
	worker := func() (tid int, work func()) {
		tids, order, done := make(chan int), make(chan struct{}), make(chan struct{})
		attach.OnOwnThread(func() {
			tids <- unix.Gettid()
			for range order {
				from, err := threadCPU(unix.Gettid())
				for now := from; err == nil && now-from < 5e6; {
					now, err = threadCPU(unix.Gettid())
				}
				done <- struct{}{}
			}
		})
		t.Cleanup(func() { close(order) })
		return <-tids, func() { order <- struct{}{}; <-done }
	}
	first, workFirst := worker()
	second, workSecond := worker()
	_, workBeside := worker()
	sum := func(tids ...int) (ns int64) {
		for _, tid := range tids {
			one, err := threadCPU(tid)
			if err != nil {
				t.Fatal(err)
			}
			ns += one
		}
		return ns
	}
	own, helper := unix.Gettid(), first
	from := sum(own, first)
	m := NewMeter(func() int { return helper })
	to := sum(own, first)
	check := func(what string, began, ended int64, tids ...int) {
		least := sum(tids...) - ended
		got := m.Since()
		if most := sum(tids...) - began; got < least || got > most {
			t.Errorf("%s: %d ns, not %d to %d", what, got, least, most)
		}
	}
	workFirst()
	workSecond()
	workBeside()
	check("one helper", from, to, own, first)
	// Another thread becomes the helper. The Meter then counts all CPU time that the new helper has ever taken.
	from = sum(own)
	m.Since()
	to = sum(own)
	helper = second
	check("another helper", from, to, own, second)
	helper = 0
	from = sum(own)
	m.Since()
	to = sum(own)
	workFirst()
	check("no helper", from, to, own)
}
