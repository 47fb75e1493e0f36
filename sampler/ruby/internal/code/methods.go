package code

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These are kinds of internal objects (T_IMEMO). The kind is in the bits flags>>12 & 15 (imemo_type). Kinds below 8 are
// the same from 2.5 to head.
const (
	imemoShift = 12
	imemoCref  = 1
	imemoSvar  = 2
	imemoMent  = 6
	imemoISeq  = 7
)

// These are kinds of method definitions (rb_method_type_t, the same from 2.5 to head).
const (
	methodISeq  = 0
	methodCFunc = 1
)

const (
	// envLocal is set in the flags of the outermost environment of a method: the environment of the method itself, not
	// of a block in it.
	envLocal = 2
	// envEscaped marks an environment (the variables of a method or block) that has moved to the heap. On the heap, an
	// environment does not change.
	envEscaped = 4
	// maxEnvs limits how many environments ddtop visits on the way from a block's environment outward to the
	// environment of its method.
	maxEnvs = 256
)

// methodEntry describes the object to which the first word of an environment refers. The object can be a method entry,
// or special variables ($~ and $_) that lead to a method entry. It can also be an object that names no method.
type methodEntry struct {
	validity
	addr uint64

	kind  methodEntryKind
	label string // qualified name of the definition
	name  string // the definition's name, without the class
	// likeC is true if frames of this method are shown like C functions. They then have the name in the method's
	// definition, while other frames have the name of their iseq.
	likeC bool
	owner uint64
	// called is the ID by which the method is called, and original the ID in its definition. They differ for an alias.
	called, original uint64
	// named is the generation in which the name in the label was last confirmed. If witnesses is nil, comparing memory
	// cannot confirm the name of the class. In this case the name is read again in each generation.
	named generation
	// final is true if the label can't change.
	final bool
	// If the object is a method's special variables ($~ and $_), next is the method entry to which they lead. Otherwise
	// next is zero. code is the iseq of the frame for which the special variables were read.
	next  uint64
	code  attach.Address
	bytes int // the last result of the method cost
	// qualified has a label for each other name of the method (an alias). The label is the class and this name.
	qualified map[string]string
}

type methodEntryKind uint8

const (
	kindScope methodEntryKind = iota // a cref: the scope of a class body or of the top level
	kindMethod
	kindVariable
)

func (d *loader) loadMethodEntry(v uint64) (*methodEntry, error) {
	h := &methodEntry{addr: v}
	flags, err := d.Objects.Flags(v)
	if err != nil {
		return nil, err
	}
	if flags&heap.TypeMask != heap.TypeImemo {
		return nil, heap.WrongType(attach.Address(v), "method entry", flags)
	}
	switch flags >> imemoShift & 15 {
	case imemoSvar:
		h.kind = kindVariable
		h.next, err = d.view.Word(attach.Address(v) + svarCrefOrMe)
		return h, err
	case imemoMent:
		h.kind = kindMethod
		return h, d.loadMethod(h)
	case imemoCref:
		h.kind = kindScope
		return h, nil
	}
	// Ruby stores no other kind of object in an environment. So the method entry was moved or freed, and another object
	// now has its place.
	return nil, heap.WrongType(attach.Address(v), "method entry", heap.TypeMoved)
}

func (d *loader) loadMethod(h *methodEntry) error {
	me, err := d.view.Bytes(attach.Address(h.addr), meSize)
	if err != nil {
		return err
	}
	h.owner, h.called = view.U64(me[meOwner:]), view.U64(me[meCalledID:])
	defAt := attach.Address(view.U64(me[meDef:]))
	def, err := d.view.Bytes(defAt, defSize)
	if err != nil {
		return err
	}
	h.read = []memory{{attach.Address(h.addr), bytes.Clone(me)}, {defAt, bytes.Clone(def)}}
	var errName, errLabel, errCode error
	h.original = view.U64(def[defOriginalID:])
	h.name, errName = d.Objects.IDName(h.original)
	d.Objects.Record(&h.witnesses)
	h.label, h.final, errLabel = d.Objects.Qualified(h.owner, h.name)
	d.Objects.Record(nil)
	if errLabel != nil || !heap.Recorded(h.witnesses) {
		h.witnesses = nil
	}
	switch view.U32(def[defType:]) & 15 {
	case methodCFunc:
		h.likeC = true
	case methodISeq:
		if d.rules.internalAsC || d.rules.cTrace {
			var q *iseq
			if q, errCode = d.iseqAt(attach.Address(view.U64(def[defBody:]))); q != nil {
				h.likeC = d.rules.likeC(q)
			}
		}
	}
	h.missingNames, err = d.tolerate(errName, errLabel, errCode)
	return err
}

