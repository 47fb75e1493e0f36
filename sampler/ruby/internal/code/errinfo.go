package code

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

func (t iseqType) handler() bool { return t == iseqRescue || t == iseqEnsure }

// Errinfo returns the exception that a thread handles (its $!), or zero if it handles none. scopes are the scopes of
// its control frames, at least from the innermost scope outward to a rescue. ec is its execution context. The result
// from is the index of the scope in which the exception was found. It is -1 if the exception was found in ec. Errinfo
// reads through Objects.
func (d *classifier) Errinfo(scopes []Scope, ec attach.Address) (exception uint64, from int, err error) {
	const fixnum = 1
	v := uint64(0)
	for i := range scopes {
		s := &scopes[i]
		if !s.Handler() {
			continue
		}
		// The code of a rescue or an ensure has one local variable, which holds the exception.
		if v, err = d.Objects.Word(s.EP - envBelow - 8); err != nil {
			return 0, i, err
		}
		if s.typ == iseqRescue {
			v, err = d.exception(v)
			return v, i, err
		}
		// If no exception passes through an ensure, the ensure's variable holds a number. If a throw passes through it,
		// the variable holds an internal object of Ruby's.
		if v&fixnum != 0 {
			continue
		}
		imemo, err := d.Objects.Is(v, heap.TypeImemo)
		if err != nil {
			return 0, i, err
		}
		if !imemo {
			v, err = d.exception(v)
			return v, i, err
		}
	}
	if v, err = d.Objects.Word(ec + attach.Address(d.o.ecErrinfo)); err != nil {
		return 0, -1, err
	}
	v, err = d.exception(v)
	return v, -1, err
}

// exception returns v if it is an exception. It returns 0 for nil, and for an internal object of Ruby's.
func (d *classifier) exception(v uint64) (uint64, error) {
	if !d.Objects.IsObject(v) {
		return 0, nil
	}
	imemo, err := d.Objects.Is(v, heap.TypeImemo)
	if imemo || err == view.ErrMissing {
		return 0, err
	}
	return v, nil
}

// EndedBy returns the class of the exception that ended the thread at th, whose Thread object is self. Ruby keeps this
// exception for Thread#join while the Thread object exists. The class is empty in these cases: the thread has not
// ended, it ended without an exception, it was killed, or its object was freed.
func (d *classifier) EndedBy(self uint64, th attach.Address) (class string) {
	ended := false
	read := func() error {
		var ec attach.Address
		var err error
		class = ""
		if ec, ended, err = d.Objects.Ended(self, th); err != nil || !ended {
			return err
		}
		e, _, err := d.Errinfo(nil, ec)
		if err == nil && e != 0 {
			class, err = d.Objects.ClassOf(e)
		}
		return err
	}
	if d.Objects.Read(read) != nil || class == "" {
		return ""
	}
	// The collector may have freed the thread while the values above were read. So check now that it still exists.
	err := d.Objects.Read(func() (err error) { _, ended, err = d.Objects.Ended(self, th); return err })
	if err != nil || !ended {
		return ""
	}
	return class
}
