package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
)

// The first kernels with a feature.
var (
	// leastKernel has bpf_get_current_task_btf, the newest needed feature.
	leastKernel = release{5, 11}
	// manyKernel is the first kernel in which a link of many probes distinguishes the process from its threads ("bpf:
	// Fix multi-uprobe PID filtering logic"). ddtop does not use such links before it. CAP_PERFMON is enough for
	// them.
	manyKernel = release{6, 10}
)

// release is the number of a kernel.
type release struct{ major, minor int }

func (r release) before(other release) bool {
	return r.major < other.major || r.major == other.major && r.minor < other.minor
}

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

// parseRelease reads what uname says: "6.1.0-18-amd64".
func parseRelease(s string) (release, error) {
	var r release
	if _, err := fmt.Sscanf(s, "%d.%d", &r.major, &r.minor); err != nil {
		return r, fmt.Errorf("a kernel called %q", s)
	}
	return r, nil
}

// The numbers of the capabilities that are checked (capabilities(7)).
const (
	capSysPtrace = 19
	capSysAdmin  = 21
	capPerfmon   = 38
	capBPF       = 39
)

// machine has the facts that decide whether exact mode is possible. Tests can set them.
type machine struct {
	release string
	arch    string
	// untried is true if exact mode is also wanted on machines where it has run on no processor yet.
	untried bool
	// effective are the capabilities that ddtop has (CapEff of /proc/self/status).
	effective uint64
	// granted are the capabilities that ddtop's file grants, or that ddtop has without being root.
	granted uint64
	// btf is true if the kernel describes its types (/sys/kernel/btf/vmlinux).
	btf bool
	// lockdown is the content of /sys/kernel/security/lockdown. It is empty if there is none.
	lockdown string
	// namespace is the inode of ddtop's PID namespace.
	namespace uint64
	program   string
}

// firstNamespace is the inode of the kernel's first PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const firstNamespace = 0xeffffffc

func thisMachine(arch string) (machine, error) {
	m := machine{arch: arch, program: "ddtop", granted: attach.GrantedCapabilities()}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.release = unix.ByteSliceToString(u.Release[:])
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m, err
	}
	if _, rest, ok := strings.Cut(string(status), "\nCapEff:"); ok {
		if _, err := fmt.Sscanf(rest, "%x", &m.effective); err != nil {
			return m, fmt.Errorf("/proc/self/status: CapEff: %w", err)
		}
	}
	_, err = os.Stat("/sys/kernel/btf/vmlinux")
	m.btf = err == nil
	if b, err := os.ReadFile("/sys/kernel/security/lockdown"); err == nil {
		m.lockdown = string(b)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return m, fmt.Errorf("/proc/self/ns/pid: %w", err)
	}
	m.namespace = st.Ino
	if exe, err := os.Executable(); err == nil {
		m.program = exe
	}
	return m, nil
}

// check returns why exact mode cannot work on a machine, and what helps. It returns nil if it can. many is true if
// links of many probes may be used.
func (m *machine) check() (many bool, err error) {
	switch set, known := instructionSetOf(m.arch); {
	case !known:
		return false, fmt.Errorf("%w: it is for x86_64 as yet, and not for %s", ErrKernel, m.arch)
	case set.untried && !m.untried:
		return false, fmt.Errorf("%w: it is for x86_64 as yet. For %[2]s it is written, and has run on an emulated machine alone: DDTOP_EXACT_UNTRIED=%[2]s tries it, on a process that may crash (docs/reference/exact.md)",
			ErrKernel, m.arch)
	}
	kernel, err := parseRelease(m.release)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrKernel, err)
	}
	if kernel.before(leastKernel) {
		return false, fmt.Errorf("%w: it needs Linux %v, and this is %s", ErrKernel, leastKernel, m.release)
	}
	if !m.btf {
		return false, fmt.Errorf("%w: it does not say where it has what (no /sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF)", ErrKernel)
	}
	if strings.Contains(m.lockdown, "[confidentiality]") {
		return false, fmt.Errorf("%w: it is locked down for confidentiality (/sys/kernel/security/lockdown), which forbids BPF programs to read", ErrKernel)
	}
	if m.namespace != firstNamespace {
		return false, fmt.Errorf("%w: ddtop runs in a PID namespace of its own, and the kernel tells BPF programs the numbers outside of it. Run it on the host, or in a container with --pid=host", ErrRights)
	}
	many = !kernel.before(manyKernel)
	has := func(c int) bool { return m.effective>>c&1 != 0 }
	if has(capSysAdmin) {
		return many, nil
	}
	var missing []string
	for _, c := range []struct {
		number int
		name   string
	}{{capBPF, "CAP_BPF"}, {capPerfmon, "CAP_PERFMON"}, {capSysPtrace, "CAP_SYS_PTRACE"}} {
		if !has(c.number) {
			missing = append(missing, c.name)
		}
	}
	if !many {
		return false, &MissingRights{fmt.Sprintf("before Linux %v, and this is %s, it needs CAP_SYS_ADMIN", manyKernel, m.release), "run it with sudo"}
	}
	if len(missing) > 0 {
		return many, &MissingRights{"it lacks " + strings.Join(missing, " and "), "run it with sudo, or once " + attach.Setcap(m.program, m.granted)}
	}
	return many, nil
}

// explain describes the meaning of a refusal of the kernel.
func explain(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s: %w. A container's seccomp profile, SELinux or AppArmor can forbid it: run ddtop on the host", ErrRights, doing, err)
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %s: %w", ErrKernel, doing, err)
	}
	return fmt.Errorf("exact mode: %s: %w", doing, err)
}
