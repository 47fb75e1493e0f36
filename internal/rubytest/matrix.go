package rubytest

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// matrixFile is the environment variable that names the file for what was tested. Its lines are "ruby VERSION MACHINE LIBC HOW",
// one for each test that passed on a Ruby, and "kernel FEATURE STATE". `testrun matrix` makes a page of them.
const matrixFile = "DDTOP_TEST_MATRIX"

var kernelOnce sync.Once

// recordMatrix adds a test that has passed on a Ruby to the matrix of what was tested.
func recordMatrix(t testing.TB, r Ruby) {
	if env(matrixFile) == "" || t.Failed() || t.Skipped() {
		return
	}
	kernelOnce.Do(func() {
		for _, f := range kernelFeatures() {
			appendLine(matrixFile, "kernel "+f)
		}
	})
	machine, libc := kindOf(filepath.Join(r.Root, r.Bin))
	how := "tested"
	if r.Emulator != "" {
		how = "emulated"
	}
	appendLine(matrixFile, fmt.Sprintf("ruby %s %s %s %s", r.Version, machine, libc, how))
}

// kindOf returns the machine and the C library that a program was built for; "unknown" for what its file does not say.
func kindOf(path string) (machine, libc string) {
	machine, libc = "unknown", "unknown"
	f, err := elf.Open(path)
	if err != nil {
		return machine, libc
	}
	defer f.Close()
	switch f.Machine {
	case elf.EM_X86_64:
		machine = "x86_64"
	case elf.EM_AARCH64:
		machine = "aarch64"
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		const maxInterpreter = 4096 // PATH_MAX
		name, err := io.ReadAll(io.LimitReader(p.Open(), maxInterpreter))
		switch {
		case err != nil:
		case strings.Contains(string(name), "ld-musl"):
			libc = "musl"
		case strings.Contains(string(name), "ld-linux"):
			libc = "glibc"
		}
	}
	return machine, libc
}

// kernelFeatures says which features of the kernel, of those that ddtop uses, this machine has: "NAME STATE".
func kernelFeatures() []string {
	there := func(path string) string {
		if _, err := os.Stat(path); err != nil {
			return "untested"
		}
		return "tested"
	}
	yama := "untested"
	if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		yama = "tested, ptrace_scope " + strings.TrimSpace(string(b))
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty off Linux
	bpf := there("/sys/kernel/btf/vmlinux")
	if os.Geteuid() != 0 {
		bpf = "untested"
	}
	return []string{
		"release " + strings.TrimSpace(string(release)) + " " + runtime.GOARCH,
		"BPF with BTF (--exact, --source switches) " + bpf,
		"pidfd " + pidfd(),
		"Yama " + yama,
		"pressure (PSI) " + there("/proc/pressure/cpu"),
	}
}
