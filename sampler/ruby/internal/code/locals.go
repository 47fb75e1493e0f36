package code

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxLocals limits how many local variables one piece of code has.
const maxLocals = 1 << 12

// Locals are the names of the local variables of a piece of code, parameters first. Variables that Ruby itself has
// added have the name "".
type Locals struct{ names []string }

// Names returns the names of the variables, in the order in which a frame keeps them. They must not be changed.
func (l *Locals) Names() []string { return l.names }

// Find returns the index of a variable among the names, or -1 if there is no such variable.
func (l *Locals) Find(name string) int { return slices.Index(l.names, name) }

// At returns where a frame with the environment ep keeps variable i (docs/internals/stacks.md#local-variables).
func (l *Locals) At(ep attach.Address, i int) attach.Address {
	return ep - attach.Address(len(l.names)-i+2)*8
}

// Scope is a control frame of Ruby code with its receiver and its own local variables. A block can also use the
// variables of the code around it. While the frame of that code exists, these variables belong to that frame's Scope.
type Scope struct {
	// Frame is the index of the scope's frame among the control frames. Index 0 is the innermost frame. ISeq is the
	// address of the code (see Decoder.Known).
	Frame    int
	ISeq, EP attach.Address
	Self     uint64
	Locals   *Locals

	typ iseqType
}

// Handler reports whether the scope's code is a rescue or an ensure.
func (s *Scope) Handler() bool { return s.typ.handler() }

// Scopes returns a Scope for each control frame that runs Ruby code, innermost first. It reuses the memory of into. The
// stack must have been decoded recently. The errors are the same as Decode's.
func (d *classifier) Scopes(frames []byte, into []Scope) ([]Scope, error) {
	for range maxDecodeTries {
		d.view.Reset()
		d.begin()
		err := d.view.Settle(func() (err error) {
			into, err = d.scopes(frames, into[:0])
			return err
		})
		if err != nil {
			d.forgetFresh()
			return into[:0], err
		}
		same, err := d.check()
		if err != nil {
			return into[:0], err
		}
		if same {
			return into, nil
		}
	}
	return into[:0], ErrTorn
}

func (d *classifier) scopes(frames []byte, into []Scope) ([]Scope, error) {
	var missing error
	d.pass++
	for i := 0; (i+1)*d.o.FrameSize <= len(frames); i++ {
		f := frames[i*d.o.FrameSize:]
		s := Scope{Frame: i, ISeq: attach.Address(view.U64(f[FrameISeq:])), EP: attach.Address(view.U64(f[FrameEP:])), Self: view.U64(f[FrameSelf:])}
		if s.ISeq == 0 || view.U64(f[FramePC:]) == 0 || d.target.ZJITFrames && view.U64(f[d.o.FrameJIT:]) != 0 {
			continue
		}
		q, err := d.iseqAt(s.ISeq)
		if err == nil {
			s.typ = q.typ
			s.Locals, err = d.localsOf(q)
		}
		switch {
		case err == view.ErrMissing:
			missing = err
		case err != nil:
			return into, fmt.Errorf("%w: control frame %d: %w", ErrTorn, i, err)
		default:
			into = append(into, s)
		}
	}
	return into, missing
}

// localsOf returns the local variables of a piece of compiled code (iseq). They are cached with the iseq, and compared
// with memory like the iseq's names.
func (d *loader) localsOf(q *iseq) (*Locals, error) {
	if q.locals != nil {
		return q.locals, nil
	}
	table, errTable := d.view.Bytes(q.at+attach.Address(d.o.bodyLocals), 8)
	size, errSize := d.view.Bytes(q.at+attach.Address(d.o.bodyLocalsSize), 4)
	if err := view.Worst(errTable, errSize); err != nil {
		return nil, err
	}
	at, n := attach.Address(view.U64(table)), view.U32(size)
	if n > maxLocals {
		return nil, fmt.Errorf("the code at %s has %d local variables", q.addr, n)
	}
	ids, err := d.view.Bytes(at, int(n)*8)
	if err != nil {
		return nil, err
	}
	l := &Locals{names: make([]string, n)}
	var missing error
	for i := range l.names {
		name, err := d.Objects.IDName(view.U64(ids[8*i:]))
		if err == view.ErrMissing || heap.Displaced(err) {
			missing = view.Worst(missing, err)
		}
		if err == nil {
			l.names[i] = name
		}
	}
	if missing != nil {
		return nil, missing
	}
	before := q.cost()
	d.Objects.Record(&q.witnesses)
	d.Objects.Note(q.at+attach.Address(d.o.bodyLocals), table, 0)
	d.Objects.Note(q.at+attach.Address(d.o.bodyLocalsSize), size, 0)
	d.Objects.Note(at, ids, 0)
	d.Objects.Record(nil)
	if heap.Recorded(q.witnesses) { // memory without a record could not be checked again
		q.locals = l
	}
	more := q.cost() - before
	d.keep(more)
	if d.iseqs[q.addr] != q {
		d.kept -= more // the method keep has dropped the iseq
	}
	d.suspect(&q.validity, q)
	return l, nil
}
