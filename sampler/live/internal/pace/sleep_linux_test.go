package pace

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

func newTold() *Sleeper { return &Sleeper{told: true} }

// TestMonitorThread: monitorThread returns the thread of Go's scheduler that ddtop may slow down. This thread must run
// no goroutine, and must sleep as the scheduler's monitor thread does. The sleep alone does not prove that it is the
// right thread. Other threads may sleep like this for a moment, when they search for work.
func TestMonitorThread(t *testing.T) {
	tid, err := monitorThread()
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range workingThreads() {
		if strconv.Itoa(other) == tid {
			t.Fatalf("thread %s runs goroutines", tid)
		}
	}
	over := make(chan struct{})
	defer close(over)
	go func() { // keeps a processor in use, so that the monitor thread checks it
		for {
			select {
			case <-over:
				return
			default:
				newTold().sleepTold(Monotonic() + timerSleepNS)
			}
		}
	}()
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := os.ReadFile("/proc/" + tid + "/syscall")
		if err != nil {
			rubytest.Skip(t, "not every kernel has it: %v", err)
		}
		if strings.HasPrefix(string(text), strconv.Itoa(unix.SYS_NANOSLEEP)+" ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("thread %s of %d does not sleep as the monitor thread does: %s", tid, os.Getpid(), text)
		}
	}
	if err := slowMonitor(); err != nil {
		rubytest.Skip(t, "needs CAP_SYS_NICE: %v", err)
	}
	if text, err := os.ReadFile("/proc/" + tid + "/timerslack_ns"); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(monitorSlackNS) {
		t.Errorf("its slack is %q, %v", text, err)
	}
}

// workingThreads returns the TIDs of threads that run goroutines. It starts one goroutine more than there are threads,
// and locks each to its own thread. In this way it reaches the idle threads, too.
func workingThreads() (tids []int) {
	threads, _ := os.ReadDir("/proc/self/task") // if this fails, monitorThread fails too
	over := make(chan struct{})
	defer close(over)
	found := make(chan int)
	for range len(threads) + 1 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			found <- unix.Gettid()
			<-over
		}()
	}
	for range len(threads) + 1 {
		tids = append(tids, <-found)
	}
	return tids
}

// TestSleepLetsTheCollectorGo: while the clock's thread sleeps, Go's runtime stops and starts all goroutines
// repeatedly. The sleeping thread must not delay a stop.
func TestSleepLetsTheCollectorGo(t *testing.T) {
	rubytest.OftenEnough(t)
	for name, c := range map[string]struct {
		sleeper func() *Sleeper
		ns      int64
	}{"short": {newUntold, timerSleepNS}, "timer": {newUntold, 3 * timerSleepNS}, "told": {newTold, timerSleepNS}} {
		t.Run(name, func(t *testing.T) {
			// If each stop of the runtime had to wait for the end of the sleep, there would be at most two stops in a
			// sleep: one before it and one at its end.
			const enough = 4
			var sleeping atomic.Int64 // the number of the present sleep, or zero if the thread is awake
			done := make(chan struct{})
			var over atomic.Bool
			go func() {
				defer close(done)
				runtime.LockOSThread()
				sleep := c.sleeper()
				defer sleep.Close()
				for i := int64(1); !over.Load(); i++ {
					sleeping.Store(i)
					sleep.Until(Monotonic() + c.ns)
					sleeping.Store(0)
				}
			}()
			var m runtime.MemStats
			stops, last := 0, int64(0)
			for deadline := time.Now().Add(time.Minute); stops < enough && time.Now().Before(deadline); {
				now := sleeping.Load()
				runtime.ReadMemStats(&m)
				if now != last {
					stops, last = 0, now
				}
				if now != 0 && sleeping.Load() == now {
					stops++
				}
			}
			over.Store(true)
			<-done
			if stops < enough {
				rubytest.TooSeldom(t, "%d stops of the world within one sleep of %v", stops, time.Duration(c.ns))
			}
		})
	}
}

// TestSleepWithoutATimer: if no descriptor is left for a timer, the Sleeper still sleeps long enough.
func TestSleepWithoutATimer(t *testing.T) {
	broken := newUntold()
	broken.Close()
	for _, sleep := range []*Sleeper{{}, broken} {
		at := Monotonic() + 2*timerSleepNS
		sleep.Until(at)
		if early := at - Monotonic(); early > 10_000 {
			t.Errorf("woke up %v too early", time.Duration(early))
		}
	}
}

// TestSleepIsNotShort: if a signal interrupts a sleep, the sleep continues until its planned end. It must not be
// shorter.
func TestSleepIsNotShort(t *testing.T) {
	for name, sleeper := range map[string]func() *Sleeper{"told": newTold, "untold": newUntold} {
		t.Run(name, func(t *testing.T) { sleepsLongEnough(t, sleeper) })
	}
}

func sleepsLongEnough(t *testing.T, sleeper func() *Sleeper) {
	t.Helper()
	done := make(chan int64)
	go func() {
		runtime.LockOSThread()
		sleep := sleeper()
		defer sleep.Close()
		worst := int64(0)
		for i := range 20 {
			at := Monotonic() + int64(1+i*3)*1_000_000
			sleep.Until(at)
			worst = min(worst, Monotonic()-at)
		}
		done <- worst
	}()
	for {
		select {
		case worst := <-done:
			if worst < -10_000 { // -10 µs: the two clocks differ by less than this (epoch)
				t.Errorf("woke up %v too early", time.Duration(-worst))
			}
			return
		default:
			runtime.GC() // a collection sends signals
		}
	}
}

// TestSleepEnds: a long sleep ends when the function passed to Unless returns true.
func TestSleepEnds(t *testing.T) {
	for name, sleeper := range map[string]func() *Sleeper{"told": newTold, "untold": newUntold} {
		t.Run(name, func(t *testing.T) {
			sleep := sleeper()
			defer sleep.Close()
			asked := 0
			sleep.Unless(Monotonic()+int64(time.Hour), func() bool { asked++; return asked == 2 })
			at := Monotonic() + longestSleepNS + timerSleepNS
			sleep.Unless(at, func() bool { return false })
			if early := at - Monotonic(); early > 10_000 {
				t.Errorf("woke up %v too early", time.Duration(early))
			}
		})
	}
}

// TestWake: Wake ends a long sleep that is in progress. If there is none, it ends the next sleep, and no later one.
func TestWake(t *testing.T) {
	sleep := newTold()
	never := func() bool { return false }
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		sleep.Unless(Monotonic()+int64(time.Hour), never)
	}()
	sleep.Wake()
	<-woken
	sleep.Wake()
	sleep.Unless(Monotonic()+int64(time.Hour), never)
	at := Monotonic() + timerSleepNS
	sleep.Unless(at, never)
	if early := at - Monotonic(); early > 10_000 {
		t.Errorf("woke up %v too early", time.Duration(early))
	}
}
