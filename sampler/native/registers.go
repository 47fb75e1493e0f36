package native

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
)

// These are DWARF's numbers of x86-64 registers (psABI, "DWARF Register Number Mapping"). regReturn stands for the
// return address, which is the next frame's PC.
const (
	regRBX, regRBP, regRSP  = 3, 6, 7
	regR12, regR15          = 12, 15
	regReturn, numRegisters = 16, 17
)

var registerNames = [numRegisters]string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "the return address"}

// KernelNames are the kernel's names of the registers, in the order of Registers (struct pt_regs,
// arch/x86/include/asm/ptrace.h).
var KernelNames = [NumRegisters]string{"ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12",
	"r13", "r14", "r15", "ip"}

// Registers are the known registers of a thread, or of a frame of its stack.
type Registers struct {
	values [numRegisters]uint64
	known  uint32
}

// At returns the Registers of a thread if only its stack pointer and its program counter are known.
func At(sp, pc uint64) Registers {
	var r Registers
	r.set(regRSP, sp)
	r.set(regReturn, pc)
	return r
}

// SP and PC return the stack pointer and the program counter. They are zero if unknown.
func (r *Registers) SP() uint64 { return r.values[regRSP] }
func (r *Registers) PC() uint64 { return r.values[regReturn] }

// NumRegisters is the number of registers. StackPointer is the index of the stack pointer in Registers. The program
// counter is the last register.
const NumRegisters, StackPointer = numRegisters, regRSP

// AllRegisters returns the Registers of a thread of which all values are known.
func AllRegisters(values [NumRegisters]uint64) Registers {
	return Registers{values, 1<<numRegisters - 1}
}

// OfUser returns the registers of a thread from the words of struct user_regs_struct (sys/user.h).
func OfUser(words [attach.NumUserRegisters]uint64) Registers {
	var values [NumRegisters]uint64
	for n, place := range [NumRegisters]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16} {
		values[n] = words[place]
	}
	return AllRegisters(values)
}

func (r *Registers) set(n int, value uint64) {
	r.values[n] = value
	r.known |= 1 << n
}

// get returns a register's value. The error is an unknownRegister if the value is not known.
func (r *Registers) get(n uint64) (uint64, error) {
	if n >= numRegisters {
		return 0, fmt.Errorf("%w: register %d", errTable, n)
	}
	if r.known>>n&1 == 0 {
		return 0, unknownRegister(n)
	}
	return r.values[n], nil
}

// unknownRegister is the error if the value of a register is needed but not known. It is the number of this register.
type unknownRegister uint8

// Error names the register.
func (n unknownRegister) Error() string { return "register " + registerNames[n] + " is not known" }

// preserved are the registers that a function must restore before it returns (psABI, "Registers"). So their values in
// the caller are known even without a rule. A rule in the function's row of the unwind table takes precedence.
const preserved = 1<<regRBX | 1<<regRBP | 1<<regR12 | 1<<13 | 1<<14 | 1<<regR15

// Moment identifies a period during which a thread did not run. If a thread's Moment is the same before and after a
// read, the thread has not run in between.
type Moment struct {
	// Turns is how often the thread was given a CPU.
	Turns int64
	// Call is the thread's system call with its arguments, the stack pointer and the program counter. It is empty if
	// Turns alone identifies the period.
	Call string
}

// Source reads the registers of threads that do not run. Its implementations differ in which registers they can read,
// and in the rights that they need.
type Source interface {
	// Registers returns a thread's registers and their Moment. ok is false if the thread runs or wants to run.
	Registers(tid int32) (r Registers, at Moment, ok bool, err error)
	// Stays reports whether a thread has not run since a Moment that Registers has returned.
	Stays(tid int32, at Moment) (bool, error)
}
