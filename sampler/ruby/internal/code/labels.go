package code

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// iseqType is the kind of code an iseq is made of (rb_iseq_type, the same from 2.5 to head).
type iseqType uint32

const (
	iseqTop iseqType = iota
	iseqMethod
	iseqBlock
	iseqClass
	iseqRescue
	iseqEnsure
	iseqEval
	iseqMain
	// iseqPlain is the type of code that was compiled by hand (2.6 and later). In 2.5 this number is the type of the
	// guard of a `defined?`.
	iseqPlain
	iseqTypes
)

// maxNesting limits how deep blocks within blocks are followed, in a label and from an iseq outward to the code around
// it.
const maxNesting = 256

// labelPlan is the label of a piece of compiled code (iseq), but without the class of its method. The class is added
// for each frame, because it depends on the frame.
type labelPlan struct {
	// prefix is "block in " or similar, or "" if the code is no block. base is the name that follows prefix.
	prefix, base string
	// qualify is true if base is the name of a method and needs the method's class in front.
	qualify bool
}

// planLabel finds the label of the code (iseq) at addr. The label has the form of Ruby 3.4's labels, on older releases,
// too. body is the iseq's body (docs/internals/code.md#labels).
func (d *loader) planLabel(addr attach.Address, body []byte) (labelPlan, error) {
	var p labelPlan
	for range maxNesting {
		typ := iseqType(view.U32(body[d.o.bodyType:]))
		parent := attach.Address(view.U64(body[d.o.bodyParent:]))
		if typ == iseqPlain && !d.target.Release.AtLeast(2, 6) {
			typ = iseqRescue // the guard of a defined? gets its parent's label
		}
		switch typ {
		case iseqBlock, iseqPlain:
			if parent == 0 {
				return p.stored(d, body, false)
			}
			levels, outer, outerBody, err := d.localISeq(addr, body)
			if err != nil {
				return p, err
			}
			if levels <= 1 {
				p.prefix += "block in "
			} else {
				p.prefix += fmt.Sprintf("block (%d levels) in ", levels)
			}
			if outer == addr {
				return p.stored(d, body, false)
			}
			addr, body = outer, outerBody
		case iseqRescue, iseqEnsure, iseqEval:
			if parent == 0 {
				return p.stored(d, body, false)
			}
			b, err := d.iseqBodyOf(parent)
			if err != nil {
				return p, err
			}
			addr, body = parent, b
		default:
			return p.stored(d, body, typ == iseqMethod)
		}
	}
	return p, fmt.Errorf("the code at %s is nested in more than %d others", addr, maxNesting)
}

// stored completes the plan with the label that is stored in the iseq.
func (p labelPlan) stored(d *loader, body []byte, qualify bool) (labelPlan, error) {
	var err error
	p.base, err = d.Objects.Text(view.U64(body[d.o.bodyLabel:]))
	p.qualify = qualify
	return p, err
}

// localISeq walks from a block outward to the code with the block's outermost local variables. It counts the blocks on
// the way.
func (d *loader) localISeq(addr attach.Address, body []byte) (levels int, outer attach.Address, outerBody []byte, err error) {
	local := attach.Address(view.U64(body[d.o.bodyLocal:]))
	for range maxNesting {
		if addr == local {
			return levels, addr, body, nil
		}
		if iseqType(view.U32(body[d.o.bodyType:])) == iseqBlock {
			levels++
		}
		addr = attach.Address(view.U64(body[d.o.bodyParent:]))
		if body, err = d.iseqBodyOf(addr); err != nil {
			return 0, 0, nil, err
		}
	}
	return 0, 0, nil, fmt.Errorf("the code at %s is nested in more than %d others", addr, maxNesting)
}
