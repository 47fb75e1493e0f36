package attach

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach/mapped"
)

// facts are what the kernel shows of a process: its program, its user, its threads, its mappings.
type facts struct {
	procFolder
	exe    string
	exeID  fileID
	opened time.Time
}

// PID returns the process's PID in ddtop's PID namespace.
func (p *facts) PID() int { return p.pid }

// StartTicks returns the process's start in clock ticks since boot (/proc/PID/stat field 22). Together with the PID it
// identifies the process even if the PID is reused.
func (p *facts) StartTicks() uint64 { return p.stat.StartTicks }

// clockTick is the unit of times in /proc/PID/stat: USER_HZ is 100 on x86_64 and aarch64.
const clockTick = time.Second / 100

// StartedAt returns the process's start as wall-clock time, exact to a clock tick (10 ms).
func (p *facts) StartedAt() (time.Time, error) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return time.Time{}, fmt.Errorf("asking for the time since boot: %w", err)
	}
	up := time.Duration(boot.Nano())
	started := time.Duration(p.stat.StartTicks) * clockTick
	return time.Now().Add(started - up), nil
}

// Parent returns the PID of the parent process at the time when this process was opened.
func (p *facts) Parent() int { return p.stat.PPID }

// CPUs returns how many CPUs the process's main thread may use. It counts the CPUs in the thread's affinity (taskset,
// cpusets). It returns zero if the affinity cannot be read.
func (p *facts) CPUs() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(p.pid, &set); err != nil {
		return 0
	}
	return set.Count()
}

// User returns the name of the process's effective user, or the user's ID if this machine has no name for it.
func (p *facts) User() string { return userName(p.status.UID[1]) }

// Exe returns the path of the program file, as the kernel shows it to ddtop.
func (p *facts) Exe() string { return p.exe }

// CommandLine returns the program's arguments as they are now. Ruby's $0 and Process.setproctitle change the arguments.
// The arguments may contain secrets. If they are longer than 64 KB, CommandLine returns the first 64 KB and "…".
func (p *facts) CommandLine() ([]string, error) {
	text, err := p.askProc("cmdline")
	if err != nil && !errors.Is(err, errTooLong) {
		return nil, p.lost(err)
	}
	args := splitCommandLine(text)
	if err != nil && len(args) > 0 {
		args[len(args)-1] = strings.ToValidUTF8(args[len(args)-1], "") + "…"
	}
	return args, nil
}

// Cgroups returns which control groups the process is in, as the kernel writes them (cgroups(7), /proc/PID/cgroup).
func (p *facts) Cgroups() (string, error) {
	text, err := p.readProc("cgroup")
	if err != nil {
		return "", p.lost(err)
	}
	return string(text), nil
}

// Title returns the program's name without its arguments. It is the script of a ruby process (app.rb), or the name
// that the program gives itself (puma).
func (p *facts) Title() string {
	args, err := p.CommandLine()
	if err != nil {
		return p.stat.Comm
	}
	return titleOf(args, p.stat.Comm)
}

// Part returns two parts of the title that the process has set for itself. The result part is the process's role in a
// service ("w0" for a worker). The result now is what the process does at present ("[3 of 5 busy]"). See Candidate.
func (p *facts) Part() (part, now string, err error) {
	args, err := p.CommandLine()
	if err != nil {
		return "", "", err
	}
	part, now = partOf(args)
	return part, now, nil
}

// Maps returns the memory mappings of the process (/proc/PID/maps).
func (p *facts) Maps() ([]Mapping, error) {
	text, err := p.askProc("maps")
	if err != nil {
		return nil, p.lost(err)
	}
	m, err := mapped.ParseMaps(text)
	if err != nil {
		return nil, fmt.Errorf("/proc/%d/maps: %w", p.pid, err)
	}
	return m, nil
}

// Forked reports whether the process was forked and has not called exec since.
func (p *facts) Forked() bool { return p.stat.Flags&pfForkNoExec != 0 }

// TIDs appends the ids of the process's native threads, in our PID namespace, in ascending order.
func (p *facts) TIDs(buf []int32) ([]int32, error) {
	first := len(buf)
	buf, err := tasksOf(int(p.dir.Fd()), buf)
	if err != nil {
		return buf, p.lost(&os.PathError{Op: "read", Path: p.Path("task"), Err: err})
	}
	slices.Sort(buf[first:])
	if len(buf) == first {
		return buf, p.lost(unix.ESRCH)
	}
	return buf, nil
}

// NamespacePID returns the PID that the process itself sees: its number in its innermost PID namespace.
func (p *facts) NamespacePID() int {
	if n := len(p.status.NSPID); n > 0 {
		return p.status.NSPID[n-1]
	}
	return p.pid
}

// inNamespace reports whether the process is in a PID namespace inside ddtop's. In this case the thread numbers in its
// memory differ from the numbers that ddtop sees.
func (p *facts) inNamespace() bool { return len(p.status.NSPID) > 1 }

// NamespaceTID returns the number of a native thread in the process's own, innermost PID namespace. Ruby keeps this
// number in its memory. tid is the thread's number in ddtop's namespace. The two numbers are equal unless inNamespace
// returns true.
func (p *facts) NamespaceTID(tid int32) (int32, error) {
	if !p.inNamespace() {
		return tid, nil
	}
	text, err := p.readProc("task/" + strconv.Itoa(int(tid)) + "/status")
	if err != nil {
		return 0, fmt.Errorf("thread %d of process %d: %w", tid, p.pid, err)
	}
	ids := parseStatus(text).NSPID
	if len(ids) == 0 {
		return 0, fmt.Errorf("thread %d of process %d: no NSpid in its status", tid, p.pid)
	}
	return int32(ids[len(ids)-1]), nil
}
