package cli

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/flamegraph"
)

// systemName returns the distribution and the kernel: "Debian GNU/Linux 13 (trixie), Linux 6.12.9".
func systemName() string {
	name := ""
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				if unquoted, err := strconv.Unquote(value); err == nil {
					value = unquoted
				}
				name = flamegraph.Printable(value) + ", "
			}
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return name + runtime.GOOS
	}
	return name + unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}
