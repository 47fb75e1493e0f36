package native

import (
	"fmt"
)

// maxSaved limits how many rows a CFA program may save at the same time (DW_CFA_remember_state). A CFA program is the
// part of an unwind table that builds rows. Programs that compilers write save one row.
const maxSaved = 16

// maxExpression bounds the size of one DWARF expression, in bytes. The longest expression of the C library has 30
// bytes.
const maxExpression = 512

// ruleKind says how to find a register's value in the calling function.
type ruleKind uint8

const (
	// ruleNone means that the row has no rule for the register. If the register is in preserved, it has the same value
	// in the calling function. Otherwise its value is lost.
	ruleNone ruleKind = iota
	ruleLost
	ruleSame
	// ruleSaved means that the value is in memory, at the frame's address plus an offset. ruleAt means that this
	// address itself is the value.
	ruleSaved
	ruleAt
	// ruleRegister means that the value is the value of another register plus an offset.
	ruleRegister
	// ruleSavedExpression means that the value is in memory, at the address that an expression computes. ruleExpression
	// means that the expression's result itself is the value.
	ruleSavedExpression
	ruleExpression
)

// rule says how to find a register, or the frame's address.
type rule struct {
	kind       ruleKind
	register   uint64
	offset     int64
	expression []byte
}

// row is a row of an unwind table. It says how to find the caller's registers if the thread is at a certain
// instruction.
type row struct {
	// frame is the rule for the frame's address (CFA): what the stack pointer was before the call.
	frame     rule
	registers [numRegisters]rule
	// function is the address of the function. signal is true for the code through which a signal handler returns.
	function uint64
	signal   bool
}

// These are the instructions of CFA programs, which build the rows of a function (DWARF 5, table 7.29).
const (
	cfaNop, cfaAdvance1, cfaAdvance2, cfaAdvance4                        = 0x00, 0x02, 0x03, 0x04
	cfaOffsetExtended, cfaRestoreExtended, cfaUndefined, cfaSame         = 0x05, 0x06, 0x07, 0x08
	cfaRegister, cfaRemember, cfaRestoreState                            = 0x09, 0x0a, 0x0b
	cfaDefine, cfaDefineRegister, cfaDefineOffset, cfaDefineExpression   = 0x0c, 0x0d, 0x0e, 0x0f
	cfaExpression, cfaOffsetExtendedSigned, cfaDefineSigned              = 0x10, 0x11, 0x12
	cfaDefineOffsetSigned, cfaValueOffset, cfaValueSigned, cfaValueExpre = 0x13, 0x14, 0x15, 0x16
	cfaArgsSize                                                          = 0x2e
)

// These instructions of CFA programs have an operand in their low six bits.
const cfaAdvance, cfaOffset, cfaRestore = 0x40, 0x80, 0xc0

// programState is the state of a CFA program, which computes rows of an unwind table. The program runs until it has
// computed the row of the wanted address.
type programState struct {
	row
	d *description
	// The field first has the rules that are valid at the beginning of each function with the same common record (CIE).
	// An instruction can restore these rules.
	first [numRegisters]rule
	saved []row
	// loc is the first address at which the present rules are valid. want is the address whose rules are wanted. The
	// program ends when loc is beyond want.
	loc, want uint64
}

// rowAt returns the row for an address of a function: the rules to find the caller's registers.
func (t *table) rowAt(addr uint64) (*row, error) {
	d, err := t.find(addr)
	if err != nil {
		return nil, err
	}
	s := programState{d: &d, loc: d.start, want: addr}
	s.function, s.signal = d.start, d.signal
	t.executed += len(d.first) + len(d.program)
	if err := s.run(d.first); err != nil {
		return nil, err
	}
	s.first = s.registers
	s.loc = d.start
	if err := s.run(d.program); err != nil {
		return nil, err
	}
	if s.frame.kind == ruleNone {
		return nil, fmt.Errorf("%w: no rule for the frame's address at %#x", errTable, addr)
	}
	out := s.row
	return &out, nil
}

