package kernel

import (
	"bytes"
	"math"
	"strconv"
)

// IdleNS returns the idle time since boot, in ns, summed up over all CPUs of the machine. Its resolution is 10 ms. It
// is the second number of /proc/uptime (proc_uptime(5)). Its errors are *Error.
func IdleNS() (int64, error) {
	const path = "/proc/uptime"
	b, err := readFile(path)
	if err != nil {
		return 0, err
	}
	words := bytes.Fields(b)
	if len(words) < 2 {
		return 0, &Error{"parse", path, strconv.ErrSyntax}
	}
	s, err := strconv.ParseFloat(string(words[1]), 64)
	if err != nil || !(s >= 0 && s < math.MaxInt64/1e9) {
		return 0, &Error{"parse", path, strconv.ErrRange}
	}
	return int64(s * 1e9), nil
}
