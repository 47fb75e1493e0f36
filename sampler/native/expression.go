package native

import "fmt"

// maxOperands is the largest number of values on the stack of a DWARF expression. Linkers need four in stubs, and the C
// library needs one for signals.
const maxOperands = 16

// These are the operations that linkers and the C library use in DWARF expressions (DWARF 5, table 7.9).
const (
	opDeref, opConst1u, opConst1s, opConst2u, opConst2s            = 0x06, 0x08, 0x09, 0x0a, 0x0b
	opConst4u, opConst4s, opConst8u, opConst8s, opConstu, opConsts = 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11
	opAnd, opMinus, opMul, opOr, opPlus, opPlusConst               = 0x1a, 0x1c, 0x1e, 0x21, 0x22, 0x23
	opShl, opEq, opGe, opGt, opLe, opLt, opNe                      = 0x24, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e
	opLit0, opLit31, opBreg0, opBreg31                             = 0x30, 0x4f, 0x70, 0x8f
)

// evaluate computes a DWARF expression. start has the values on the expression's stack at the beginning. evaluate
// supports no jumps, so it always ends.
func evaluate(expression []byte, regs *Registers, stack *stackMemory, start ...uint64) (uint64, error) {
	r := &reader{b: expression}
	operands := append(make([]uint64, 0, maxOperands), start...)
	for r.left() > 0 && !r.failed {
		op := r.u8()
		var value uint64
		var err error
		switch {
		case op >= opLit0 && op <= opLit31:
			value = uint64(op - opLit0)
		case op >= opBreg0 && op <= opBreg31:
			offset := r.sleb()
			value, err = regs.get(uint64(op - opBreg0))
			value += uint64(offset)
		case op == opDeref, op == opPlusConst:
			if len(operands) < 1 {
				return 0, fmt.Errorf("%w: an expression without operands", errTable)
			}
			value = operands[len(operands)-1]
			operands = operands[:len(operands)-1]
			if op == opDeref {
				value, err = stack.word(value)
			} else {
				value += r.uleb()
			}
		case op >= opConst1u && op <= opConsts:
			value = constant(r, op)
		default:
			if len(operands) < 2 {
				return 0, fmt.Errorf("%w: an expression without operands", errTable)
			}
			value, err = binaryOperation(op, operands[len(operands)-2], operands[len(operands)-1])
			operands = operands[:len(operands)-2]
		}
		if err != nil {
			return 0, err
		}
		if len(operands) >= maxOperands {
			return 0, fmt.Errorf("%w: an expression with more than %d operands", errTable, maxOperands)
		}
		operands = append(operands, value)
	}
	if r.failed || len(operands) == 0 {
		return 0, fmt.Errorf("%w: an expression that is cut", errTable)
	}
	return operands[len(operands)-1], nil
}

func constant(r *reader, op uint8) uint64 {
	switch op {
	case opConst1u:
		return uint64(r.u8())
	case opConst1s:
		return uint64(int8(r.u8()))
	case opConstu:
		return r.uleb()
	case opConsts:
		return uint64(r.sleb())
	}
	size := uint64(2) << ((op - opConst2u) / 2)
	return r.number(size, (op-opConst2u)%2 == 1)
}

func binaryOperation(op uint8, a, b uint64) (uint64, error) {
	holds := false
	switch op {
	case opAnd:
		return a & b, nil
	case opMinus:
		return a - b, nil
	case opMul:
		return a * b, nil
	case opOr:
		return a | b, nil
	case opPlus:
		return a + b, nil
	case opShl:
		return a << b, nil
	case opEq:
		holds = a == b
	case opGe:
		holds = int64(a) >= int64(b)
	case opGt:
		holds = int64(a) > int64(b)
	case opLe:
		holds = int64(a) <= int64(b)
	case opLt:
		holds = int64(a) < int64(b)
	case opNe:
		holds = a != b
	default:
		return 0, fmt.Errorf("%w: operation %#x", errTable, op)
	}
	if holds {
		return 1, nil
	}
	return 0, nil
}
