package live

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
)

// cpuUsed returns the CPU time of this process, in ns.
func cpuUsed(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkNativeStays measures the cost of native stacks of threads that do not move. It requests these stacks ten
// times per second of the samples' time, as the screen does if it shows all native stacks. first-cpu-ns is the CPU time
// of the first round, which opens the files. The metric with the name "read" must be zero, because the stack of a
// thread that does not move is read only once.
func BenchmarkNativeStays(b *testing.B) {
	p, _ := rubytest.One(b).StartStates(b, rubytest.Options{})
	s, err := Open(b.Context(), p.PID, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sample, err := s.Once(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	places := make(map[sampler.ThreadID]cstacks.Place)
	for i := range sample.Threads {
		if t := &sample.Threads[i]; t.TID != 0 && t.Kernel.Syscall != sampler.SyscallRunning {
			places[t.ID] = cstacks.Place{TID: t.TID, Stack: t.Stack, Turns: t.Kernel.Turns}
		}
	}
	var w cstacks.Watch
	defer w.Close()
	now, watch := int64(1), new(sampler.NativeWatch)
	look := func() (cpuNS int64) {
		before := cpuUsed(b)
		w.Round(b.Context(), s.nativeSubject(), places, now, watch)
		now += int64(100 * time.Millisecond)
		return cpuUsed(b) - before
	}
	read := func() uint64 {
		counts, failed := watch.Counts()
		if failed != "" {
			b.Fatal(failed)
		}
		return counts.Read + counts.Refused
	}
	var first int64
	for read() == 0 {
		first = look()
	}
	for range 100 { // each round reads at most 32 stacks, and a thread of the program may move now and then
		look()
	}
	had := read()
	before := cpuUsed(b)
	for b.Loop() {
		look()
	}
	b.ReportMetric(float64(cpuUsed(b)-before)/float64(b.N), "cpu-ns/round")
	b.ReportMetric(float64(first), "first-cpu-ns")
	b.ReportMetric(float64(len(places)), "threads")
	b.ReportMetric(float64(read()-had), "read")
}

// BenchmarkNativeStacks reads the native stacks of all threads of a program in which about 70 wait. It reads each stack
// again, as if the thread had moved since the last read. The metric is CPU time. At ten reads a second, 1 ms for a read
// is 1 % of a CPU. Without CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN the registers come from /proc:
//
//	setpriv --bounding-set=-sys_admin,-bpf,-perfmon go test -run=- -bench=NativeStacks ./sampler/live
func BenchmarkNativeStacks(b *testing.B) {
	p, _ := rubytest.One(b).StartStates(b, rubytest.Options{})
	s, err := Open(b.Context(), p.PID, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sample, err := s.Once(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	read, cut := 0, 0
	look := func() {
		if err := s.native.Prepare(s.nativeSubject()); err != nil {
			b.Fatal(err)
		}
		read, cut = 0, 0
		for i := range sample.Threads {
			t := &sample.Threads[i]
			if t.TID == 0 {
				continue
			}
			stack, ok, err := s.native.Ruby(t.ID, t.TID, 0)
			if err != nil {
				b.Fatal(err)
			}
			if ok {
				read++
			}
			if stack.Missing != "" {
				cut++
			}
		}
	}
	look()
	before := cpuUsed(b)
	for b.Loop() {
		look()
	}
	b.ReportMetric(float64(cpuUsed(b)-before)/float64(b.N), "cpu-ns/look")
	b.ReportMetric(float64(read), "threads")
	b.ReportMetric(float64(cut), "cut")
}
