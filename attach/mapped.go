package attach

import (
	"github.com/ddtop/ddtop/attach/mapped"
)

// These types of package mapped have names here, so that callers of package attach need not import package mapped.
type (
	// Address is an address in a target's memory.
	Address = mapped.Address
	// Range is a range of a target's memory to read.
	Range = mapped.Range
	// Memory is a target's memory.
	Memory = mapped.Memory
	// ReadError says which memory could not be read.
	ReadError = mapped.ReadError
	// Mapping is a line of /proc/PID/maps.
	Mapping = mapped.Mapping
	// Module is an ELF file as a target has it in memory.
	Module = mapped.Module
	// Symbol is a symbol of a Module.
	Symbol = mapped.Symbol
	// Span is a range of a target's memory.
	Span = mapped.Span
	// ThreadLocal is the place of a thread-local variable.
	ThreadLocal = mapped.ThreadLocal
	// Word is a word of a target's memory and its expected value.
	Word = mapped.Word
	// CodeSection is a section with machine code of a Module.
	CodeSection = mapped.CodeSection
)

// ErrNotRuby means that a process has no CRuby. It is mapped.ErrNotRuby.
var ErrNotRuby = mapped.ErrNotRuby

// OpenFile opens an ELF file that no process has mapped. It calls mapped.OpenFile.
func OpenFile(path string) (*Module, error) { return mapped.OpenFile(path) }
