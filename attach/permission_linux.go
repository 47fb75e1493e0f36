package attach

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// These are the numbers of capabilities (capability.h).
const (
	// capSysPtrace is the capability to read the memory of any process of the same or an inner user namespace.
	capSysPtrace = 19
	// With capDACOverride or capDACReadSearch, ddtop can open files that only their owner may open.
	capDACOverride, capDACReadSearch = 1, 2
)

// permissionFacts are the facts that decide whether ddtop may read a process (ptrace(2), "Ptrace access mode
// checking").
type permissionFacts struct {
	pid int
	// euid is ddtop's effective user. capable is true if ddtop has CAP_SYS_PTRACE.
	euid    int
	capable bool
	// container is true if ddtop seems to run in a container.
	container bool
	// targetUID are the real, effective and saved users of the target. targetUser is the name of the effective user.
	targetUID  [3]int
	targetUser string
	// egid is ddtop's effective group. targetGID are the real, effective and saved groups of the target.
	egid      int
	targetGID [3]int
	// moreCapable is true if the target has capabilities that we don't have.
	moreCapable bool
	// dumpable is false if the kernel makes root the owner of the target's files in /proc. It does so for programs
	// that are setuid, not readable, or that asked for it (prctl PR_SET_DUMPABLE).
	dumpable bool
	// yama is kernel.yama.ptrace_scope, or -1 without Yama.
	yama int
	// tracer is the PID of the process that traces the target, or zero. tracerName is the name of this process's
	// program.
	tracer     int
	tracerName string
	// opensFiles is true if ddtop has CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE. With one of these, ddtop may open the
	// files of other users. This includes files in /proc that only a process's owner may open (auxv, syscall, fd).
	opensFiles bool
	// filtered is true if a seccomp filter applies to ddtop.
	filtered bool
	// granted are the capabilities that ddtop's file already grants, or that ddtop has without being root. The command
	// setcap replaces all capabilities of a file. So if ddtop advises the user to run setcap, the command must name
	// these capabilities, too.
	granted uint64
	// otherUserNamespace is true if the target is in another user namespace than ddtop. It is false if ddtop may not
	// read the target, because then ddtop cannot find out. inner is true if ddtop's own user namespace is not the
	// machine's first (a rootless container, unshare -U). Then ddtop's capabilities are valid only inside of that
	// namespace.
	otherUserNamespace, inner bool
	// canBecomeRoot is true if sudo or a similar program could give ddtop CAP_SYS_PTRACE. The capability must be in
	// ddtop's bounding set, and exec must be able to give privileges (no NoNewPrivs).
	canBecomeRoot bool
}

// rootMay reports whether ddtop could read the process if it were root. It is false if ddtop is root already, or
// cannot become root.
func (f permissionFacts) rootMay() bool {
	forbidden := f.capable && (f.otherUserNamespace || f.inner || f.opensFiles)
	return f.euid != 0 && f.canBecomeRoot && !f.inner && f.yama < 3 && !forbidden
}