// qualify returns a label that consists of this method's class and the given name. The name is a parameter, because the
// name of an iseq can differ from the method's name (aliases).
func (d *loader) qualify(h *methodEntry, name string) (string, error) {
	if name == h.name {
		return h.label, nil
	}
	if label, ok := h.qualified[name]; ok {
		return label, nil
	}
	label, final, err := d.Objects.Qualified(h.owner, name)
	if err != nil {
		return name, err
	}
	if len(h.qualified) < maxQualified {
		if h.qualified == nil {
			h.qualified = make(map[string]string)
		}
		d.keep(keptEntry + len(label))
		if d.methodEntries[h.addr] == h {
			h.bytes += keptEntry + len(label)
		}
		h.qualified[name] = label
	}
	h.final = h.final && final
	return label, nil
}

func (h *methodEntry) cost() int { return h.bytes }

// env holds three words of an environment: a reference that leads to its method, a reference to the environment around
// it, and flags. The environment's pointer leads to the last of these words.
type env struct{ me, specval, flags uint64 }

// holds reports whether the words of the environment at ep were read together with the frames.
func (raw *Stack) holds(ep attach.Address) bool {
	n := attach.Address(len(raw.Values))
	return ep >= raw.ValuesAt+envBelow && ep-raw.ValuesAt < n && ep-raw.ValuesAt+8 <= n
}

func (raw *Stack) envOf(ep attach.Address) env {
	return envIn(raw.Values[ep-envBelow-raw.ValuesAt:][:envSize])
}

func envIn(b []byte) env {
	return env{me: view.U64(b), specval: view.U64(b[8:]), flags: view.U64(b[16:])}
}

// envAt returns an environment. An environment on the VM stack was read together with the frames. An environment that
// has outlived its frame is on the heap, and envAt reads it from the target.
func (d *environments) envAt(raw *Stack, ep attach.Address) (env, error) {
	if raw.holds(ep) {
		e := raw.envOf(ep)
		d.seen = append(d.seen, envPlace{ep, e})
		return e, nil
	}
	if ep&7 != 0 {
		return env{}, view.Unreadable(ep, envSize)
	}
	b, err := d.view.Bytes(ep-envBelow, envSize)
	if err != nil {
		return env{}, err
	}
	e := envIn(b)
	d.fleeting = d.fleeting || e.flags&envEscaped == 0
	return e, nil
}

// envKey identifies an environment on the heap, and the iseq of the frames that use it.
type envKey struct{ ep, code attach.Address }

// envMethod is a cached result of methodOf: the method to which an environment on the heap leads. Its validity lists
// the memory of all environments on the way to the method. If this memory changes, the environment may lead to another
// method.
type envMethod struct {
	validity
	entry *methodEntry // nil if there is none
}

// envPlace is an environment with its pointer.
type envPlace struct {
	ep attach.Address
	env
}

func (e *envMethod) cost() int { return keptEntry + len(e.read)*int(unsafe.Sizeof(envPlace{})) }

// drop does nothing: an invalid entry can stay in the cache. methodOf then walks the environments again and replaces
// the entry.
func (e *envMethod) drop(*loader) bool { return false }