// run executes a CFA program until loc is beyond the wanted address. It always ends, because each instruction has at
// least one byte.
func (s *programState) run(program []byte) error {
	r := &reader{b: program}
	for r.left() > 0 && !r.failed {
		next := s.loc
		op := r.u8()
		low := uint64(op & 0x3f)
		switch op & 0xc0 {
		case cfaAdvance:
			next += low * s.d.codeAlign
		case cfaOffset:
			s.saveAt(r, low, int64(r.uleb()))
		case cfaRestore:
			s.restore(r, low)
		default:
			var err error
			if next, err = s.extended(r, op, next); err != nil {
				return err
			}
		}
		if next < s.loc {
			return fmt.Errorf("%w: a program that goes back", errTable)
		}
		if s.loc = next; s.loc > s.want {
			return nil
		}
	}
	if r.failed {
		return fmt.Errorf("%w: a program that is cut", errTable)
	}
	return nil
}

// extended executes an instruction that has no operand in its low bits. It returns the first address at which the rules
// after the instruction are valid. This address is loc unless the instruction advances it.
func (s *programState) extended(r *reader, op uint8, loc uint64) (uint64, error) {
	switch op {
	case cfaNop:
	case cfaAdvance1:
		return loc + uint64(r.u8())*s.d.codeAlign, nil
	case cfaAdvance2:
		return loc + r.number(2, false)*s.d.codeAlign, nil
	case cfaAdvance4:
		return loc + r.number(4, false)*s.d.codeAlign, nil
	case cfaOffsetExtended:
		s.saveAt(r, r.uleb(), int64(r.uleb()))
	case cfaOffsetExtendedSigned:
		s.saveAt(r, r.uleb(), r.sleb())
	case cfaRestoreExtended:
		s.restore(r, r.uleb())
	case cfaUndefined:
		s.put(r, r.uleb(), rule{kind: ruleLost})
	case cfaSame:
		s.put(r, r.uleb(), rule{kind: ruleSame})
	case cfaRegister:
		s.put(r, r.uleb(), rule{kind: ruleRegister, register: r.uleb()})
	case cfaRemember:
		if len(s.saved) >= maxSaved {
			return loc, fmt.Errorf("%w: more than %d rows put aside", errTable, maxSaved)
		}
		s.saved = append(s.saved, s.row)
	case cfaRestoreState:
		if len(s.saved) == 0 {
			return loc, fmt.Errorf("%w: no row was put aside", errTable)
		}
		s.row, s.saved = s.saved[len(s.saved)-1], s.saved[:len(s.saved)-1]
	case cfaDefine:
		s.frame = rule{kind: ruleRegister, register: r.uleb(), offset: int64(r.uleb())}
	case cfaDefineSigned:
		s.frame = rule{kind: ruleRegister, register: r.uleb(), offset: r.sleb() * s.d.dataAlign}
	case cfaDefineRegister:
		s.frame = rule{kind: ruleRegister, register: r.uleb(), offset: s.frame.offset}
	case cfaDefineOffset:
		s.frame.offset = int64(r.uleb())
	case cfaDefineOffsetSigned:
		s.frame.offset = r.sleb() * s.d.dataAlign
	case cfaDefineExpression:
		s.frame = rule{kind: ruleExpression, expression: r.expression()}
	case cfaExpression:
		s.put(r, r.uleb(), rule{kind: ruleSavedExpression, expression: r.expression()})
	case cfaValueExpre:
		s.put(r, r.uleb(), rule{kind: ruleExpression, expression: r.expression()})
	case cfaValueOffset:
		s.put(r, r.uleb(), rule{kind: ruleAt, offset: int64(r.uleb()) * s.d.dataAlign})
	case cfaValueSigned:
		s.put(r, r.uleb(), rule{kind: ruleAt, offset: r.sleb() * s.d.dataAlign})
	case cfaArgsSize:
		r.uleb()
	default:
		return loc, fmt.Errorf("%w: instruction %#x", errTable, op)
	}
	return loc, nil
}

// expression reads the length of an expression, and then the expression.
func (r *reader) expression() []byte {
	n := r.uleb()
	if n > maxExpression {
		r.failed = true
	}
	return r.take(n)
}

// put sets a register's rule. It ignores registers that unwinding does not need, such as xmm6.
func (s *programState) put(r *reader, register uint64, what rule) {
	if register < numRegisters && !r.failed {
		s.registers[register] = what
	}
}

func (s *programState) saveAt(r *reader, register uint64, offset int64) {
	s.put(r, register, rule{kind: ruleSaved, offset: offset * s.d.dataAlign})
}

// restore gives a register the rule that it has at the beginning of the function (programState.first).
func (s *programState) restore(r *reader, register uint64) {
	if register < numRegisters {
		s.put(r, register, s.first[register])
	}
}
