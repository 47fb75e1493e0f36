package kernel

import "bytes"

// Standing is the place of a thread that does not run: its position in the program's code and on its stack.
type Standing struct {
	// SP and PC are the thread's stack pointer and program counter.
	SP, PC uint64
	// Line is the content of task/TID/syscall. Turns is how often the thread got a CPU. ddtop compares both before and
	// after it reads memory. If they are the same, the thread has not run in between.
	Line  string
	Turns int64
}

// Standing returns the place of a thread that does not run. ok is false if the thread runs, is runnable, or has ended.
func (t *Tasks) Standing(tid int32) (s Standing, ok bool, err error) {
	cpu, err := t.CPU(tid)
	if err != nil {
		return s, false, err
	}
	b, err := t.read(tid, fileSyscall)
	if err != nil {
		return s, false, err
	}
	s.SP, s.PC, ok = parseStanding(b)
	s.Line, s.Turns = string(b), cpu.Turns
	return s, ok, nil
}

// parseStanding returns the stack pointer and the program counter from a syscall file: its last two words. The file has
// nine words for a thread in a system call, and three for other threads.
func parseStanding(b []byte) (sp, pc uint64, ok bool) {
	words := bytes.Fields(b)
	if len(words) != 9 && len(words) != 3 {
		return 0, 0, false
	}
	sp, rest, ok1 := takeHex(words[len(words)-2])
	pc, more, ok2 := takeHex(words[len(words)-1])
	return sp, pc, ok1 && ok2 && len(rest)+len(more) == 0 && sp != 0 && pc != 0
}
