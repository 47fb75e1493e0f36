package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// target is the process being read, with what all parts of a Reader need: its VM, and the call and the time of the tick under way.
type target struct {
	pid    int
	vm     *VM
	mem    attach.Memory
	dec    *code.Decoder
	dict   *sampler.Dictionary
	o      *rubyvm.Offsets
	era    sampler.Era
	now    func() int64
	gc     *gc.Reader // nil: the collector can't be read
	reads  sampler.Reads
	budget budget
	// shared is by how many processes the limits are divided now.
	shared int
	// collecting: a thread collects garbage in the tick under way.
	collecting bool
	// plan is that of the tick's call under way, or of the last one.
	plan    plan
	scratch []attach.Range
}

// Era says which generation of scheduler the target has.
func (r *target) Era() sampler.Era { return r.era }

// Reads counts what happened to reads so far.
func (r *target) Reads() *sampler.Reads { return &r.reads }

// le32 and le64 read the little-endian number that b starts with; the caller has checked the length.
func le32(b []byte) uint32 { return view.U32(b) }
func le64(b []byte) uint64 { return view.U64(b) }
