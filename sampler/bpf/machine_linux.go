package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine has the facts about a machine that decide whether ddtop can load programs into its kernel. Tests invent such
// facts.
type Machine struct {
	Release, Arch string
	// Effective are the capabilities that ddtop has (CapEff of /proc/self/status).
	Effective uint64
	// BTF is true if the kernel describes its types (/sys/kernel/btf/vmlinux).
	BTF bool
	// Lockdown is the content of /sys/kernel/security/lockdown, empty if there is none.
	Lockdown string
	// Namespace is the inode of ddtop's PID namespace.
	Namespace uint64
	// ClockMoved is true if ddtop is in a time namespace whose CLOCK_MONOTONIC differs from the clock of the programs
	// in the kernel (time_namespaces(7)).
	ClockMoved bool
	// Program is the path of ddtop.
	Program string
}

// FirstNamespace is the inode of the kernel's first PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const FirstNamespace = 0xeffffffc

// The numbers of the capabilities that are checked (capabilities(7)).
const (
	CapSysPtrace = 19
	CapSysAdmin  = 21
	CapPerfmon   = 38
	CapBPF       = 39
)

// ThisMachine reads the facts of the machine on which ddtop runs.
func ThisMachine() (Machine, error) {
	m := Machine{Arch: runtime.GOARCH, Program: "ddtop"}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.Release = unix.ByteSliceToString(u.Release[:])
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m, err
	}
	if _, rest, ok := strings.Cut(string(status), "\nCapEff:"); ok {
		if _, err := fmt.Sscanf(rest, "%x", &m.Effective); err != nil {
			return m, fmt.Errorf("/proc/self/status: CapEff: %w", err)
		}
	}
	_, err = os.Stat("/sys/kernel/btf/vmlinux")
	m.BTF = err == nil
	if b, err := os.ReadFile("/sys/kernel/security/lockdown"); err == nil {
		m.Lockdown = string(b)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return m, fmt.Errorf("/proc/self/ns/pid: %w", err)
	}
	m.Namespace = st.Ino
	m.ClockMoved = ClockMoved()
	if exe, err := os.Executable(); err == nil {
		m.Program = exe
	}
	return m, nil
}

// ClockMoved reports whether ddtop's CLOCK_MONOTONIC differs from the machine's clock. Times from the kernel use the
// machine's clock. A kernel before 5.6 has no time namespaces, so both clocks are the same.
func ClockMoved() bool {
	b, err := os.ReadFile("/proc/self/timens_offsets") // each line has the name of a clock, seconds and nanoseconds
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "monotonic" && (f[1] != "0" || f[2] != "0") {
			return true
		}
	}
	return false
}

// Before reports whether the kernel is older than a release. The error is ErrKernel if ddtop cannot parse the kernel's
// own release number.
func (m *Machine) Before(major, minor int) (bool, error) {
	var a, b int
	if _, err := fmt.Sscanf(m.Release, "%d.%d", &a, &b); err != nil {
		return false, fmt.Errorf("%w: it calls itself %q", ErrKernel, m.Release)
	}
	return a < major || a == major && b < minor, nil
}

// Has reports whether ddtop has a capability.
func (m *Machine) Has(capability int) bool { return m.Effective>>capability&1 != 0 }

// Check reports whether this machine can load programs that need at least Linux major.minor. It returns nil, or an
// error with the reason. It does not check whether ddtop may read the target's memory, which needs other rights.
func (m *Machine) Check(major, minor int) error {
	old, err := m.Before(major, minor)
	switch {
	case err != nil:
		return err
	case old:
		return fmt.Errorf("%w: they need Linux %d.%d, and this is %s", ErrKernel, major, minor, m.Release)
	case !m.BTF:
		return fmt.Errorf("%w: it does not say where it keeps its fields (no /sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF)", ErrKernel)
	case strings.Contains(m.Lockdown, "[confidentiality]"):
		return fmt.Errorf("%w: it is locked down for confidentiality (/sys/kernel/security/lockdown), which forbids programs to read memory", ErrKernel)
	case m.Namespace != FirstNamespace:
		return fmt.Errorf("%w: ddtop runs in a PID namespace of its own, and programs see the process numbers outside of it. Run ddtop on the host, or in a container with --pid=host", ErrRights)
	}
	if m.ClockMoved {
		return fmt.Errorf("%w: ddtop runs in a time namespace whose clock is not the machine's, so that all times would be wrong. Run ddtop outside of it", ErrRights)
	}
	if m.Has(CapSysAdmin) {
		return nil
	}
	var missing []string
	if !m.Has(CapBPF) {
		missing = append(missing, "CAP_BPF")
	}
	if !m.Has(CapPerfmon) {
		missing = append(missing, "CAP_PERFMON")
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: ddtop lacks %s. Run ddtop with sudo, or once sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep %s",
			ErrRights, strings.Join(missing, " and "), m.Program)
	}
	return nil
}

// CheckRegisters is like Check, for programs that read the registers of a thread (bpf_task_pt_regs, Linux 5.15). It
// accepts only x86_64, because ddtop knows the offsets of the registers only for this architecture.
func (m *Machine) CheckRegisters() error {
	if m.Arch != "amd64" {
		return fmt.Errorf("%w: they are for x86_64 as yet, and not for %s", ErrKernel, m.Arch)
	}
	return m.Check(5, 15)
}

// Explain adds to an error of the kernel what ddtop was doing. If a missing right or an unsuitable kernel is the
// reason, Explain also adds ErrRights or ErrKernel.
func Explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s: %w. A container's seccomp profile, SELinux or AppArmor can forbid it: run ddtop on the host", ErrRights, doing, err)
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %s: %w", ErrKernel, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
