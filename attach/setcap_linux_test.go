package attach

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGrantedCapabilities: ddtop reads the capabilities that setcap has given to a program file. The setcap command
// that ddtop suggests names these capabilities again, because setcap would remove them otherwise.
func TestGrantedCapabilities(t *testing.T) {
	needRoot(t)
	setcap, err := exec.LookPath("setcap")
	if err != nil {
		t.Skip("needs setcap of the package libcap2-bin")
	}
	file := filepath.Join(t.TempDir(), "ddtop")
	if err := os.WriteFile(file, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(setcap, "cap_sys_nice,cap_checkpoint_restore,cap_dac_read_search+ep", file).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	var buf [64]byte
	n, err := unix.Getxattr(file, "security.capability", buf[:])
	if err != nil {
		t.Fatal(err)
	}
	granted := fileCapabilities(buf[:n])
	if want := uint64(1<<unix.CAP_SYS_NICE | 1<<unix.CAP_CHECKPOINT_RESTORE | 1<<unix.CAP_DAC_READ_SEARCH); granted != want {
		t.Errorf("%#x, want %#x", granted, want)
	}
	advice := Setcap(file, granted, unix.CAP_SYS_PTRACE)
	if want := "sudo setcap cap_bpf,cap_checkpoint_restore,cap_dac_read_search,cap_perfmon,cap_sys_nice,cap_sys_ptrace+ep " + file; advice != want {
		t.Errorf("%q, want %q", advice, want)
	}
	// setcap accepts the suggested command.
	if out, err := exec.Command(setcap, strings.Fields(advice)[2:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", advice, err, out)
	}
}
