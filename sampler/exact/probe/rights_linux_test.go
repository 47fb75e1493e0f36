package probe

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/bpf"
)

// able returns a machine on which exact mode is possible.
func able() machine {
	return machine{Machine: bpf.Machine{
		Release: "6.18.44-fc", Arch: "amd64", Effective: 1<<bpf.CapBPF | 1<<bpf.CapPerfmon | 1<<bpf.CapSysPtrace, BTF: true,
		Lockdown: "[none] integrity confidentiality\n", Namespace: bpf.FirstNamespace, Program: "/usr/bin/ddtop",
	}}
}

func TestWhereItCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine)
		kind   error // nil if exact mode is possible
		says   string
	}{
		"it can be":            {func(*machine) {}, nil, ""},
		"root":                 {func(m *machine) { m.Effective, m.Release = 1<<bpf.CapSysAdmin, "5.11.0" }, nil, ""},
		"no security modules":  {func(m *machine) { m.Lockdown = "" }, nil, ""},
		"locked for integrity": {func(m *machine) { m.Lockdown = "none [integrity] confidentiality" }, nil, ""},
		"arm64":                {func(m *machine) { m.Arch = "arm64" }, ErrKernel, "it is for x86_64 as yet. For arm64 it is written, and has run on an emulated machine alone: DDTOP_EXACT_UNTRIED=arm64 tries it, on a process that may crash"},
		"arm64, asked for":     {func(m *machine) { m.Arch, m.untried = "arm64", true }, nil, ""},
		"x86_64, asked for":    {func(m *machine) { m.untried = true }, nil, ""},
		"riscv64":              {func(m *machine) { m.Arch = "riscv64" }, ErrKernel, "it is for x86_64 as yet, and not for riscv64"},
		"riscv64, asked for":   {func(m *machine) { m.Arch, m.untried = "riscv64", true }, ErrKernel, "it is for x86_64 as yet, and not for riscv64"},
		"an old kernel":        {func(m *machine) { m.Release = "5.10.0-32-amd64" }, ErrKernel, "it needs Linux 5.11, and this is 5.10.0-32-amd64"},
		"an odd kernel":        {func(m *machine) { m.Release = "gnu" }, ErrKernel, `a kernel called "gnu"`},
		"no BTF":               {func(m *machine) { m.BTF = false }, ErrKernel, "no /sys/kernel/btf/vmlinux"},
		"locked down":          {func(m *machine) { m.Lockdown = "none integrity [confidentiality]" }, ErrKernel, "locked down for confidentiality"},
		"a container":          {func(m *machine) { m.Namespace = 4026532001 }, ErrRights, "--pid=host"},
		"nothing": {func(m *machine) { m.Effective = 0 }, ErrRights,
			"it lacks CAP_BPF and CAP_PERFMON and CAP_SYS_PTRACE: run it with sudo, or once sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /usr/bin/ddtop"},
		"nothing of it, and other capabilities": {func(m *machine) { m.Effective, m.granted = 0, 1<<23|1<<2 }, ErrRights,
			"sudo setcap cap_bpf,cap_dac_read_search,cap_perfmon,cap_sys_nice,cap_sys_ptrace+ep /usr/bin/ddtop"},
		"no CAP_BPF":     {func(m *machine) { m.Effective &^= 1 << bpf.CapBPF }, ErrRights, "it lacks CAP_BPF:"},
		"no CAP_PERFMON": {func(m *machine) { m.Effective &^= 1 << bpf.CapPerfmon }, ErrRights, "it lacks CAP_PERFMON:"},
		"no ptrace":      {func(m *machine) { m.Effective &^= 1 << bpf.CapSysPtrace }, ErrRights, "it lacks CAP_SYS_PTRACE:"},
		"a kernel whose links don't know processes": {func(m *machine) { m.Release = "6.9.3" }, ErrRights, "it needs CAP_SYS_ADMIN: run it with sudo"},
	} {
		m := able()
		c.change(&m)
		many, err := m.check()
		if c.kind == nil {
			if err != nil || many != (m.Release != "5.11.0") {
				t.Errorf("%s: many %v, %v", name, many, err)
			}
		} else if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\nwant %q", name, err, c.says)
		}
	}
}

func TestRefusalsAreExplained(t *testing.T) {
	for _, c := range []struct {
		err, kind error
	}{{unix.EPERM, ErrRights}, {unix.EACCES, ErrRights}, {unix.EINVAL, ErrKernel}, {unix.ENOSYS, ErrKernel}} {
		if err := explain("loading", c.err); !errors.Is(err, c.kind) || !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	if err := explain("loading", unix.ENOMEM); errors.Is(err, ErrRights) || errors.Is(err, ErrKernel) || !errors.Is(err, unix.ENOMEM) {
		t.Error(err)
	}
}
