package live

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// BenchmarkNativeStacks reads the native stacks of all threads of a program in which about 70 wait, as if each had
// moved since the last time. The metric is CPU time. At ten reads a second, 1 ms for a read is 1 % of a CPU. Without
// CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN the registers come from /proc:
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
	usage := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
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
	before := usage()
	for b.Loop() {
		look()
	}
	b.ReportMetric(float64(usage()-before)/float64(b.N), "cpu-ns/look")
	b.ReportMetric(float64(read), "threads")
	b.ReportMetric(float64(cut), "cut")
}
