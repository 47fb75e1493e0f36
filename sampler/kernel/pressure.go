package kernel

import (
	"bytes"
	"path"

	"github.com/ddtop/ddtop/sampler"
)

// pressureNames are the resources for which the kernel measures stalls (Documentation/accounting/psi.rst).
var pressureNames = [...]string{"cpu", "memory", "io"}

// pressure reads how long tasks could not run because they lacked CPU, memory or I/O (PSI, pressure stall information).
// It reads this for the process's own cgroup if the cgroup is known (only in hierarchy v2). Otherwise it reads it for
// the whole machine.
type pressure struct {
	fds    [len(pressureNames)]int
	source sampler.PressureSource
	text   string // /proc/PID/cgroup as read last
}

func (p *pressure) init() {
	for i := range p.fds {
		p.fds[i] = noFD
	}
}

func (p *pressure) close() {
	for i, fd := range p.fds {
		closeFD(fd)
		p.fds[i] = noFD
	}
	p.source = sampler.PressureNone
}

// follow opens the files of the process's cgroup when it has changed. text is /proc/PID/cgroup.
func (p *pressure) follow(mounts []cgroupMount, text string) {
	if p.source != sampler.PressureNone && text == p.text {
		return
	}
	p.close()
	p.text = text
	if dir, ok := unifiedCgroup(mounts, text); ok && p.open(dir, ".pressure") {
		p.source = sampler.PressureCgroup
		return
	}
	if p.open("/proc/pressure", "") {
		p.source = sampler.PressureMachine
	}
}

// open opens the three files and tries to read them. If the kernel was booted with psi=0, the files exist, but reading
// them fails.
func (p *pressure) open(dir, suffix string) bool {
	var buf [256]byte
	for i, name := range pressureNames {
		fd, err := openAt(noFD, path.Join(dir, name+suffix))
		if err == nil {
			p.fds[i] = fd
			_, err = pread(fd, buf[:])
		}
		if err != nil {
			p.close()
			return false
		}
	}
	return true
}

// read returns the total times of stalls since the machine booted, or since the cgroup was made.
func (p *pressure) read(buf []byte) sampler.Pressure {
	out := sampler.Pressure{Source: p.source}
	for i, to := range [...][2]*int64{{&out.CPUSomeNS, nil}, {&out.MemorySomeNS, &out.MemoryFullNS}, {&out.IOSomeNS, &out.IOFullNS}} {
		if p.fds[i] < 0 {
			return sampler.Pressure{}
		}
		n, err := pread(p.fds[i], buf)
		if err != nil {
			// The process has left this cgroup, and the cgroup was removed. The next reading finds the new cgroup.
			p.close()
			return sampler.Pressure{}
		}
		some, full := parsePressure(buf[:n])
		*to[0] = some
		if to[1] != nil {
			*to[1] = full
		}
	}
	return out
}

// unifiedCgroup returns the folder of a process's cgroup in hierarchy v2. ok is false if it is not mounted here, or if
// it is the root cgroup. The figures of the root cgroup, if it has any, are the machine's.
func unifiedCgroup(mounts []cgroupMount, text string) (string, bool) {
	for controllers, p := range cgroupPaths(text) {
		if controllers != "" || p == "/" {
			continue
		}
		for _, m := range mounts {
			if rel, ok := m.below(p); m.v2 && ok && rel != "/" {
				return path.Join(m.point, rel), true
			}
		}
	}
	return "", false
}

// parsePressure returns the totals of a pressure file, in ns. The file has lines of "some" and "full", each with
// avg10=, avg60=, avg300= and total= in µs.
func parsePressure(b []byte) (some, full int64) {
	for line := range bytes.Lines(b) {
		kind, rest, _ := bytes.Cut(line, []byte(" "))
		_, total, ok := bytes.Cut(rest, []byte("total="))
		if !ok {
			continue
		}
		us, _, ok := takeUint(total)
		if !ok || us > 1<<53 {
			continue
		}
		switch string(kind) {
		case "some":
			some = int64(us) * 1000
		case "full":
			full = int64(us) * 1000
		}
	}
	return some, full
}
