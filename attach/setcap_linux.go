package attach

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// exactNeeds are the capabilities that ddtop's exact mode needs, in which BPF programs record every change of the GVL.
const exactNeeds = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_PERFMON | 1<<unix.CAP_BPF

// Setcap returns the command that grants capabilities to a program file. setcap(8) replaces all capabilities of the
// file. So the command names all capabilities that the file must have: wanted, the present ones (granted), and the ones
// for exact mode.
func Setcap(program string, granted uint64, wanted ...int) string {
	granted |= exactNeeds
	for _, n := range wanted {
		granted |= 1 << n
	}
	var names []string
	for n := range 64 {
		if granted>>n&1 != 0 {
			names = append(names, capabilityName(n))
		}
	}
	slices.Sort(names)
	return "sudo setcap " + strings.Join(names, ",") + "+ep " + program
}

// GrantedCapabilities returns the capabilities that ddtop's program file grants, and those that ddtop has without being
// root. If the file's capabilities cannot be read, the result lacks them.
func GrantedCapabilities() uint64 {
	granted := uint64(0)
	var buf [64]byte
	if n, err := unix.Getxattr("/proc/self/exe", "security.capability", buf[:]); err == nil {
		granted = fileCapabilities(buf[:n])
	}
	if os.Geteuid() != 0 {
		if own, err := ownStatus(); err == nil {
			granted |= own.CapPermitted
		}
	}
	return granted
}

// fileCapabilities reads the permitted capabilities from a struct vfs_cap_data (linux/capability.h). The struct begins
// with a word for the revision and flags. Then come a word with the permitted capabilities 0 to 31, and a word with the
// inheritable ones. Two words for the capabilities from 32 on follow, except in the first revision.
func fileCapabilities(b []byte) uint64 {
	const head, pair = 4, 8
	if len(b) < head+pair {
		return 0
	}
	out := uint64(binary.LittleEndian.Uint32(b[head:]))
	if len(b) >= head+2*pair {
		out |= uint64(binary.LittleEndian.Uint32(b[head+pair:])) << 32
	}
	return out
}

// capabilityName returns a capability's name as setcap reads it, or its number if it is newer than this list.
func capabilityName(n int) string {
	if n < len(capabilityNames) {
		return "cap_" + capabilityNames[n]
	}
	return strconv.Itoa(n)
}

// capabilityNames are the names by number (linux/capability.h), up to Linux 6.18.
var capabilityNames = []string{"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "linux_immutable",
	"net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
	"sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore"}
