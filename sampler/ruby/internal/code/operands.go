package code

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxOperands limits how much of one piece of code is searched for operands, in words.
const maxOperands = 1 << 10

const (
	// imemoConstant is the kind of an internal object that caches a constant (imemo_constcache of internal/imemo.h, 3.0
	// to 4.0). The kind is in the bits imemoKind. The object's second word is the constant's value.
	imemoKind, imemoConstant = 15 << 12, 13 << 12
	// These are offsets up to 2.7. constant27 is the place of a constant's value in its inline cache
	// (iseq_inline_cache_entry, vm_core.h). call27 is the place of the method's ID in the data of a call
	// (rb_call_data). global27 is the place of the ID in a global variable's entry (rb_global_entry, variable.c).
	constant27, call27, global27 = 16, 64, 8
	// From 3.0 on, the first word of a call's data has the bit callTag. The method's ID is in the bits from callShift
	// on (vm_callinfo.h).
	callTag, callShift = 1, 32
)

// Operands are what the instructions of a piece of code refer to.
type Operands struct {
	// Calls has the names of the methods that the code calls. Constants has the values of the constants that it has
	// used.
	Calls     []string
	Constants []uint64
	// words are all words of the code. globals are the IDs of the code's global variables, which 2.7 stores outside the
	// code. places has the index in words of each name in Calls. blocks has the index in words of each reference to a
	// block.
	words, globals []uint64
	places, blocks []int
}

// Names reports whether the code refers to the variable with this ID.
func (o *Operands) Names(id uint64) bool {
	return slices.Contains(o.words, id) || slices.Contains(o.globals, id)
}

// Operands reads the methods, constants, variables and blocks to which the code of an iseq refers. Call it in a
// function that Objects.Read calls. It treats each word of the code as a possible operand. Some words are addresses of
// instructions. They do no harm, because the machine code there does not look like a method's ID.
func (d *classifier) Operands(iseq attach.Address, into *Operands) error {
	into.Calls, into.Constants, into.words = into.Calls[:0], into.Constants[:0], into.words[:0]
	into.globals, into.places, into.blocks = into.globals[:0], into.places[:0], into.blocks[:0]
	v := d.Objects.View
	body, err := v.Word(iseq + iseqBody)
	if err != nil {
		return err
	}
	size, errSize := v.Bytes(attach.Address(body)+attach.Address(d.o.bodyISeqSize), 4)
	encoded, errEncoded := v.Word(attach.Address(body) + attach.Address(d.o.bodyEncoded))
	if err := view.Worst(errSize, errEncoded); err != nil {
		return err
	}
	code, err := v.Bytes(attach.Address(encoded), int(min(view.U32(size), maxOperands))*8)
	if err != nil {
		return err
	}
	old := !d.target.Release.AtLeast(3, 0)
	var missing error
	for ; len(code) >= 8; code = code[8:] {
		word := view.U64(code)
		into.words = append(into.words, word)
		if word&7 != 0 || word < 1<<16 {
			continue
		}
		if old {
			err = d.operand27(word, into)
		} else {
			err = d.operand(word, into)
		}
		if err == view.ErrMissing {
			missing = err
		}
	}
	return missing
}

// operand reads the word at the address at, to which a word of the code refers. This may be the data of a call, a
// block, or the inline cache of a constant.
func (d *classifier) operand(at uint64, into *Operands) error {
	v := d.Objects.View
	word, err := v.Word(attach.Address(at))
	switch {
	case err != nil:
		return err
	case word&callTag != 0:
		return d.call(word>>callShift, into)
	case isBlock(word):
		into.blocks = append(into.blocks, len(into.words)-1)
		return nil
	}
	constant, err := d.constant(word)
	if constant != 0 {
		into.Constants = append(into.Constants, constant)
	}
	return err
}

// isBlock reports whether a word is the first word of an iseq. Code refers to a block by the block's iseq.
func isBlock(word uint64) bool {
	return word&(heap.TypeMask|imemoKind) == heap.TypeImemo|imemoISeq<<imemoShift
}

// constant returns the value of a constant from the first word of its inline cache (3.0 and later). It returns zero if
// the cache is empty, or if the word does not belong to such a cache.
func (d *classifier) constant(word uint64) (uint64, error) {
	if !d.Objects.IsObject(word) {
		return 0, nil
	}
	head, err := d.Objects.View.Bytes(attach.Address(word), 16)
	if err != nil || view.U64(head)&(heap.TypeMask|imemoKind) != heap.TypeImemo|imemoConstant {
		return 0, err
	}
	return view.U64(head[8:]), nil
}

func (d *classifier) operand27(at uint64, into *Operands) error {
	v := d.Objects.View
	if word, err := v.Word(attach.Address(at)); err == nil && isBlock(word) {
		into.blocks = append(into.blocks, len(into.words)-1)
		return nil
	}
	constant, err := v.Word(attach.Address(at) + constant27)
	if err == nil && d.Objects.IsObject(constant) {
		into.Constants = append(into.Constants, constant)
	}
	if name, err := v.Word(attach.Address(at) + global27); err == nil {
		into.globals = append(into.globals, name)
	}
	id, errID := v.Word(attach.Address(at) + call27)
	if errID == nil {
		errID = d.call(id, into)
	}
	return view.Worst(err, errID)
}

func (d *classifier) call(id uint64, into *Operands) error {
	name, err := d.Objects.IDName(id)
	if err == nil {
		into.Calls, into.places = append(into.Calls, name), append(into.places, len(into.words)-1)
	}
	return err
}
