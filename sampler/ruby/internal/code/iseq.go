package code

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxISeqWords limits the size of code, in words of instructions. No real code is that large.
	maxISeqWords = 1 << 26
	// internalPrefix begins the path of Ruby code that is part of Ruby itself.
	internalPrefix = "<internal:"
)

// iseq is a cached piece of Ruby bytecode (rb_iseq_t).
type iseq struct {
	validity
	addr attach.Address
	// at is the address of the body. validity.read has rb_iseq_t and the beginning of the body. If they are unchanged,
	// the code may still be other code. The reason is that a program that makes and drops code repeatedly can put other
	// code at the same place, with the same addresses.
	at attach.Address

	parent    attach.Address // address of the code that contains this code, or zero
	encoded   uint64         // address of the first instruction
	size      uint32         // in words
	typ       iseqType
	path, abs string
	base      string
	label     labelPlan
	first     int32
	lines     lineTable
	internal  bool    // path begins with <internal:
	cTrace    bool    // 3.4: true if the code is shown like a C function
	compiled  bool    // true if a JIT had compiled the code at the last check
	locals    *Locals // nil if not read yet
}

// holds reports whether pc points into this code, and returns the position of pc in words. A pc points behind the
// instruction that is executed.
func (q *iseq) holds(pc uint64) (pos uint32, ok bool) {
	if pc < q.encoded || pc > q.encoded+8*uint64(q.size) {
		return 0, false
	}
	pos = uint32((pc - q.encoded) / 8)
	if pos > 0 {
		pos--
	}
	return pos, true
}

func (q *iseq) cost() int {
	n := 512 + len(q.read[1].says) + 32*len(q.witnesses) + len(q.path) + len(q.abs) + len(q.base) + len(q.label.base) + len(q.label.prefix) + q.lines.bytes()
	if q.locals != nil {
		n += 16 * len(q.locals.names) // the texts of the names are counted in the cache of the IDs' names
	}
	return n
}

// iseqBodyOf reads the body of the compiled code (iseq) at addr: only the part that ddtop needs.
func (d *loader) iseqBodyOf(addr attach.Address) ([]byte, error) {
	_, at, err := d.iseqHeadOf(addr)
	if err != nil {
		return nil, err
	}
	return d.view.Bytes(at, d.bodySize)
}

// iseqHeadOf reads an rb_iseq_t, and checks that the memory at addr really is an rb_iseq_t.
func (d *loader) iseqHeadOf(addr attach.Address) (head []byte, body attach.Address, err error) {
	if addr&7 != 0 {
		return nil, 0, heap.WrongType(addr, "iseq", heap.NotHeap)
	}
	head, err = d.view.Bytes(addr, iseqHead)
	if err != nil {
		return nil, 0, err
	}
	flags := view.U64(head)
	if flags&heap.TypeMask != heap.TypeImemo || flags>>imemoShift&15 != imemoISeq {
		return nil, 0, heap.WrongType(addr, "iseq", flags)
	}
	return head, attach.Address(view.U64(head[iseqBody:])), nil
}

// loadISeq reads everything about a piece of compiled code (iseq). It leaves out names that cannot be read, and reports
// them.
func (d *loader) loadISeq(addr attach.Address) (*iseq, error) {
	head, at, err := d.iseqHeadOf(addr)
	if err != nil {
		return nil, err
	}
	body, err := d.view.Bytes(at, d.bodySize)
	if err != nil {
		return nil, err
	}
	q := &iseq{
		addr: addr, at: at,
		typ:     iseqType(view.U32(body[d.o.bodyType:])),
		size:    view.U32(body[d.o.bodyISeqSize:]),
		encoded: view.U64(body[d.o.bodyEncoded:]),
		parent:  attach.Address(view.U64(body[d.o.bodyParent:])),
	}
	if q.typ >= iseqTypes || q.size > maxISeqWords || q.encoded == 0 {
		return nil, fmt.Errorf("the code at %s has type %d and %d words at %#x", addr, q.typ, q.size, q.encoded)
	}
	q.read = []memory{{addr, bytes.Clone(head)}, {at, bytes.Clone(body[:d.bodyHead])}}
	first := d.o.bodyFirstLine.In(body)
	if d.o.bodyFirstLine.Size == 8 {
		first >>= 1 // first is a Fixnum
	}
	q.first = int32(first)
	var errPath, errBase, errLabel, errLines, errOwn error
	d.Objects.Record(&q.witnesses)
	defer d.Objects.Record(nil)
	q.path, q.abs, errPath = d.paths(view.U64(body[d.o.bodyPath:]))
	q.base, errBase = d.Objects.Text(view.U64(body[d.o.bodyBaseLabel:]))
	q.label, errLabel = d.planLabel(addr, body)
	// This is Ruby's own label. For a block, it also names all code around the block. ddtop shows a label of its own,
	// and reads Ruby's only to notice later changes. So it does not matter if Ruby's label cannot be read.
	if errOwn = d.Objects.NoteString(view.U64(body[d.o.bodyLabel:])); errOwn != view.ErrMissing && !heap.Displaced(errOwn) {
		errOwn = nil
	}
	q.lines, errLines = d.readLines(body, q.size)
	if q.missingNames, err = d.tolerate(errPath, errBase, errLabel, errLines, errOwn); err != nil {
		return nil, err
	}
	q.internal = strings.HasPrefix(q.path, internalPrefix)
	if d.o.bodyAttrs >= 0 {
		q.cTrace = view.U32(body[d.o.bodyAttrs:])&d.o.cTrace != 0
	}
	return q, nil
}

// paths returns the path and absolute path of a piece of compiled code (iseq). v is a String if both are the same.
// Otherwise it is an Array with both, and the absolute path may be nil.
func (d *loader) paths(v uint64) (path, abs string, err error) {
	flags, err := d.Objects.Flags(v)
	if err != nil {
		return "", "", err
	}
	if flags&heap.TypeMask == heap.TypeString {
		path, err = d.Objects.Text(v)
		return path, path, err
	}
	at, n, err := d.Objects.Array(v)
	if err != nil {
		return "", "", err
	}
	if n < 2 {
		return "", "", heap.WrongType(attach.Address(v), "pair of paths", flags)
	}
	pair, err := d.view.Bytes(at, 16)
	if err != nil {
		return "", "", err
	}
	d.Objects.Note(at, pair, 0)
	path, err = d.Objects.Text(view.U64(pair))
	var errAbs error
	if real := view.U64(pair[8:]); d.Objects.IsObject(real) {
		abs, errAbs = d.Objects.Text(real)
	}
	return path, abs, view.Worst(err, errAbs)
}

// tolerate sorts the errors of reading names. fatal is an error that ends the attempt: memory is not fetched yet, or
// objects move. missingNames is true if there was any other error. Such an error only means that a name is missing.
func (d *loader) tolerate(errs ...error) (missingNames bool, fatal error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case err == view.ErrMissing, heap.Displaced(err):
			fatal = err
		default:
			d.lastNameError = err
			missingNames = true
		}
	}
	return missingNames, fatal
}
