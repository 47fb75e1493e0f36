package kernel

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/ddtop/ddtop/sampler"
)

// ticksPerSecond is the number of ticks in a second (USER_HZ). The times in stat files are in ticks. It is 100 on every
// architecture that ddtop supports (include/asm-generic/param.h). It does not depend on the kernel's own HZ.
const ticksPerSecond = 100

// ProcReader reads a process's own counters. Only one goroutine may use it.
type ProcReader struct {
	pid         int
	dir         int // /proc/PID
	proc        *living
	stat, statm int
	status      int
	pageSize    int64
	// mounts are the cgroup hierarchies that are mounted here. cgroup is the descriptor of /proc/PID/cgroup, or noFD if
	// the kernel lacks this file. group has the figures of the cgroup that this file names, or nil before the first
	// Read.
	mounts  []cgroupMount
	cgroup  int
	group   *groupFigures
	freezer freezer
	buf     [4096]byte
}

// OpenProc prepares to read a process's counters. Its errors are *Error: ErrGone if there is no such process,
// ErrUnsupported on systems other than Linux.
func OpenProc(pid int) (*ProcReader, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	p := &ProcReader{pid: pid, dir: dir, proc: newLiving(pid, dir), stat: noFD, statm: noFD, status: noFD, cgroup: noFD, freezer: freezer{wchan: noFD}, pageSize: int64(os.Getpagesize())}
	mounts, err := readFile("/proc/self/mountinfo")
	if err != nil {
		p.Close()
		return nil, err
	}
	p.mounts = cgroupMounts(mounts)
	if err := p.open(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// open opens the process's files, through a task of the process that still lives.
func (p *ProcReader) open() error {
	for _, f := range []struct {
		name string
		fd   *int
	}{{"stat", &p.stat}, {"statm", &p.statm}, {"status", &p.status}, {"cgroup", &p.cgroup}, {"wchan", &p.freezer.wchan}} {
		fd, err := p.proc.open(f.name)
		if err != nil && (f.name == "cgroup" || f.name == "wchan") && !Exhausted(err) {
			fd, err = noFD, nil // without the file, ddtop cannot see what throttles or freezes the process
		}
		if err != nil {
			return &Error{"open", fmt.Sprintf("/proc/%d/%s", p.pid, f.name), err}
		}
		closeFD(*f.fd)
		*f.fd = fd
	}
	p.freezer.stat = p.stat
	return nil
}

// Close closes the files that are kept open.
func (p *ProcReader) Close() error {
	if p.group != nil {
		p.group.leave()
		p.group = nil
	}
	p.proc.close()
	p.freezer.close()
	closeFD(p.stat)
	closeFD(p.statm)
	closeFD(p.status)
	closeFD(p.cgroup)
	closeFD(p.dir)
	p.stat, p.statm, p.status, p.cgroup, p.dir = noFD, noFD, noFD, noFD, noFD
	return nil
}

// Read returns the counters. These are CPU times with a resolution of 10 ms, major faults, and whether the process is
// stopped (stat) or frozen (its cgroups). They include resident memory (statm) and swapped memory (status). They also
// include the throttling of the innermost cgroup that has a CPU limit (cpu.stat), and the pressure on the cgroup or the
// machine. nowNS is CLOCK_MONOTONIC and becomes AtNS. Read takes about 10 µs. Proportional memory and context switches
// take longer to read, so Slow reads them. If the task whose files Read uses has ended, it opens the files of another
// task.
func (p *ProcReader) Read(nowNS int64) (sampler.Proc, error) {
	out, err := p.read(nowNS)
	if errors.Is(err, ErrGone) && p.proc.moved() {
		if err := p.open(); err != nil {
			return sampler.Proc{}, err
		}
		return p.read(nowNS)
	}
	return out, err
}

func (p *ProcReader) read(nowNS int64) (sampler.Proc, error) {
	n, err := pread(p.stat, p.buf[:])
	if err != nil {
		return sampler.Proc{}, p.errorOf("stat", err)
	}
	st, ok := parseStat(p.buf[:n])
	if !ok {
		return sampler.Proc{}, p.errorOf("stat", fmt.Errorf("%w: %.200q", errFormat, p.buf[:n]))
	}
	if st.ended() {
		return sampler.Proc{}, p.errorOf("stat", syscall.ESRCH) // an ended process has neither memory nor a cgroup
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
	size, pages, ok := parseStatm(p.buf[:n])
	if !ok {
		return sampler.Proc{}, p.errorOf("statm", fmt.Errorf("%w: %.200q", errFormat, p.buf[:n]))
	}
	if size == 0 {
		return sampler.Proc{}, p.errorOf("statm", syscall.ESRCH) // the task is ending
	}
	out.RSSBytes = pages * p.pageSize
	if hasSwap() { // without swap, ddtop need not read status, the longest of the files
		if n, err = pread(p.status, p.buf[:]); err != nil {
			return sampler.Proc{}, p.errorOf("status", err)
		}
		out.SwapBytes, _ = memoryField(p.buf[:n], "VmSwap") // a kernel without swap has swapped nothing
	}
	if err := p.follow(); err != nil {
		return sampler.Proc{}, err
	}
	var th throttling
	th, out.Pressure = p.group.read(p.mounts, nowNS, p.buf[:])
	out.Periods, out.ThrottledPeriods, out.ThrottledNS = th.periods, th.throttled, th.throttledNS
	p.freezer.follow(p.mounts, p.group.text)
	out.Frozen = p.freezer.frozen(true, p.buf[:])
	return out, nil
}

// follow finds the figures of the process's cgroup, which can be another one than at the last Read.
func (p *ProcReader) follow() error {
	n := 0
	if p.cgroup != noFD {
		var err error
		if n, err = pread(p.cgroup, p.buf[:]); err != nil {
			return p.errorOf("cgroup", err)
		}
	}
	if p.group != nil && p.group.text == string(p.buf[:n]) {
		return nil
	}
	if p.group != nil {
		p.group.leave()
	}
	p.group = figuresOf(p.mounts, string(p.buf[:n]))
	return nil
}

// Frozen reports whether the cgroup that the last Read found is frozen. It takes 1 µs for each hierarchy that can
// freeze the process. So it is fast enough to be called at each reading of stacks.
func (p *ProcReader) Frozen() bool { return p.freezer.frozen(false, p.buf[:]) }

func (p *ProcReader) errorOf(file string, err error) error {
	return &Error{"read", fmt.Sprintf("/proc/%d/%s", p.pid, file), err}
}

// parseStatm reads the first two fields of statm: the process's size and its resident memory, both in pages.
func parseStatm(b []byte) (size, resident int64, ok bool) {
	all, b, ok := takeUint(b)
	if !ok {
		return 0, 0, false
	}
	n, _, ok := takeUint(skipSpaces(b))
	return int64(all), int64(n), ok && max(all, n) < 1<<50
}
