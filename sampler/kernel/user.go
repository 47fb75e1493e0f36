package kernel

import (
	"bytes"
	"fmt"
)

// UserOf returns the real user that a process runs as, by its number in ddtop's user namespace (Uid of
// /proc/PID/status). Its errors are *Error.
func UserOf(pid int) (uid int, err error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	var buf [4096]byte
	b, err := readWhole(noFD, path, path, buf[:])
	if err != nil {
		return 0, err
	}
	text, ok := field(b, "Uid")
	first, _, _ := bytes.Cut(text, []byte("\t"))
	n, isNumber := parseInt32(string(first))
	if !ok || !isNumber {
		return 0, &Error{"read", path, fmt.Errorf("%w: no Uid", errFormat)}
	}
	return int(n), nil
}
