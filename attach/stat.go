package attach

import (
	"bytes"
	"fmt"
	"strconv"
)

// processStat has the fields of /proc/PID/stat that ddtop uses (proc_pid_stat(5)).
type processStat struct {
	// Comm is the program's name, cut to 15 bytes. It may contain spaces and parentheses.
	Comm  string
	State byte
	// PPID is the parent's PID. Flags are the kernel's PF_ bits. Threads is the number of threads.
	PPID    int
	Flags   uint64
	Threads int
	// CPUTicks is the CPU time in user and kernel mode. StartTicks is the start time since boot. Both are clock ticks.
	CPUTicks, StartTicks uint64
	// RSSPages is the resident memory in pages. Zero means that the text has no such field.
	RSSPages int64
}

func (s *processStat) ended() bool { return s.State == 'Z' || s.State == 'X' }

// pfForkNoExec marks a process that was forked and has not called exec since (include/linux/sched.h, PF_FORKNOEXEC).
const pfForkNoExec = 0x00000040

// pfKthread marks threads of the kernel (include/linux/sched.h, PF_KTHREAD).
const pfKthread = 0x00200000

// parseStat reads the text of /proc/PID/stat. The name is in parentheses and is not escaped, so the last closing
// parenthesis ends it.
func parseStat(text []byte) (processStat, error) {
	var s processStat
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return s, fmt.Errorf("no name in %q", text)
	}
	s.Comm = string(text[open+1 : end])
	f := bytes.Fields(text[end+1:])
	// f[0] is field 3, the state; field N is f[N-3].
	const last = 22
	if len(f) <= last-3 || len(f[0]) != 1 {
		return s, fmt.Errorf("only %d fields after the name in %q", len(f), text)
	}
	s.State = f[0][0]
	if letter := s.State | 0x20; letter < 'a' || letter > 'z' {
		return s, fmt.Errorf("field 3, the state: %q is not a letter", f[0])
	}
	var err error
	if s.PPID, err = strconv.Atoi(string(f[4-3])); err != nil {
		return s, fmt.Errorf("field 4, the parent's PID: %w", err)
	}
	if s.Flags, err = strconv.ParseUint(string(f[9-3]), 10, 64); err != nil {
		return s, fmt.Errorf("field 9, the flags: %w", err)
	}
	for _, field := range []int{14, 15} {
		ticks, err := strconv.ParseUint(string(f[field-3]), 10, 64)
		if err != nil {
			return s, fmt.Errorf("field %d, CPU time: %w", field, err)
		}
		s.CPUTicks += ticks
	}
	if s.Threads, err = strconv.Atoi(string(f[20-3])); err != nil {
		return s, fmt.Errorf("field 20, the number of threads: %w", err)
	}
	if s.StartTicks, err = strconv.ParseUint(string(f[22-3]), 10, 64); err != nil {
		return s, fmt.Errorf("field 22, the start time: %w", err)
	}
	const rss = 24
	if len(f) > rss-3 {
		s.RSSPages = max(int64(atoi(f[rss-3])), 0)
	}
	return s, nil
}

// processStatus has the fields of /proc/PID/status that ddtop uses (proc_pid_status(5)).
type processStatus struct {
	// Name is the program's name. State is a letter, Z or X if the task has ended.
	Name  string
	State byte
	// TGID is the process's PID. If the file in /proc belongs to a thread other than the first, TGID differs from the
	// number in the file's path.
	TGID, TracerPID int
	// UID and GID are the real, effective, saved and file system ids.
	UID, GID [4]int
	// Groups are the supplementary groups.
	Groups []int
	// NSPID is the PID in each PID namespace, from ddtop's inward. It is empty before Linux 4.1.
	NSPID []int
	// CapPermitted, CapEffective and CapBounding are bit sets. exec grants no capability outside of CapBounding.
	CapPermitted, CapEffective, CapBounding uint64
	// NoNewPrivs is true if exec gives no privilege, so that sudo cannot help.
	NoNewPrivs bool
	// Seccomp is 0 (off), 1 (strict) or 2 (filter).
	Seccomp int
}

// parseStatus reads the text of /proc/PID/status. It skips lines that it does not know or cannot parse, because the
// kernel adds some with each release.
func parseStatus(text []byte) processStatus {
	s := processStatus{UID: [4]int{-1, -1, -1, -1}, GID: [4]int{-1, -1, -1, -1}}
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		f := bytes.Fields(value)
		if len(f) == 0 {
			continue
		}
		switch string(key) {
		case "Name":
			s.Name = string(bytes.TrimSpace(value))
		case "State":
			s.State = f[0][0]
		case "Tgid":
			s.TGID = atoi(f[0])
		case "TracerPid":
			s.TracerPID = atoi(f[0])
		case "Seccomp":
			s.Seccomp = atoi(f[0])
		case "Uid":
			for i := range min(len(f), 4) {
				s.UID[i] = atoi(f[i])
			}
		case "Gid":
			for i := range min(len(f), 4) {
				s.GID[i] = atoi(f[i])
			}
		case "Groups":
			for _, n := range f {
				s.Groups = append(s.Groups, atoi(n))
			}
		case "NSpid":
			for _, n := range f {
				s.NSPID = append(s.NSPID, atoi(n))
			}
		case "CapPrm":
			s.CapPermitted = bits(f[0])
		case "CapBnd":
			s.CapBounding = bits(f[0])
		case "NoNewPrivs":
			s.NoNewPrivs = atoi(f[0]) == 1
		case "CapEff":
			s.CapEffective = bits(f[0])
		}
	}
	return s
}

func atoi(b []byte) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0
	}
	return n
}

func bits(b []byte) uint64 {
	n, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return 0
	}
	return n
}
