package kernel

import (
	_ "embed"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

//go:embed syscalls-x86_64.txt
var syscallsX8664 string

//go:embed syscalls-aarch64.txt
var syscallsAArch64 string

// syscallNames returns the names of a machine's system calls by their numbers. It is nil for an unknown machine.
var syscallNames = func() func(machine string) []string {
	x86 := sync.OnceValue(func() []string { return parseSyscallTable(syscallsX8664) })
	arm := sync.OnceValue(func() []string { return parseSyscallTable(syscallsAArch64) })
	return func(machine string) []string {
		switch machine {
		case "x86_64":
			return x86()
		case "aarch64":
			return arm()
		}
		return nil
	}
}()

// parseSyscallTable reads lines "number name". Lines that start with # are comments.
func parseSyscallTable(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		number, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		nr, isNumber := parseInt32(number)
		if !ok || !isNumber || nr >= maxSyscalls {
			continue
		}
		for int(nr) >= len(names) {
			names = append(names, "")
		}
		names[nr] = name
	}
	return names
}

// CallName returns the name of a system call of this machine, and whether its first argument is a descriptor. An
// unknown call has the name "".
func CallName(nr int64) (name string, descriptor bool) {
	names := ownCalls()
	if nr < 0 || nr >= int64(len(names)) {
		return "", false
	}
	return names[nr], callKinds[names[nr]] == kindFD || names[nr] == "connect"
}

// ownCalls are the names of the system calls of the machine that ddtop was built for.
var ownCalls = sync.OnceValue(func() []string {
	return syscallNames(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH])
})

// maxSyscalls limits the numbers of system calls in a table. It also limits how many made-up names are stored.
const maxSyscalls = 4096

type namer struct {
	names []string
	// unnamed caches the names that are made up for numbers which are not in the table.
	unnamed map[int64]string
	// foreign is true if the program uses other numbers than the kernel's own table, as a 32-bit program does.
	foreign bool
}

func newNamer(machine string, foreign bool) *namer {
	n := &namer{unnamed: make(map[int64]string), foreign: foreign}
	if !foreign {
		n.names = syscallNames(machine)
	}
	return n
}

// name returns the name of a system call. If the table has no name for the number NR, it returns "syscall_NR". Either
// the call is newer than the table, or it belongs to a 32-bit program, whose numbers mean other calls.
func (n *namer) name(nr int64) string {
	if nr >= 0 && nr < int64(len(n.names)) && n.names[nr] != "" {
		return n.names[nr]
	}
	if s, ok := n.unnamed[nr]; ok {
		return s
	}
	s := "syscall_" + strconv.FormatInt(nr, 10)
	if len(n.unnamed) < maxSyscalls {
		n.unnamed[nr] = s
	}
	return s
}