// explain says why the facts forbid reading, and how to fix that.
func (f permissionFacts) explain() (cause, help string) {
	sudo := f.asAdministrator()
	otherUser := f.targetUID != [3]int{f.euid, f.euid, f.euid}
	// The user that the process runs as may read it without CAP_SYS_PTRACE if Yama permits. In a container, it is often
	// easier to become this user than to get the capability.
	asUser := ""
	uid := f.targetUID[0]
	if f.container && otherUser && f.targetUID == [3]int{uid, uid, uid} && f.targetUser != "" && f.yama <= 0 && f.dumpable && !f.otherUserNamespace {
		asUser = fmt.Sprintf("Run ddtop as the process's user: `docker exec --user %s …`. Or: ", f.targetUser)
	}
	switch {
	case f.yama >= 3:
		return "Yama forbids it to everybody (kernel.yama.ptrace_scope is 3)",
			"Only a reboot undoes that setting: set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d."
	case f.capable && f.otherUserNamespace:
		return "it lives in another user namespace, over which our CAP_SYS_PTRACE has no power",
			fmt.Sprintf("Run ddtop as root of the host, or inside: `sudo nsenter -t %d -U -p -m ddtop -p PID`.", f.pid)
	case f.capable && f.inner:
		return "our CAP_SYS_PTRACE holds in our own user namespace only (a rootless container, `unshare -U`), and it lives outside of it or is protected there",
			fmt.Sprintf("Run ddtop as root of the host: `sudo ddtop -p %d`, with the PID that it has there.", f.pid)
	case f.capable && f.euid != 0 && otherUser && !f.opensFiles:
		return fmt.Sprintf("it belongs to user %s, whose files in /proc (auxv, syscall, fd) CAP_SYS_PTRACE alone does not open", f.targetName()),
			fmt.Sprintf("Run `sudo ddtop -p %d`, or give ddtop CAP_DAC_READ_SEARCH too: `%s`.", f.pid, f.setcap(capDACReadSearch))
	case f.capable && otherUser && !f.opensFiles:
		return fmt.Sprintf("it belongs to user %s, whose files in /proc (auxv, syscall, fd) we, with CAP_SYS_PTRACE but neither CAP_DAC_READ_SEARCH nor CAP_DAC_OVERRIDE, can't open", f.targetName()),
			asUser + "Give the container that capability too: `--cap-add=DAC_READ_SEARCH`."
	case f.capable:
		by := "a security module (AppArmor, SELinux)"
		if f.filtered {
			by = "a seccomp filter, which applies to ddtop, or " + by
		}
		return "we have CAP_SYS_PTRACE: " + by + " forbids it",
			"`sudo dmesg | grep -i -e denied -e audit` names it; in a container, `docker run --security-opt apparmor=unconfined --security-opt seccomp=unconfined --cap-add=SYS_PTRACE`."
	case f.euid == 0 && f.container:
		return "we are root in a container that was started without the capability SYS_PTRACE", asUser + sudo
	case f.euid == 0:
		return "we are root, but without the capability CAP_SYS_PTRACE", "Run ddtop from a shell of the host's root, or give it the capability: `" + strings.TrimPrefix(f.setcap(), "sudo ") + "`."
	case otherUser && f.targetUser != "":
		return fmt.Sprintf("it belongs to user %s, and we are %s", f.targetUser, userName(f.euid)), asUser + sudo
	case !f.dumpable:
		return "it is protected against being read (a setuid program, or one that called prctl PR_SET_DUMPABLE)", sudo
	case f.targetGID != [3]int{f.egid, f.egid, f.egid}:
		return fmt.Sprintf("it runs in other groups (real, effective and saved one %d, %d, %d) than we (%d), and the kernel asks for the same ones", f.targetGID[0], f.targetGID[1], f.targetGID[2], f.egid), sudo
	case f.moreCapable:
		return "it has capabilities that we don't have", sudo
	case f.yama == 2:
		return "Yama allows it to administrators only (kernel.yama.ptrace_scope is 2)", sudo
	case f.yama == 1:
		help := fmt.Sprintf("Run `sudo ddtop -p %d`, or start the program with `ddtop -- COMMAND`, or allow it until the next boot: `sudo sysctl kernel.yama.ptrace_scope=0`.", f.pid)
		if f.container {
			help = sudo + " Or allow it on the host until its next boot: `sudo sysctl kernel.yama.ptrace_scope=0`."
		}
		return "Yama allows it to a process's own parents only (kernel.yama.ptrace_scope is 1)", help
	case f.tracer != 0:
		return fmt.Sprintf("process %d (%s) traces it", f.tracer, f.tracerName),
			fmt.Sprintf("End that tracer first: `kill %d`.", f.tracer)
	case f.otherUserNamespace:
		return "it lives in another user namespace", sudo
	}
	return "the kernel doesn't say why: it may be a security module (AppArmor, SELinux, Landlock)", sudo
}

// setcap returns the command that gives ddtop's file the capability CAP_SYS_PTRACE, and also the capabilities in more.
func (f permissionFacts) setcap(more ...int) string {
	return Setcap("$(command -v ddtop)", f.granted, append(more, capSysPtrace)...)
}

// asAdministrator returns the advice to run ddtop as root, or with CAP_SYS_PTRACE. Unlike the advice to use another
// user, this always works.
func (f permissionFacts) asAdministrator() string {
	if f.container {
		return "Start the container with `docker run --cap-add=SYS_PTRACE` (Kubernetes: securityContext.capabilities.add: [\"SYS_PTRACE\"]), or run ddtop on the host."
	}
	return fmt.Sprintf("Run `sudo ddtop -p %d`.", f.pid)
}

// targetName returns the name of the target's user, or the user's number if the user has no name.
func (f permissionFacts) targetName() string {
	if f.targetUser != "" {
		return f.targetUser
	}
	return strconv.Itoa(f.targetUID[1])
}

