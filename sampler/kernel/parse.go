package kernel

import (
	"bytes"
	"errors"
	"syscall"
)

// unwrapErrno returns only the kernel's error number from a library's error, because Error already names the path.
func unwrapErrno(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

// parseInt32 reads a text that is only a decimal number, without a sign, and that fits an int32.
func parseInt32(s string) (int32, bool) {
	if len(s) == 0 || len(s) > 10 {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	return int32(n), n <= 1<<31-1
}

func skipSpaces(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// takeUint reads a decimal number at the start of b. ok is false if there is no digit, or if 64 bits are too few.
func takeUint(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i]-'0' <= 9 {
		d := uint64(b[i] - '0')
		if n > (1<<64-1-d)/10 {
			return 0, b, false
		}
		n = n*10 + d
		i++
	}
	return n, b[i:], i > 0
}

// takeInt reads a decimal number with an optional minus sign at the start of b.
func takeInt(b []byte) (n int64, rest []byte, ok bool) {
	digits, negative := bytes.CutPrefix(b, []byte("-"))
	u, rest, ok := takeUint(digits)
	if !ok || u > 1<<63-1 {
		return 0, b, false
	}
	n = int64(u)
	if negative {
		n = -n
	}
	return n, rest, true
}

// takeHex reads a number in hexadecimal, with or without 0x, at the start of b.
func takeHex(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) > 2 && b[0] == '0' && b[1] == 'x' {
		b = b[2:]
	}
	i := 0
	for ; i < len(b); i++ {
		var d byte
		switch c := b[i]; {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c >= 'a' && c <= 'f':
			d = c - 'a' + 10
		case c >= 'A' && c <= 'F':
			d = c - 'A' + 10
		default:
			return n, b[i:], i > 0
		}
		if n>>60 != 0 {
			return 0, b, false
		}
		n = n<<4 | uint64(d)
	}
	return n, b[i:], i > 0
}

// parseSchedstat reads task/TID/schedstat: the time on a CPU and the time runnable without one, in ns, and how often
// the thread got a CPU (Documentation/scheduler/sched-stats.rst).
func parseSchedstat(b []byte) (c CPU, ok bool) {
	for _, to := range []*int64{&c.RanNS, &c.DelayNS, &c.Turns} {
		n, rest, ok := takeUint(b)
		if !ok || n > 1<<63-1 {
			return CPU{}, false
		}
		*to, b = int64(n), skipSpaces(rest)
	}
	return c, true
}

// These are the results of parseSyscall if the file contains no system call number.
const (
	callRunning = -1 // "running": on a CPU or runnable
	callNone    = -2 // "-1 sp pc": blocked outside a system call
	callEnded   = -3 // "-1 0x0 0x0": ended, without a stack (collect_syscall, lib/syscall.c, Linux 4.11 and later)
)

// parseSyscall reads task/TID/syscall (proc_pid_syscall, fs/proc/base.c). The file has "running", or "-1 SP PC", or the
// number of a system call, six arguments, SP and PC. All of them except the number are hexadecimal.
func parseSyscall(b []byte) (nr int64, args [6]uint64, ok bool) {
	b = bytes.TrimRight(b, "\n")
	if string(b) == "running" {
		return callRunning, args, true
	}
	nr, b, ok = takeInt(b)
	if !ok {
		return 0, args, false
	}
	if nr == -1 && string(b) == " 0x0 0x0" {
		return callEnded, args, true
	}
	if nr < 0 {
		return callNone, args, nr == -1
	}
	for i := range args {
		args[i], b, ok = takeHex(skipSpaces(b))
		if !ok {
			return 0, [6]uint64{}, false
		}
	}
	return nr, args, true
}

// afterComm returns what follows the command name in a stat file. The name is in parentheses and can itself contain
// blanks, newlines and parentheses, so only the last closing parenthesis ends it.
func afterComm(b []byte) ([]byte, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+3 > len(b) || b[i+1] != ' ' {
		return nil, false
	}
	return b[i+2:], true
}

// parseState reads the state letter of a stat file: R, S, D, T, t, Z, X, I and older ones (proc(5)).
func parseState(b []byte) (byte, bool) {
	b, ok := afterComm(b)
	if !ok || b[0] < 'A' || b[0] > 'z' || len(b) > 1 && b[1] != ' ' {
		return 0, false
	}
	return b[0], true
}

// processStat holds the fields of /proc/PID/stat that are used, by their numbers in proc(5).
type processStat struct {
	state        byte   // 3
	ppid         int64  // 4
	majorFaults  int64  // 12
	userTicks    uint64 // 14
	systemTicks  uint64 // 15
	startTicks   uint64 // 22
	residentPage int64  // 24
}

// ended reports whether the task has ended and only its PID still exists.
func (s *processStat) ended() bool { return s.state == 'Z' || s.state == 'X' }

func parseStat(b []byte) (s processStat, ok bool) {
	b, ok = afterComm(b)
	if !ok {
		return s, false
	}
	s.state = b[0]
	b = b[1:]
	for field := 4; field <= 24; field++ {
		b = skipSpaces(b)
		// If a number does not fit a signed field, kernels print it as an unsigned number.
		digits, negative := bytes.CutPrefix(b, []byte("-"))
		var u uint64
		if u, b, ok = takeUint(digits); !ok {
			return processStat{}, false
		}
		n := int64(u)
		if negative {
			n = -n
		}
		switch field {
		case 4:
			s.ppid = n
		case 12:
			s.majorFaults = n
		case 14:
			s.userTicks = u
		case 15:
			s.systemTicks = u
		case 22:
			s.startTicks = u
		case 24:
			s.residentPage = n
		}
	}
	return s, true
}

// field returns the text after "name:" in a file with a line for each field (status, fdinfo), without blanks around
// it.
func field(b []byte, name string) ([]byte, bool) {
	for line := range bytes.Lines(b) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(key) == name {
			return bytes.TrimSpace(value), true
		}
	}
	return nil, false
}

// memoryField returns the number of a line "name: N kB" in a file such as status or smaps_rollup, in bytes.
func memoryField(b []byte, name string) (int64, bool) {
	kB, ok := statusNumber(b, name)
	return kB << 10, ok && kB < 1<<50
}

// statusNumber reads a line "Name: number" of a status file. It cannot read the first line of the file, because it
// searches for a newline before the name.
func statusNumber(b []byte, name string) (int64, bool) {
	_, rest, ok := bytes.Cut(b, []byte("\n"+name+":"))
	n, _, isNumber := takeUint(skipSpaces(rest))
	return int64(n), ok && isNumber && n < 1<<62
}
