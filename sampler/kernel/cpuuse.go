package kernel

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// nearDelay is a share of time. ddtop reads the machine's processes only if a process's threads have to wait for a
	// CPU for at least this share of the time. Below this share, the finding cpu_starved is impossible.
	nearDelay = .01
	// firstUseNS is the time between the first two readings of all processes, in ns. It must be long, because /proc
	// counts CPU time in steps of 10 ms.
	firstUseNS = 1e9
	// useNS is the interval between all later readings, in ns. useProcessNS is the estimated time to read one process,
	// in ns. The pause after a reading is at least useRest times the reading's length. So readings take at most a
	// quarter of a percent of a CPU.
	useNS, useProcessNS, useRest = 4e9, 20_000, 400
	// maxUseProcesses limits how many processes are read. The time of all others counts as CPUUse.UnseenNS.
	maxUseProcesses = 3000
	// firstPIDNamespace is the machine's first PID namespace (PROC_PID_INIT_INO of include/linux/proc_ns.h). In any
	// other namespace, ddtop does not see all processes.
	firstPIDNamespace = "pid:[4026531836]"
)

// cpuUse finds out which processes use the machine's CPUs. All targets share it: a reading covers all processes.
var cpuUse cpuUses

// cpuUses keeps the last reading of the CPU times of all processes.
type cpuUses struct {
	mu             sync.Mutex
	atNS, nextNS   int64
	all            machineTimes
	of, spare      map[int32]processTimes
	now            sampler.CPUUse    // without LimitMilli and Users
	users          []sampler.CPUUser // one for each process
	contained, any bool
	// limits caches the CPU limits of cgroups until the next reading of all processes. The key is the content of
	// /proc/PID/cgroup.
	limits map[string]int64
	buf    [1024]byte
}

// processTimes are the CPU time of a process in ns, and when it began, in ticks since boot.
type processTimes struct {
	ns    int64
	start uint64
}

// machineTimes has sums over all CPUs, in ns: the time that processes used, and the stolen time. The field cpus is the
// number of CPUs.
type machineTimes struct{ used, stolen, cpus int64 }

// read returns which processes other than pid used the CPUs. If the last reading is old enough, it reads all processes
// again. It returns nil after the first reading, because only two readings show how much CPU time was used.
func (u *cpuUses) read(nowNS int64, pid int) *sampler.CPUUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	if nowNS >= u.nextNS {
		u.look(nowNS)
	}
	if !u.any {
		return nil
	}
	out := u.now
	named := make(map[string]int)
	for _, x := range u.users {
		if x.PID == int32(pid) {
			out.OthersNS -= x.NS
			continue
		}
		if i, ok := named[x.Name]; ok {
			out.Users[i].NS += x.NS
			out.Users[i].Processes++
			continue
		}
		named[x.Name] = len(out.Users)
		out.Users = append(out.Users, x)
	}
	sortUsers(out.Users)
	out.Users = slices.Clip(out.Users[:min(len(out.Users), sampler.MaxCPUUsers)])
	out.LimitMilli = u.limitMilli(fmt.Sprintf("/proc/%d", pid))
	return &out
}

// limitMilli is cpuLimitMilli with a cache: it keeps the limit of each cgroup until the next reading.
func (u *cpuUses) limitMilli(proc string) int64 {
	text, err := readFile(proc + "/cgroup")
	if err != nil {
		return 0
	}
	limit, ok := u.limits[string(text)]
	if !ok {
		limit = cpuLimitMilli(proc)
		u.limits[string(text)] = limit
	}
	return limit
}