// hiddenProcess explains why the folder of a process in /proc cannot be opened. Every user may open it unless /proc is
// mounted with the option hidepid (proc(5)). With hidepid=1 or 4 ("noaccess", "ptraceable") the kernel answers EPERM.
// With hidepid=2 ("invisible") it answers as if there was no such process.
func hiddenProcess(pid int, err error) error {
	f := permissionFacts{pid: pid, container: inContainer()}
	return &TargetError{PID: pid, Kind: ErrPermission, Err: err, Help: f.asAdministrator(),
		Cause: "/proc is mounted with hidepid, which shows a process to those only who may read it"}
}

// gatherFacts asks the kernel for the facts that explain uses. A fact that cannot be found out gets a value from which
// explain draws no conclusion.
func (p *procFolder) gatherFacts() permissionFacts {
	r := OwnRights()
	f := permissionFacts{
		pid: p.pid, euid: r.EUID, egid: os.Getegid(), capable: r.Ptrace, opensFiles: r.OpensFiles, filtered: r.Filtered,
		canBecomeRoot: r.CanBecomeRoot, yama: r.Yama, container: r.Container, inner: r.InnerUsers, dumpable: true,
		granted: GrantedCapabilities(),
	}
	if own, err := ownStatus(); err == nil {
		f.moreCapable = p.status.CapPermitted&^own.CapPermitted != 0
	}
	f.targetUID = [3]int{p.status.UID[0], p.status.UID[1], p.status.UID[2]}
	f.targetGID = [3]int{p.status.GID[0], p.status.GID[1], p.status.GID[2]}
	if f.targetUID[1] >= 0 {
		f.targetUser = userName(f.targetUID[1])
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(p.dir.Fd()), "status", &st, 0); err == nil {
		f.dumpable = int(st.Uid) == f.targetUID[1]
	}
	if f.tracer = p.status.TracerPID; f.tracer != 0 {
		if text, err := os.ReadFile("/proc/" + strconv.Itoa(f.tracer) + "/comm"); err == nil {
			f.tracerName = strings.TrimSpace(string(text))
		}
	}
	// If ddtop may not read the process, it cannot read this link either. Then the namespace stays unknown.
	own, err1 := os.Readlink("/proc/self/ns/user")
	theirs, err2 := p.readlink("ns/user")
	f.otherUserNamespace = err1 == nil && err2 == nil && own != theirs
	return f
}

// isWholeUIDMap reports whether a map of users (/proc/PID/uid_map) belongs to the machine's first user namespace. There
// each of all 2³²-1 users is mapped to itself (user_namespaces(7)).
func isWholeUIDMap(text []byte) bool {
	return slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// inContainer guesses whether ddtop runs in a container, by the marks that Docker, Podman, Kubernetes and
// systemd-nspawn leave.
func inContainer() bool {
	for _, name := range []string{"/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io", "/run/systemd/container"} {
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

// refused returns the error for a failed step of opening the process. doing names the step.
func (p *procFolder) refused(doing string, err error) error {
	var explained *TargetError
	if errors.As(err, &explained) {
		return explained
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && (errno == unix.EACCES || errno == unix.EPERM) {
		f := p.gatherFacts()
		cause, help := f.explain()
		return &TargetError{PID: p.pid, Kind: ErrPermission, Cause: cause, Help: help, Root: f.rootMay() && f.tracer == 0, Users: []string{f.targetUser, userName(f.euid)}, Programs: []string{f.tracerName}, Err: fmt.Errorf("%s: %w", doing, errno)}
	}
	if isExhausted(err) {
		return exhausted(p.pid, doing, err)
	}
	if gone := p.stillThere(); gone != nil {
		return gone
	}
	switch {
	case errno == unix.ENOSYS:
		return &TargetError{PID: p.pid, Kind: ErrPermission, Err: fmt.Errorf("%s: %w", doing, err),
			Cause: "process_vm_readv(2) is not available (a sandbox, or a kernel without CONFIG_CROSS_MEMORY_ATTACH), and /proc/PID/mem can't be read either",
			Help:  "Run ddtop outside of the sandbox."}
	case errors.Is(err, ErrUnmapped) || isGone(err):
		return &TargetError{PID: p.pid, Kind: ErrNotLoaded, Cause: "it changed while we looked", Help: "Try again in a moment.", Err: fmt.Errorf("%s: %w", doing, err)}
	}
	return fmt.Errorf("process %d: %s: %w", p.pid, doing, err)
}

func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