// methodOf finds the method of a frame as rb_vm_frame_method_entry does: it goes from the frame's environment outward
// to the method's environment. It returns nil if there is no method (a class body, the top level). code is the frame's
// iseq. ofMethod is true if the code belongs to a method. In this case the method's environment must name a method
// entry. If it names a scope instead (imemo_cref), memory has changed, and methodOf returns an error.
func (d *environments) methodOf(raw *Stack, ep attach.Address, code attach.Address, ofMethod bool) (*methodEntry, error) {
	var start attach.Address // the first environment on the heap
	d.chain = d.chain[:0]
	for range maxEnvs {
		if start == 0 && !raw.holds(ep) {
			if m, ok := d.envs[envKey{ep, code}]; ok && d.valid(&m.validity) {
				d.youngEnv = d.youngEnv || !d.old(&m.validity)
				return d.useEnv(m)
			}
			start = ep
		}
		e, err := d.envAt(raw, ep)
		if err != nil {
			return nil, err
		}
		if start != 0 {
			d.chain = append(d.chain, envPlace{ep, e})
			d.youngEnv = d.youngEnv || e.flags&envEscaped != 0
		}
		h, done, err := d.methodAt(e, code, ofMethod)
		if err != nil {
			return nil, err
		}
		if done {
			if start != 0 {
				d.keepEnv(envKey{start, code}, h)
			}
			return h, nil
		}
		ep = attach.Address(e.specval &^ 3)
	}
	return nil, view.Unreadable(ep, envSize)
}

// methodAt returns the method that one environment names. done is true if the search outward ends at this environment,
// with or without a method.
func (d *environments) methodAt(e env, code attach.Address, ofMethod bool) (h *methodEntry, done bool, err error) {
	local := e.flags&envLocal != 0
	if e.me == 0 {
		if local && ofMethod && e.flags&envEscaped == 0 {
			// From 2.5 to head, a method's own environment always names the method (vm_push_frame). The only exception
			// is the copy of an isolated block's environment, and this copy is on the heap. Here the environment is on
			// the stack. So ddtop read the memory before Ruby had pushed the frame.
			return nil, false, heap.WrongType(attach.Address(e.me), "method entry", heap.NotHeap)
		}
		return nil, local, nil
	}
	h, err = d.methodEntryAt(e.me, code)
	if err != nil {
		return nil, false, err
	}
	if h.kind == kindMethod {
		return h, true, nil
	}
	if h.kind == kindScope && local && ofMethod {
		return nil, false, heap.WrongType(attach.Address(e.me), "method entry", heap.TypeImemo)
	}
	if h.kind != kindVariable || !local || h.next == 0 {
		return nil, local, nil
	}
	h, err = d.methodEntryAt(h.next, code)
	if err != nil || h.kind != kindMethod {
		return nil, err == nil, err
	}
	return h, true, nil
}

// keepEnv caches the method to which an environment on the heap leads. It caches nothing if an environment on the way
// is on a VM stack, because that environment disappears with its frame.
func (d *environments) keepEnv(key envKey, h *methodEntry) {
	for _, p := range d.chain {
		if p.flags&envEscaped == 0 {
			return
		}
	}
	if len(d.envs) >= maxEnvMethods {
		d.forgetAll()
	}
	if old := d.envs[key]; old != nil {
		d.kept -= old.cost()
	}
	m := &envMethod{entry: h}
	for _, p := range d.chain {
		says := binary.LittleEndian.AppendUint64(make([]byte, 0, envSize), p.me)
		says = binary.LittleEndian.AppendUint64(says, p.specval)
		m.read = append(m.read, memory{p.ep - envBelow, binary.LittleEndian.AppendUint64(says, p.flags)})
	}
	d.keep(m.cost())
	m.generation, m.born = d.generation, d.collected()
	d.envs[key] = m
	d.use(&m.validity, m)
}

// useEnv returns the method that is cached for an environment. methodEntryAt then checks that the method entry is
// unchanged, as for any other method.
func (d *environments) useEnv(m *envMethod) (*methodEntry, error) {
	d.use(&m.validity, m)
	if m.entry == nil {
		return nil, nil
	}
	h, err := d.methodEntryAt(m.entry.addr, m.entry.code)
	if err == nil && h.kind != kindMethod {
		return nil, heap.WrongType(attach.Address(m.entry.addr), "method entry", heap.TypeMoved)
	}
	return h, err
}

// DefinedName returns the name in the definition of a method entry. It reads the target's memory through objects.
func DefinedName(objects *heap.Objects, entry attach.Address) (string, error) {
	definition, err := objects.View.Word(entry + meDef)
	if err != nil {
		return "", err
	}
	id, err := objects.View.Word(attach.Address(definition) + defOriginalID)
	if err != nil {
		return "", err
	}
	return objects.IDName(id)
}
