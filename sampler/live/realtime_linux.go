package live

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// realTimePriority is the lowest of SCHED_FIFO: above all that is not real-time, below all that is.
const realTimePriority = 1

// guardedThread is what the watchdog needs of the sampling thread.
type guardedThread struct {
	tid  int
	stop func()
}

// checkRealTime reports whether this program may have real-time priority, by asking for it on a thread of its own.
func checkRealTime() error {
	failed := make(chan error)
	attach.OnOwnThread(func() { failed <- setRealTime(unix.Gettid()) })
	return <-failed
}

// setRealTime makes a thread SCHED_FIFO. What it starts is not: SCHED_FLAG_RESET_ON_FORK (sched(7)).
func setRealTime(tid int) error {
	err := unix.SchedSetAttr(tid, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: realTimePriority,
	}, 0)
	if err != nil {
		return fmt.Errorf("%w: the kernel refuses SCHED_FIFO for thread %d of ddtop: %w; run as root, or with CAP_SYS_NICE "+
			"(%s; docker run --cap-add=SYS_NICE), or without --realtime", ErrRealTime, tid, err, attach.Setcap("ddtop", attach.GrantedCapabilities(), unix.CAP_SYS_NICE))
	}
	return nil
}

// setNormal takes real-time priority from a thread and leaves it a short slice. The flag stays: clearing it needs a privilege.
func setNormal(tid int) error {
	return unix.SchedSetAttr(tid, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Runtime: sliceNS,
	}, 0)
}

// begin raises the priority of the calling thread, which ends with the sampling. The returned function ends the
// watchdog.
func (g *guard) begin() (end func()) {
	raisePriority()
	g.thread = guardedThread{tid: unix.Gettid(), stop: func() {}}
	g.beats.Store(0)
	g.now.Store(uint32(kernelPriority()))
	return func() { g.thread.stop() }
}

// raise gives the sampling thread real-time priority, and the watchdog its work.
func (g *guard) raise() {
	if setRealTime(g.thread.tid) != nil {
		return // allowed when the process was opened and not any more: what is shown is the kernel's word
	}
	g.now.Store(uint32(kernelPriority()))
	g.thread.stop = g.watch()
}

// watch starts the watchdog and sets the kernel's limits; stop ends it and takes them back.
func (g *guard) watch() (stop func()) {
	restore := limitRealTime()
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGXCPU)
	quit, done := make(chan struct{}), make(chan struct{})
	tid := g.thread.tid
	go func() {
		defer close(done)
		tick := time.NewTicker(realTimeWatch)
		defer tick.Stop()
		var w watchdog
		for {
			why := sampler.Priority(0)
			select {
			case <-quit:
				return
			case <-over:
				why = sampler.PriorityDroppedBusy
			case <-tick.C:
				if cpu, err := threadCPU(tid); err == nil {
					why = w.look(g.beats.Load(), cpu, monotonic())
				}
			}
			if why == 0 {
				continue
			}
			if setNormal(tid) == nil {
				g.now.Store(uint32(why))
			}
			return
		}
	}()
	return func() {
		close(quit)
		<-done
		signal.Stop(over)
		restore()
	}
}

// limitRealTime sets RLIMIT_RTTIME where nothing stricter is set.
func limitRealTime() (restore func()) {
	var old unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_RTTIME, &old) != nil {
		return func() {}
	}
	now := unix.Rlimit{
		Cur: min(old.Cur, uint64(realTimeLimit.Microseconds())), Max: min(old.Max, uint64(realTimeKill.Microseconds())),
	}
	if unix.Setrlimit(unix.RLIMIT_RTTIME, &now) != nil {
		return func() {}
	}
	return func() {
		if unix.Setrlimit(unix.RLIMIT_RTTIME, &old) != nil {
			// A hard limit once lowered is raised by root alone; it concerns real-time threads only, and there are none left.
			now.Cur = now.Max
			_ = unix.Setrlimit(unix.RLIMIT_RTTIME, &now)
		}
	}
}

// threadCPU is the CPU time of one of our own threads in ns.
func threadCPU(tid int) (int64, error) {
	// The clock of a thread by its id (linux/posix-timers.h: MAKE_THREAD_CPUCLOCK with CPUCLOCK_SCHED).
	const perThread, sched = 4, 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^tid<<3|perThread|sched), &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

// kernelPriority is what the kernel says of the calling thread.
func kernelPriority() sampler.Priority {
	a, err := unix.SchedGetAttr(0, 0)
	switch {
	case err != nil:
		return sampler.PriorityUnknown
	case a.Policy == unix.SCHED_FIFO || a.Policy == unix.SCHED_RR:
		return sampler.PriorityRealTime
	case a.Nice < 0:
		return sampler.PriorityRaised
	case a.Runtime == sliceNS: // told from Linux 6.12 on
		return sampler.PriorityShortSlice
	}
	return sampler.PriorityNormal
}
