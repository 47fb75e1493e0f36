package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
)

// SelfCPU returns ddtop's own CPU time since it started, user and system, in ns. It reads CLOCK_PROCESS_CPUTIME_ID,
// which the kernel updates for each call (clock_gettime(2)). It costs less than a microsecond.
func SelfCPU() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0, &Error{"clock_gettime", "ddtop itself", err}
	}
	return ts.Nano(), nil
}

// ReadSelf returns ddtop's own cost: its CPU time (SelfCPU) and the peak of its memory (VmHWM). It does not use
// ru_maxrss, which would also include the program before exec, such as the shell that forked ddtop.
func ReadSelf() (sampler.Self, error) {
	cpu, err := SelfCPU()
	if err != nil {
		return sampler.Self{}, err
	}
	s := sampler.Self{CPUNS: cpu}
	b, err := readFile("/proc/self/status")
	if err != nil {
		return sampler.Self{}, err
	}
	if peak, ok := memoryField(b, "VmHWM"); ok {
		s.MaxRSSBytes = peak
	}
	return s, nil
}

// hasSwap reports whether the machine has swap space, in about 0.2 µs. It is true if ddtop cannot find this out.
func hasSwap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Totalswap > 0
}
