package attach

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPermissionIsExplained(t *testing.T) {
	// These are the facts of a readable process of the same user.
	plain := permissionFacts{pid: 17, euid: 1000, targetUID: [3]int{1000, 1000, 1000}, targetUser: "app", egid: 100, targetGID: [3]int{100, 100, 100}, dumpable: true, yama: -1}
	with := func(change func(*permissionFacts)) permissionFacts {
		f := plain
		change(&f)
		return f
	}
	for _, test := range []struct {
		name        string
		facts       permissionFacts
		cause, help string
	}{
		{"yama 1", with(func(f *permissionFacts) { f.yama = 1 }), "ptrace_scope is 1", "sudo sysctl kernel.yama.ptrace_scope=0"},
		{"yama 1 in a container", with(func(f *permissionFacts) { f.yama, f.container = 1, true }), "ptrace_scope is 1", "--cap-add=SYS_PTRACE"},
		{"yama 2", with(func(f *permissionFacts) { f.yama = 2 }), "ptrace_scope is 2", "sudo ddtop -p 17"},
		{"yama 3", with(func(f *permissionFacts) { f.yama, f.capable, f.euid = 3, true, 0 }), "ptrace_scope is 3", "reboot"},
		{"other user", with(func(f *permissionFacts) { f.targetUID = [3]int{5, 5, 5}; f.yama = 1 }), "belongs to user app", "sudo ddtop -p 17"},
		{"setuid", with(func(f *permissionFacts) { f.targetUID = [3]int{1000, 0, 0}; f.targetUser = "root" }), "belongs to user root", "sudo ddtop -p 17"},
		{"not dumpable", with(func(f *permissionFacts) { f.dumpable = false; f.yama = 0 }), "protected", "sudo ddtop -p 17"},
		{"other group", with(func(f *permissionFacts) { f.targetGID[1] = 7 }), "other groups (real, effective and saved one 100, 7, 100) than we (100)", "sudo ddtop -p 17"},
		{"more capabilities", with(func(f *permissionFacts) { f.moreCapable = true }), "capabilities that we don't have", "sudo ddtop -p 17"},
		{"container", with(func(f *permissionFacts) { f.euid, f.container, f.moreCapable = 0, true, true }), "without the capability SYS_PTRACE", "--cap-add=SYS_PTRACE"},
		{"other user's in a container", with(func(f *permissionFacts) { f.targetUID, f.yama, f.container = [3]int{5, 5, 5}, -1, true }), "belongs to user app", "docker exec --user app"},
		{"other user's, as a container's root", with(func(f *permissionFacts) { f.euid, f.container = 0, true }), "without the capability SYS_PTRACE", "docker exec --user app"},
		{"other user's in a container under Yama", with(func(f *permissionFacts) { f.targetUID, f.yama, f.container = [3]int{5, 5, 5}, 1, true }), "belongs to user app", "Start the container"},
		{"root without it", with(func(f *permissionFacts) { f.euid = 0 }), "without the capability CAP_SYS_PTRACE", "`setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v ddtop)`"},
		{"tracer", with(func(f *permissionFacts) { f.tracer, f.tracerName = 99, "strace" }), "process 99 (strace) traces it", "kill 99"},
		{"security module", with(func(f *permissionFacts) { f.euid, f.capable, f.opensFiles = 0, true, true }), "AppArmor", "dmesg"},
		{"security module without a filter", with(func(f *permissionFacts) { f.euid, f.capable, f.opensFiles = 0, true, true }), "CAP_SYS_PTRACE: a security module", "dmesg"},
		{"seccomp", with(func(f *permissionFacts) { f.euid, f.capable, f.opensFiles, f.filtered = 0, true, true, true }), "seccomp filter", "seccomp=unconfined"},
		{"setcap, other user's", with(func(f *permissionFacts) { f.capable, f.targetUID = true, [3]int{5, 5, 5} }), "belongs to user app, whose files", "setcap cap_bpf,cap_dac_read_search,cap_perfmon,cap_sys_ptrace+ep"},
		{"setcap for real-time priority, other user's", with(func(f *permissionFacts) {
			f.capable, f.targetUID, f.granted = true, [3]int{5, 5, 5}, 1<<capSysNice|1<<capSysPtrace
		}), "belongs to user app, whose files", "sudo setcap cap_bpf,cap_dac_read_search,cap_perfmon,cap_sys_nice,cap_sys_ptrace+ep $(command -v ddtop)"},
		{"setcap with both, other user's", with(func(f *permissionFacts) { f.capable, f.opensFiles, f.targetUID = true, true, [3]int{5, 5, 5} }), "a security module", "dmesg"},
		{"setcap, own", with(func(f *permissionFacts) { f.capable = true }), "a security module", "dmesg"},
		{"a container's root without DAC capabilities", with(func(f *permissionFacts) { f.euid, f.capable, f.container, f.targetUID = 0, true, true, [3]int{5, 5, 5} }), "neither CAP_DAC_READ_SEARCH", "--cap-add=DAC_READ_SEARCH"},
		{"user namespace", with(func(f *permissionFacts) { f.euid, f.capable, f.otherUserNamespace = 0, true, true }), "user namespace", "nsenter -t 17"},
		{"from an inner user namespace", with(func(f *permissionFacts) { f.euid, f.capable, f.inner = 0, true, true }), "our own user namespace only", "sudo ddtop -p 17"},
		{"unknown", plain, "doesn't say why", "sudo ddtop -p 17"},
	} {
		cause, help := test.facts.explain()
		if !strings.Contains(cause, test.cause) || !strings.Contains(help, test.help) {
			t.Errorf("%s: %q, %q; want %q, %q", test.name, cause, help, test.cause, test.help)
		}
	}
}

// TestOpenFromAnInnerUserNamespace: root of an inner user namespace cannot open a process outside of this namespace.
// The error says why. From outside, a process in an inner user namespace can be opened.
func TestOpenFromAnInnerUserNamespace(t *testing.T) {
	needRoot(t)
	inner := func(cmd *exec.Cmd) {
		root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: root}
	}
	probe := exec.Command("true")
	inner(probe)
	if err := probe.Run(); err != nil {
		t.Skipf("user namespaces are not allowed here: %v", err)
	}
	c := startHelper(t, "pages", nil)
	c.line(t)
	got := startHelper(t, "open "+strconv.Itoa(c.pid), inner).line(t)
	for _, want := range []string{"process " + strconv.Itoa(c.pid), ErrPermission.Error(), "our own user namespace only", "sudo ddtop -p"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}

	within := startHelper(t, "pages", inner)
	addr := within.address(t)
	var b [1]byte
	if err := open(t, within.pid).Read(addr, b[:]); err != nil || b[0] != pattern(0) {
		t.Errorf("a process in an inner user namespace: %v, %d", err, b)
	}
}
