package code

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants are for code that a JIT has compiled. Such code writes its frame's pc only before it calls something
// that needs the pc. Between two such calls, the innermost frame of a running thread shows the line of the earlier
// call. For example, a loop that only computes seems to be at the call before it. An iseq says whether it is compiled.
// A variable of the Ruby library says whether a JIT is on. YJIT can also be turned on later (RubyVM::YJIT.enable, as
// Rails does).

const (
	// jitAskEvery is how many innermost frames of running threads are decoded before ddtop checks again whether a JIT
	// is on. Once it has found a JIT on, it does not check again.
	jitAskEvery = 32
	// jitWords is how many bytes of an iseq's body are read, from the first field of the JITs on.
	jitWords = 56
	// maxJITState limits the numbers that MJIT stores in place of an address if it has not compiled the code. A larger
	// number is an address.
	maxJITState = 4096
)

// JIT is a JIT compiler that a process may use.
type JIT struct {
	// flag is the address of the variable that says whether the JIT is on. The variable has size bytes. If flag is
	// zero, the JIT is always on.
	flag attach.Address
	size int
	// words are offsets in the body of an iseq, in bytes from bodyJIT on. If this JIT has compiled the iseq, at least
	// one of the words at these offsets is set.
	words []int
}

// JITs lists the JITs that a process may use. It finds them by the variables of the process's library and by Ruby's
// description of itself. Each release marks compiled code in another place of an iseq (rb_iseq_constant_body in Ruby's
// vm_core.h). If only compiled code calls a method, only the word for its payload is set. If a method is entered by an
// exception or in a loop, the word for another entry is set. Counters are between these two words. If YJIT and RJIT are
// both built in (3.3 and 3.4), YJIT's payload follows a word of RJIT. See docs/internals/code.md#jits.
func JITs(symbol func(name string) (attach.Symbol, bool), r places.Release, description string, p *Places) []JIT {
	var out []JIT
	add := func(variable string, size int, words ...int) {
		if s, ok := symbol(variable); ok && !s.TLS {
			out = append(out, JIT{s.Addr, size, words})
		}
	}
	switch {
	case p.bodyJIT < 0:
	case r.AtLeast(4, 0):
		add("rb_yjit_enabled_p", 1, 0, 16, 32)
		add("rb_zjit_entry", 8, 0, 16, 32, 48)
	case r.AtLeast(3, 3):
		add("rb_yjit_enabled_p", 1, 0, 16, 32, 40)
		add("rb_rjit_call_p", 1, 0, 16, 32)
	default:
		add("mjit_call_p", 1, 0)
		if strings.Contains(description, "+YJIT") { // in 3.1 and 3.2, YJIT is on from the start or never
			out = append(out, JIT{words: []int{0, 24}})
		}
	}
	return out
}

// JITOn reports whether a JIT was seen to be on.
func (d *classifier) JITOn() bool { return d.jitOn != nil }

// Live reports whether the thread runs and does not collect garbage (Settled). If a JIT has compiled the innermost
// frame's code, the frame's pc may then be out of date.
func (raw *Stack) Live() bool { return raw.Running && !raw.Settled }

// compiledNow reports whether a JIT has compiled the code. If so, the pc of a running frame of this code may be out of
// date. compiledNow returns false if the JIT's words cannot be read.
func (d *classifier) compiledNow(q *iseq) (bool, error) {
	if q.compiled {
		return true, nil
	}
	jits := d.target.JITs
	if len(jits) == 0 {
		return false, nil
	}
	if d.jitOn == nil {
		if d.jitWait > 0 {
			d.jitWait--
			return false, nil
		}
		for i := range jits {
			on, err := d.jitIsOn(&jits[i])
			if err != nil {
				return false, err
			}
			if on {
				d.jitOn = &jits[i] // stop here, because Ruby refuses to run two JITs
				break
			}
		}
		if d.jitOn == nil {
			d.jitWait = jitAskEvery
			return false, nil
		}
	}
	b, err := d.view.Bytes(q.at+attach.Address(d.o.bodyJIT), jitWords)
	if err != nil {
		return false, onlyMissing(err)
	}
	q.compiled = slices.ContainsFunc(d.jitOn.words, func(at int) bool { return view.U64(b[at:]) > maxJITState })
	return q.compiled, nil
}

func (d *classifier) jitIsOn(j *JIT) (bool, error) {
	if j.flag == 0 {
		return true, nil
	}
	b, err := d.view.Bytes(j.flag, j.size)
	if err != nil {
		return false, onlyMissing(err)
	}
	return slices.ContainsFunc(b, func(c byte) bool { return c != 0 }), nil
}

// onlyMissing returns err if it is view.ErrMissing, so that the caller fetches memory and tries again. It drops all
// other errors.
func onlyMissing(err error) error {
	if err == view.ErrMissing {
		return err
	}
	return nil
}
