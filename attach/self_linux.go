package attach

import (
	"os"
	"strconv"
	"strings"
)

// capSysNice is the capability with which a thread may have a nice value below 0 (capability.h).
const capSysNice = 23

func ownStatus() (processStatus, error) {
	text, err := os.ReadFile("/proc/self/status")
	return parseStatus(text), err
}

// OwnRights returns what ddtop may do on this machine, independent of a process.
func OwnRights() Rights {
	r := Rights{EUID: os.Geteuid(), Container: inContainer(), Yama: -1}
	r.User = userName(r.EUID)
	if own, err := ownStatus(); err == nil {
		r.Ptrace = own.CapEffective&(1<<capSysPtrace) != 0
		r.OpensFiles = own.CapEffective&(1<<capDACOverride|1<<capDACReadSearch) != 0
		r.Nice = own.CapEffective&(1<<capSysNice) != 0
		r.Filtered = own.Seccomp == 2
		r.CanBecomeRoot = r.EUID != 0 && own.CapBounding&(1<<capSysPtrace) != 0 && !own.NoNewPrivs
	}
	if text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			r.Yama = n
		}
	}
	if text, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		r.InnerUsers = !isWholeUIDMap(text)
	}
	if text, err := os.ReadFile("/proc/self/mounts"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 3 && f[1] == "/proc" {
				r.HidesProcesses = strings.Contains(f[3], "hidepid=") && !strings.Contains(f[3], "hidepid=0")
			}
		}
	}
	return r
}
