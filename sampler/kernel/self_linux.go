package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
)

// ReadSelf returns ddtop's own cost: getrusage(RUSAGE_SELF) and VmHWM, the peak of this program's own memory (ru_maxrss
// also remembers what the process was before exec, such as the shell that forked it).
func ReadSelf() (sampler.Self, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return sampler.Self{}, &Error{"getrusage", "ddtop itself", err}
	}
	s := sampler.Self{CPUNS: ru.Utime.Nano() + ru.Stime.Nano(), MaxRSSBytes: ru.Maxrss * 1024}
	b, err := readFile("/proc/self/status")
	if err != nil {
		return sampler.Self{}, err
	}
	if text, ok := field(b, "VmHWM"); ok {
		if kB, _, ok := takeUint(text); ok && kB < 1<<40 {
			s.MaxRSSBytes = int64(kB) * 1024
		}
	}
	return s, nil
}
