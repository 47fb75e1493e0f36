package kernel

import (
	"fmt"
	"os"

	"github.com/ddtop/ddtop/sampler"
)

// ticksPerSecond is the unit of the times in stat files: USER_HZ, 100 on every architecture that ddtop knows
// (include/asm-generic/param.h); the kernel's own HZ does not matter.
const ticksPerSecond = 100

// ProcReader reads a process's own counters. It is for one goroutine.
type ProcReader struct {
	pid         int
	dir         int // /proc/PID
	stat, statm int
	status      int
	pageSize    int64
	cgroup      cgroup
	pressure    pressure
	buf         [4096]byte
}

// OpenProc gets ready to read a process's counters. Its errors are *Error: ErrGone when there is no such process,
// ErrUnsupported on other systems than Linux.
func OpenProc(pid int) (*ProcReader, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	p := &ProcReader{pid: pid, dir: dir, stat: noFD, statm: noFD, status: noFD, pageSize: int64(os.Getpagesize())}
	p.pressure.init()
	if p.stat, err = openAt(dir, "stat"); err != nil {
		p.Close()
		return nil, &Error{"open", path + "/stat", err}
	}
	if p.statm, err = openAt(dir, "statm"); err != nil {
		p.Close()
		return nil, &Error{"open", path + "/statm", err}
	}
	if p.status, err = openAt(dir, "status"); err != nil {
		p.Close()
		return nil, &Error{"open", path + "/status", err}
	}
	if err := p.cgroup.open(dir, path); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the files that are kept open.
func (p *ProcReader) Close() error {
	p.cgroup.close()
	p.pressure.close()
	closeFD(p.stat)
	closeFD(p.statm)
	closeFD(p.status)
	closeFD(p.dir)
	p.stat, p.statm, p.status, p.dir = noFD, noFD, noFD, noFD
	return nil
}

// Read returns the counters: CPU times with a resolution of 10 ms, major faults and whether it is stopped (stat), resident
// memory (statm), swapped memory (status), the throttling of the innermost cgroup that has a CPU limit (cpu.stat), and the
// pressure on the cgroup or the machine. nowNS is CLOCK_MONOTONIC and becomes AtNS. It costs some 25 µs. Proportional
// memory and context switches take longer: see Slow.
func (p *ProcReader) Read(nowNS int64) (sampler.Proc, error) {
	n, err := pread(p.stat, p.buf[:])
	if err != nil {
		return sampler.Proc{}, p.errorOf("stat", err)
	}
	st, ok := parseStat(p.buf[:n])
	if !ok {
		return sampler.Proc{}, p.errorOf("stat", fmt.Errorf("%w: %.200q", errFormat, p.buf[:n]))
	}
	const nsPerTick = 1e9 / ticksPerSecond
	out := sampler.Proc{
		AtNS:        nowNS,
		UserNS:      int64(st.userTicks) * nsPerTick,
		SystemNS:    int64(st.systemTicks) * nsPerTick,
		MajorFaults: st.majorFaults,
		Stopped:     st.state == 'T' || st.state == 't',
	}
	if n, err = pread(p.statm, p.buf[:]); err != nil {
		return sampler.Proc{}, p.errorOf("statm", err)
	}
	pages, ok := parseStatmResident(p.buf[:n])
	if !ok {
		return sampler.Proc{}, p.errorOf("statm", fmt.Errorf("%w: %.200q", errFormat, p.buf[:n]))
	}
	out.RSSBytes = pages * p.pageSize
	if n, err = pread(p.status, p.buf[:]); err != nil {
		return sampler.Proc{}, p.errorOf("status", err)
	}
	out.SwapBytes, _ = parseSwap(p.buf[:n]) // a kernel without swap has swapped nothing
	th, err := p.cgroup.read(p.buf[:])
	if err != nil {
		return sampler.Proc{}, err
	}
	out.Periods, out.ThrottledPeriods, out.ThrottledNS = th.periods, th.throttled, th.throttledNS
	p.pressure.follow(p.cgroup.mounts, p.cgroup.text)
	out.Pressure = p.pressure.read(p.buf[:])
	return out, nil
}

func (p *ProcReader) errorOf(file string, err error) error {
	return &Error{"read", fmt.Sprintf("/proc/%d/%s", p.pid, file), err}
}

// parseStatmResident reads the second field of statm, resident pages.
func parseStatmResident(b []byte) (int64, bool) {
	_, b, ok := takeUint(b)
	if !ok {
		return 0, false
	}
	n, _, ok := takeUint(skipSpaces(b))
	return int64(n), ok && n < 1<<50
}
