package probe

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
)

// These constants limit how many calls and stubs the search in a library's code may find. Four mutex functions of the C
// library get probes. libruby calls them from a few hundred places, through one stub for each function.
const (
	maxCalls = 1 << 14
	maxStubs = 1 << 10
)

// errManyCalls is returned if a library's code calls the functions from more places than any real library.
var errManyCalls = errors.New("its code has too many calls of the C library's mutex functions")

// callsOf finds the places where a library's code calls functions of the C library, or jumps to them. For each
// function, the result has a list of addresses in the process. A list can contain false hits: bytes within another
// instruction that look like a call.
func callsOf(module *attach.Module, functions []function, set instructionSet) ([][]attach.Address, error) {
	names := make([]string, len(functions))
	for i, f := range functions {
		names[i] = f.libc
	}
	slots, err := module.Slots(names, set.relocations)
	if err != nil {
		return nil, err
	}
	code, err := module.Code()
	if err != nil {
		return nil, err
	}
	calls, err := set.calls(code, slots, len(functions))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", module.Path, err)
	}
	out := make([][]attach.Address, len(functions))
	for fn, places := range calls {
		for _, at := range places {
			out[fn] = append(out[fn], module.Bias+attach.Address(at))
		}
	}
	return out, nil
}

// calls collects the places where code calls certain functions. It also collects the linker's stubs. A stub is a short
// piece of code through which a file calls a function of another file.
type calls struct {
	of [][]uint64
	// stubs has the addresses at which a linker's stub can begin. The value is the number of the function to which this
	// stub leads.
	stubs        map[uint64]int
	found, stubN int
}

func (c *calls) call(at uint64, fn int) {
	if c.found++; c.found <= maxCalls {
		c.of[fn] = append(c.of[fn], at)
	}
}

func (c *calls) stub(at uint64, fn int, before []uint64) {
	if c.stubN++; c.stubN > maxStubs {
		return
	}
	for _, n := range before {
		c.stubs[at-n] = fn
	}
}

// all returns the calls of each function. It returns an error if there were more than maxCalls or maxStubs allow.
func (c *calls) all() ([][]uint64, error) {
	if c.found > maxCalls || c.stubN > maxStubs {
		return nil, fmt.Errorf("%w: %d through %d stubs", errManyCalls, c.found, c.stubN)
	}
	return c.of, nil
}

// x86Stub has the possible distances, in bytes, from the beginning of a linker's stub to the stub's jump. A stub can
// begin with the instruction endbr64, and the jump can have a prefix.
var x86Stub = [...]uint64{0, 1, 4, 5}

// callsIn finds the calls of functions in code. A slot is a word that holds a function's address. slots maps the
// address of each slot to the number of the function. A stub of the linker begins up to five bytes before its jump,
// with endbr64 and a prefix.
func callsIn(code []attach.CodeSection, slots map[uint64]int, functions int) ([][]uint64, error) {
	return findCalls(code, slots, functions, jumpsThrough, jumpsTo, x86Stub[:]...)
}

// findJumps is a function that searches a section of code for calls and jumps. It calls found for each one that leads
// to one of the addresses, or through a word at one of the addresses.
type findJumps func(c *attach.CodeSection, addresses map[uint64]int, found func(at uint64, fn int))

// findCalls finds all calls of the functions. A call can lead through a slot, which is a word that holds a function's
// address, or to one of the linker's stubs. The function through finds calls and jumps through a slot, and the function
// to finds calls of stubs. The parameter before has the possible distances from a stub's beginning to its jump through
// a slot, in bytes.
func findCalls(code []attach.CodeSection, slots map[uint64]int, functions int, through, to findJumps, before ...uint64,
) ([][]uint64, error) {
	out := &calls{of: make([][]uint64, functions), stubs: make(map[uint64]int)}
	for _, c := range code {
		through(&c, slots, func(at uint64, fn int) {
			if c.Linkers {
				out.stub(at, fn, before)
			} else {
				out.call(at, fn)
			}
		})
	}
	for _, c := range code {
		if !c.Linkers {
			to(&c, out.stubs, out.call)
		}
	}
	return out.all()
}

// jumpsThrough finds the calls (ff 15) and jumps (ff 25) through a slot, which is a word with a function's address. It
// also finds the instructions that load a slot into a register (8b), because a later instruction may call it.
func jumpsThrough(c *attach.CodeSection, slots map[uint64]int, found func(at uint64, fn int)) {
	for i := 0; i+6 <= len(c.Bytes); i++ {
		call, loads := c.Bytes[i] == 0xff && (c.Bytes[i+1] == 0x15 || c.Bytes[i+1] == 0x25), c.Bytes[i] == 0x8b && c.Bytes[i+1]&0xc7 == 0x05
		if !call && !loads {
			continue
		}
		at := c.Addr + uint64(i)
		if fn, ok := slots[at+6+uint64(int32(binary.LittleEndian.Uint32(c.Bytes[i+2:])))]; ok {
			found(at, fn)
		}
	}
}

// jumpsTo finds the calls (e8), jumps (e9) and conditional jumps (0f 80 to 0f 8f) to a stub.
func jumpsTo(c *attach.CodeSection, stubs map[uint64]int, found func(at uint64, fn int)) {
	for i := 0; i+5 <= len(c.Bytes); i++ {
		if b := c.Bytes[i]; b != 0xe8 && b != 0xe9 && (b&0xf0 != 0x80 || i == 0 || c.Bytes[i-1] != 0x0f) {
			continue
		}
		at := c.Addr + uint64(i)
		if fn, ok := stubs[at+5+uint64(int32(binary.LittleEndian.Uint32(c.Bytes[i+1:])))]; ok {
			found(at, fn)
		}
	}
}
