package probe

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/native"
)

// maxCallSites is the largest number of call sites, for all functions together. It is a power of two, because countCall
// uses it as a mask. Debian's libruby has 70 to 200 call sites.
const maxCallSites = 512

// maxFunction limits how far, in bytes, the instructions of a function are decoded to prove where a call begins.
const maxFunction = 64 << 10

// callSite is an instruction that calls a function, or jumps to it.
type callSite struct {
	// offset is the place of the instruction in the file. The field at is the instruction's address in the target.
	offset uint64
	at     attach.Address
}

// callSites finds all instructions that call the function of s or jump to it, in the file with Ruby's VM. module is the
// file that has the function. The result is empty unless callSites can prove two things: that it has found all of them,
// and that each one is an instruction.
func (f *finder) callSites(s *site, module *attach.Module, function attach.Address) ([]callSite, *codeFile) {
	if f.libc || f.set.goarch != x86().goarch {
		return nil, nil
	}
	found, err := f.callSitesOf(s.symbol, module, function)
	if err != nil || f.code.callSites+len(found) > maxCallSites {
		return nil, nil
	}
	file, err := f.file(f.module)
	if err != nil {
		return nil, nil
	}
	out := make([]callSite, 0, len(found))
	for _, at := range found {
		m, ok := mappingOf(f.mappings, at)
		if !ok || !m.Exec {
			return nil, nil
		}
		c := callSite{m.Offset + uint64(at-m.Start), at}
		code := make([]byte, callBytes)
		if f.module.ReadFileAt(code, c.offset) != nil || f.unchanged(at, code) != nil {
			return nil, nil
		}
		out = append(out, c)
	}
	f.code.callSites += len(out)
	return out, file
}

// callBytes is the size of a call or jump to a relative address, in bytes.
const callBytes = 5

// callSitesOf finds the addresses of the instructions that call a function or jump to it.
func (f *finder) callSitesOf(symbol string, module *attach.Module, function attach.Address) ([]attach.Address, error) {
	slots, err := f.module.Slots([]string{symbol}, f.set.relocations)
	if err != nil {
		return nil, err
	}
	code, err := f.module.Code()
	if err != nil {
		return nil, err
	}
	functions, err := native.FunctionsOf(f.module, f.p)
	if err != nil {
		return nil, err
	}
	targets := stubsIn(code, slots)
	if module == f.module {
		direct := uint64(function - f.module.Bias)
		targets[direct] = 0
		if shortJumpTo(code, direct) {
			return nil, fmt.Errorf("a short jump may lead to %s", symbol)
		}
	}
	var out []attach.Address
	for i := range code {
		c := &code[i]
		if c.Linkers {
			continue
		}
		jumpsThrough(c, slots, func(at uint64, _ int) { err = fmt.Errorf("%#x loads the address of %s", at, symbol) })
		jumpsTo(c, targets, func(at uint64, _ int) {
			start, known := functions.Before(at)
			if !known {
				err = fmt.Errorf("%#x is in no known function", at)
				return
			}
			is, failed := callsAt(c, start, at)
			switch {
			case failed != nil:
				err = failed
			case is:
				out = append(out, f.module.Bias+attach.Address(at))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// shortJumpTo reports whether code near a function may jump to the function by a jump of two bytes: jmp, jcc, loop or
// jrcxz. The search for call sites looks only for longer jumps. So with a short jump the list of call sites would be
// incomplete.
func shortJumpTo(code []attach.CodeSection, function uint64) bool {
	const size, reach = 2, 128
	for _, c := range code {
		for at := max(c.Addr, function-reach-size); at < function+reach && at+size <= c.Addr+uint64(len(c.Bytes)); at++ {
			b := c.Bytes[at-c.Addr:]
			if op := b[0]; (op == 0xeb || op&0xf0 == 0x70 || op&0xfc == 0xe0) && at+size+uint64(int8(b[1])) == function {
				return true
			}
		}
	}
	return false
}

// stubsIn finds the linker's stubs that jump through one of the slots. A stub can begin at several distances before its
// jump. The result maps each address at which a stub may begin to the function's number in slots.
func stubsIn(code []attach.CodeSection, slots map[uint64]int) map[uint64]int {
	stubs := make(map[uint64]int)
	for i := range code {
		if c := &code[i]; c.Linkers {
			jumpsThrough(c, slots, func(at uint64, fn int) {
				for _, before := range x86Stub {
					stubs[at-before] = fn
				}
			})
		}
	}
	return stubs
}

// callsAt reports whether a call or a jump to a relative address begins at addr. The parameter at is the address of the
// function that contains addr. callsAt decodes this function from its first instruction, because only this shows where
// each instruction begins. It returns false if the bytes at addr are inside another instruction. It returns an error if
// another kind of jump is at addr, or if it cannot decode the function.
func callsAt(c *attach.CodeSection, at, addr uint64) (bool, error) {
	if at < c.Addr || addr-at > maxFunction {
		return false, fmt.Errorf("%#x is in no known function", addr)
	}
	for at < addr {
		b := c.Bytes[at-c.Addr:]
		if bytes.HasPrefix(b, endbr64[:]) {
			at += uint64(len(endbr64))
			continue
		}
		in, err := x86asm.Decode(b, 64)
		if err != nil {
			return false, fmt.Errorf("%#x before %#x: %w", at, addr, err)
		}
		if at += uint64(in.Len); at > addr {
			if slices.ContainsFunc(in.Args[:], isRelative) {
				return false, fmt.Errorf("%#x is in a %v", addr, in)
			}
			return false, nil
		}
	}
	b := c.Bytes[addr-c.Addr:]
	return len(b) >= callBytes && (b[0] == 0xe8 || b[0] == 0xe9), nil
}

func isRelative(a x86asm.Arg) bool {
	_, ok := a.(x86asm.Rel)
	return ok
}
