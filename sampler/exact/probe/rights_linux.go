package probe

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/bpf"
)

// The first kernels that have a feature.
const (
	// leastMajor.leastMinor is the first kernel with bpf_get_current_task_btf, the newest feature that exact mode
	// needs.
	leastMajor, leastMinor = 5, 11
	// manyMajor.manyMinor is the first kernel in which one BPF link can set many probes (multi-uprobe) and still
	// distinguish the process from its threads ("bpf: Fix multi-uprobe PID filtering logic"). Such links need only
	// CAP_PERFMON. ddtop does not use them on older kernels.
	manyMajor, manyMinor = 6, 10
)

// machine has the facts about this machine that decide whether exact mode is possible. Tests can change them.
type machine struct {
	bpf.Machine
	// untried is true if the user allows exact mode on a kind of processor on which it has never run.
	untried bool
	// granted are the capabilities that ddtop has without being root, or gets from its file.
	granted uint64
}

func thisMachine() (machine, error) {
	m, err := bpf.ThisMachine()
	return machine{Machine: m, granted: attach.GrantedCapabilities()}, err
}

// check returns an error that explains why exact mode cannot work on a machine, and what would help. It returns nil if
// exact mode can work. many is true if ddtop may use BPF links that each set many probes.
func (m *machine) check() (many bool, err error) {
	switch set, known := instructionSetOf(m.Arch); {
	case !known:
		return false, fmt.Errorf("%w: it is for x86_64 as yet, and not for %s", ErrKernel, m.Arch)
	case set.untried && !m.untried:
		return false, fmt.Errorf("%w: it is for x86_64 as yet. For %[2]s it is written, and has run on an emulated machine alone: DDTOP_EXACT_UNTRIED=%[2]s tries it, on a process that may crash (docs/reference/exact.md)",
			ErrKernel, m.Arch)
	}
	old, err := m.Before(leastMajor, leastMinor)
	if err != nil {
		return false, fmt.Errorf("%w: a kernel called %q", ErrKernel, m.Release)
	}
	if old {
		return false, fmt.Errorf("%w: it needs Linux %d.%d, and this is %s", ErrKernel, leastMajor, leastMinor, m.Release)
	}
	if !m.BTF {
		return false, fmt.Errorf("%w: it does not say where it has what (no /sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF)", ErrKernel)
	}
	if strings.Contains(m.Lockdown, "[confidentiality]") {
		return false, fmt.Errorf("%w: it is locked down for confidentiality (/sys/kernel/security/lockdown), which forbids BPF programs to read", ErrKernel)
	}
	if m.Namespace != bpf.FirstNamespace {
		return false, fmt.Errorf("%w: ddtop runs in a PID namespace of its own, and the kernel tells BPF programs the numbers outside of it. Run it on the host, or in a container with --pid=host", ErrRights)
	}
	few, err := m.Before(manyMajor, manyMinor)
	if many = !few; err != nil || m.Has(bpf.CapSysAdmin) {
		return many, err
	}
	var missing []string
	for _, c := range []struct {
		number int
		name   string
	}{{bpf.CapBPF, "CAP_BPF"}, {bpf.CapPerfmon, "CAP_PERFMON"}, {bpf.CapSysPtrace, "CAP_SYS_PTRACE"}} {
		if !m.Has(c.number) {
			missing = append(missing, c.name)
		}
	}
	if !many {
		return false, &MissingRights{fmt.Sprintf("before Linux %d.%d, and this is %s, it needs CAP_SYS_ADMIN", manyMajor, manyMinor, m.Release), "run it with sudo"}
	}
	if len(missing) > 0 {
		return many, &MissingRights{"it lacks " + strings.Join(missing, " and "), "run it with sudo, or once " + attach.Setcap(m.Program, m.granted)}
	}
	return many, nil
}

// explain turns a refusal of the kernel into an error that describes its meaning.
func explain(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s: %w. A container's seccomp profile, SELinux or AppArmor can forbid it: run ddtop on the host", ErrRights, doing, err)
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %s: %w", ErrKernel, doing, err)
	}
	return fmt.Errorf("exact mode: %s: %w", doing, err)
}