// look reads the CPU times of all processes. It compares them with the last reading, unless the last reading is too
// old.
func (u *cpuUses) look(nowNS int64) {
	before, last, first := u.all, u.atNS, u.atNS == 0 || nowNS > u.nextNS+useNS
	if first {
		clear(u.of)
		ns, err := os.Readlink("/proc/self/ns/pid")
		u.contained = err == nil && ns != firstPIDNamespace
	}
	u.any, u.limits = false, make(map[string]int64)
	if err := u.processes(!first); err != nil {
		u.atNS, u.nextNS = 0, nowNS+useNS
		return
	}
	u.atNS, u.nextNS = nowNS, nowNS+useNS
	if first {
		u.nextNS = nowNS + firstUseNS
		return
	}
	u.nextNS = max(u.nextNS, nowNS+useRest*useProcessNS*int64(len(u.of)))
	seen := int64(0)
	for _, x := range u.users {
		seen += x.NS
	}
	used := u.all.used - before.used
	own := int32(os.Getpid())
	u.now = sampler.CPUUse{FromNS: last, AtNS: nowNS, CPUs: u.all.cpus, AllNS: used, UnseenNS: max(used-seen, 0),
		StolenNS: u.all.stolen - before.stolen, Contained: u.contained}
	u.users = slices.DeleteFunc(u.users, func(x sampler.CPUUser) bool { return x.PID == own })
	for _, x := range u.users {
		u.now.OthersNS += x.NS
	}
	sortUsers(u.users)
	u.any = true
}

// sortUsers sorts processes by the CPU time that they used, the most first.
func sortUsers(list []sampler.CPUUser) {
	sorting.By(list, func(a, b sampler.CPUUser) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.PID, b.PID)) })
}

// processes reads the CPU times of the machine and of each process. If compare is true, it sets users. These are the
// processes, with the CPU time that each used since the last reading.
func (u *cpuUses) processes(compare bool) error {
	pids, err := processes()
	if err != nil {
		return err
	}
	if u.spare == nil {
		u.spare = make(map[int32]processTimes)
	}
	clear(u.spare)
	u.users = u.users[:0]
	for _, pid := range pids[:min(len(pids), maxUseProcesses)] {
		name := "/proc/" + strconv.Itoa(pid) + "/stat"
		b, err := readWhole(noFD, name, name, u.buf[:])
		s, ok := parseStat(b)
		if err != nil || !ok {
			continue // the process has ended, or is hidden (hidepid)
		}
		const nsPerTick = 1e9 / ticksPerSecond
		x := processTimes{int64(s.userTicks+s.systemTicks) * nsPerTick, s.startTicks}
		u.spare[int32(pid)] = x
		before := u.of[int32(pid)]
		if before.start != x.start {
			before.ns = 0 // the process is new
		}
		if ns := x.ns - before.ns; compare && ns > 0 {
			u.users = append(u.users, sampler.CPUUser{PID: int32(pid), Processes: 1, Name: commOf(b), NS: ns})
		}
	}
	u.of, u.spare = u.spare, u.of
	b, err := readFile("/proc/stat")
	if err != nil {
		return err
	}
	u.all = parseMachineStat(b)
	return nil
}

// commOf returns the process's name in the content of /proc/PID/stat.
func commOf(b []byte) string {
	if i, j := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')'); i >= 0 && j > i {
		return string(b[i+1 : j])
	}
	return ""
}

// parseMachineStat reads /proc/stat (proc_stat(5)). The line "cpu" has the sums over all CPUs, in ticks: user, nice,
// system, idle, iowait, irq, softirq and steal. Each CPU has a line too. The time of interrupts belongs to no process.
func parseMachineStat(b []byte) (m machineTimes) {
	const nsPerTick = 1e9 / ticksPerSecond
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok || len(rest) == 0 {
			break
		}
		if rest[0] != ' ' {
			m.cpus++
			continue
		}
		for field := range 8 {
			n, after, ok := takeUint(skipSpaces(rest))
			if !ok {
				break
			}
			rest = after
			switch field {
			case 0, 1, 2:
				m.used += int64(n) * nsPerTick
			case 7:
				m.stolen = int64(n) * nsPerTick
			}
		}
	}
	return m
}
