package live

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestSleepLetsTheCollectorGo: the world is stopped and started again and again while the clock's thread sleeps.
func TestSleepLetsTheCollectorGo(t *testing.T) {
	for name, ns := range map[string]int64{"short": timerSleepNS, "timer": 3 * timerSleepNS} {
		t.Run(name, func(t *testing.T) {
			// One that waited for the sleep would stop the world once before it and once at its end.
			const enough = 4
			var sleeping atomic.Int64 // the number of the sleep going on; 0: none
			done := make(chan struct{})
			var over atomic.Bool
			go func() {
				defer close(done)
				runtime.LockOSThread()
				sleep := newSleeper()
				defer sleep.close()
				for i := int64(1); !over.Load(); i++ {
					sleeping.Store(i)
					sleep.until(monotonic() + ns)
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
				t.Errorf("%d stops of the world within one sleep of %v", stops, time.Duration(ns))
			}
		})
	}
}

// TestSleepWithoutATimer: where there is no descriptor for one, it sleeps as long.
func TestSleepWithoutATimer(t *testing.T) {
	broken := newSleeper()
	broken.close()
	for _, sleep := range []sleeper{{}, broken} {
		at := monotonic() + 2*timerSleepNS
		sleep.until(at)
		if early := at - monotonic(); early > 10_000 {
			t.Errorf("woke up %v too early", time.Duration(early))
		}
	}
}

// TestSleepIsNotShort: a sleep that signals end goes on until its time.
func TestSleepIsNotShort(t *testing.T) {
	done := make(chan int64)
	go func() {
		runtime.LockOSThread()
		sleep := newSleeper()
		defer sleep.close()
		worst := int64(0)
		for i := range 20 {
			at := monotonic() + int64(1+i*3)*1_000_000
			sleep.until(at)
			worst = min(worst, monotonic()-at)
		}
		done <- worst
	}()
	for {
		select {
		case worst := <-done:
			if worst < -10_000 { // the two clocks are tied to each other to within less (epoch)
				t.Errorf("woke up %v too early", time.Duration(-worst))
			}
			return
		default:
			runtime.GC() // which signals
		}
	}
}

// TestSleepEnds: a long sleep ends when it is not wanted any more.
func TestSleepEnds(t *testing.T) {
	sleep := newSleeper()
	defer sleep.close()
	asked := 0
	sleep.unless(monotonic()+int64(time.Hour), func() bool { asked++; return asked == 2 })
	at := monotonic() + longestSleepNS + timerSleepNS
	sleep.unless(at, func() bool { return false })
	if early := at - monotonic(); early > 10_000 {
		t.Errorf("woke up %v too early", time.Duration(early))
	}
}
