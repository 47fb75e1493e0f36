package kernel

import (
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// CPULimit limits the CPU time of all tasks of a cgroup together to Quota in each Period. File is the file from which
// ddtop read the limit.
type CPULimit struct {
	Quota, Period time.Duration
	File          string
}

// OwnCPULimit returns the tightest CPU limit of ddtop's own cgroups, if they are mounted here (v2: cpu.max, v1:
// cpu.cfs_quota_us). ok is false if no limit is below the number of CPUs, because then none delays ddtop.
func OwnCPULimit() (limit CPULimit, ok bool) { return cpuLimit("/proc/self") }

// cpuLimitMilli returns the tightest CPU limit of a process, in thousandths of a CPU, or zero if there is none. proc is
// the process's folder in /proc.
func cpuLimitMilli(proc string) int64 {
	l, ok := cpuLimit(proc)
	if !ok {
		return 0
	}
	return int64(1000 * l.share())
}

func cpuLimit(proc string) (limit CPULimit, ok bool) {
	mounts, err := readFile("/proc/self/mountinfo")
	if err != nil {
		return limit, false
	}
	text, err := readFile(proc + "/cgroup")
	if err != nil {
		return limit, false
	}
	m, cgPath, found := findCPUCgroup(cgroupMounts(mounts), string(text))
	if !found {
		return limit, false
	}
	rel, found := m.below(cgPath)
	if !found {
		return limit, false
	}
	for dir := range m.levels(rel) {
		l, limited := cpuLimitOf(dir, m.v2)
		if limited && l.share() < float64(onlineCPUs()) && (!ok || l.share() < limit.share()) {
			limit, ok = l, true
		}
	}
	return limit, ok
}

func (l CPULimit) share() float64 { return float64(l.Quota) / float64(l.Period) }

func cpuLimitOf(dir string, v2 bool) (CPULimit, bool) {
	l := CPULimit{File: path.Join(dir, "cpu.max")}
	var fields []string
	if v2 {
		b, err := readFile(l.File)
		if err != nil {
			return l, false
		}
		fields = strings.Fields(string(b))
	} else {
		l.File = path.Join(dir, "cpu.cfs_quota_us")
		quota, err := readFile(l.File)
		if err != nil {
			return l, false
		}
		period, err := readFile(path.Join(dir, "cpu.cfs_period_us"))
		if err != nil {
			return l, false
		}
		fields = []string{strings.TrimSpace(string(quota)), strings.TrimSpace(string(period))}
	}
	return parseCPULimit(l, fields)
}

// parseCPULimit reads the quota and the period, in µs. If there is no limit, the quota is "max" in v2 and -1 in v1.
func parseCPULimit(l CPULimit, fields []string) (CPULimit, bool) {
	if len(fields) != 2 {
		return l, false
	}
	quota, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || quota <= 0 {
		return l, false
	}
	period, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || period <= 0 {
		return l, false
	}
	l.Quota, l.Period = time.Duration(quota)*time.Microsecond, time.Duration(period)*time.Microsecond
	return l, true
}

// onlineCPUs returns the number of CPUs of the machine. It includes CPUs that ddtop itself may not use.
func onlineCPUs() int {
	b, err := readFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 == nil && err2 == nil && to >= from {
			n += to - from + 1
		}
	}
	return max(n, 1)
}
