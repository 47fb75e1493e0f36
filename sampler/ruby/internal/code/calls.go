package code

import (
	"errors"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// ErrUnlinked means that on a racing stack a frame does not call the next frame inward (Info.Unlinked). A stack is
// racing if its thread ran while the stack was copied (Stack.Racing).
var ErrUnlinked = errors.New("a frame does not call the frame inward of it")

const (
	// maxAliases limits how many aliases are followed if a method is an alias of an alias.
	maxAliases = 8
	// maxBlockDepth limits how many frames outward of a block are searched for the code that contains the block
	// (encloses).
	maxBlockDepth = 256
	// These are offsets in rb_call_data (the data of a call), in its cache rb_callcache, and in rb_callinfo. The data
	// have a packed word with the method's ID. If the call has keyword arguments, the data refer to an rb_callinfo
	// instead (vm_callinfo.h, vm_core.h, 3.0 to 4.0). In 2.7 the cache is a part of rb_call_data (vm_core.h).
	infoMethod, dataCache, cacheMethod, cacheMethod27 = 16, 8, 16, 32
	// The flags in the packed word begin at the bit callFlags. callSuper is the flag of a call of super
	// (vm_call_flag_bits of vm_callinfo.h). Up to 3.2 this flag is callSuper30.
	callFlags, callSuper, callSuper30 = 16, uint64(1 << 8), uint64(1 << 9)
	// These are kinds of method definitions (rb_method_type_t). methodAlias (an alias) and methodRefined (a method with
	// refinements) lead to another method entry. methodOptimized is a method that forwards a call. Its name can be
	// missing in the variable forwarding. methodBlock (define_method) can be made from a Symbol. It then calls the
	// method with the Symbol's name without having a frame of its own.
	methodBlock, methodAlias, methodOptimized, methodRefined = 4, 6, 9, 11
)

// forwarding are methods that have no frame of their own when they call another method or a block (vm_call_optimized,
// vm_insnhelper.c).
var forwarding = map[string]bool{"send": true, "__send__": true, "public_send": true, "call": true, "()": true, "yield": true, "===": true, "[]": true}

// implicit are methods that an instruction can call although it names another method. For example, it calls them to
// convert an argument, to find a key, or to raise an error.
var implicit = map[string]bool{
	"method_missing": true, "respond_to_missing?": true, "respond_to?": true, "to_a": true, "to_ary": true, "to_hash": true,
	"to_proc": true, "to_s": true, "to_str": true, "to_int": true, "to_path": true, "hash": true, "eql?": true, "<=>": true, "===": true,
	"inspect": true, "initialize": true, "backtrace": true, "set_backtrace": true, "warn": true, "inherited": true, "method_added": true,
	"singleton_method_added": true, "method_undefined": true, "singleton_method_undefined": true,
}

// link is a call that a stack shows: the place in the caller's code, and the method that is called.
type link struct {
	code   *iseq
	method *methodEntry
	pos    uint32
}

func (l *link) hash() uint64 {
	x := (uint64(l.code.addr)>>3 ^ uint64(l.pos)<<40) * 0x9e3779b97f4a7c15
	x ^= l.method.addr >> 3 * 0xc2b2ae3d27d4eb4f
	return x ^ x>>29
}

// raced reports whether the copy of a racing stack mixes two chains of calls. If it does, raced returns ErrUnlinked and
// the number of inner frames that the outer frames cannot have called.
func (d *Decoder) raced(raw *Stack, reused int) (n int, err error) {
	if !raw.Racing {
		return 0, nil
	}
	if err := d.view.Settle(func() (err error) {
		n, err = d.unlinked(raw, reused)
		return err
	}); err != nil {
		return 0, err
	}
	if n > 0 {
		return n, ErrUnlinked
	}
	return 0, nil
}

// unlinked returns how many innermost frames cannot have been called by the frames outward of them. The copy of a
// racing stack can mix two chains of calls: outer frames of one and inner frames of the other. At the border between
// them, an outer frame then does not call the next frame inward. reused is the number of outermost frames that were
// checked before.
func (d *Decoder) unlinked(raw *Stack, reused int) (int, error) {
	if d.target.ZJITFrames || !d.target.Release.AtLeast(2, 7) {
		return 0, nil
	}
	first := 0
	if d.halfWritten(raw) {
		first = 1
	}
	var missing error
	for i := len(d.work) - 1; i >= first; i-- {
		caller := (*frameWork)(nil)
		switch {
		case raw.Cut > 0 && i == raw.Cut-1:
			continue // the frame's caller was left out
		case i+1 < len(d.work):
			caller = &d.work[i+1]
		case reused > 0:
			caller = &raw.Kept.decoded[reused-1].work
		default:
			continue
		}
		ok, err := d.linked(raw, i, caller)
		if err == view.ErrMissing {
			missing = err
		} else if !ok {
			return i + 1, missing
		}
	}
	return 0, missing
}

// linked reports whether frame i may have been called by the frame outward of it. It returns true unless something
// shows that it was not.
func (d *Decoder) linked(raw *Stack, i int, caller *frameWork) (bool, error) {
	w := &d.work[i]
	switch {
	case w.kind == frameSkipped:
		return true, nil
	case w.code != nil && w.code.typ != iseqMethod:
		return w.code.typ == iseqClass || d.encloses(raw, i), nil
	case w.method == nil && w.code != nil:
		return false, nil // the frame's environment was overwritten, so the frame has returned
	case w.method == nil || caller.kind == frameSkipped || caller.code == nil || caller.code.internal || caller.uncertain || caller.pos == posFirstLine:
		return true, nil
	}
	l := link{caller.code, w.method, caller.pos}
	slot := d.links.At(l.hash())
	if *slot == l {
		return true, nil
	}
	ok, err := d.calls(&l)
	if ok && err == nil {
		if slot.code != nil {
			slot = d.links.Lose(l.hash(), linkCacheSize)
		}
		*slot = l
	}
	return ok, err
}

// encloses checks frame i, which runs a block. The block's environment names the environment around the block. encloses
// searches outward for the frame with the environment around the block. It reports whether this frame runs the code
// that contains the block. It returns false if no frame has this environment. If the environment is not on the stack,
// or too far away, it returns true.
func (d *Decoder) encloses(raw *Stack, i int) bool {
	fs := d.o.FrameSize
	frame := func(i int) []byte { return raw.Frames[i*fs:] }
	ep := attach.Address(view.U64(frame(i)[FrameEP:]))
	parent := d.work[i].code.parent
	if parent == 0 || !raw.holds(ep) {
		return true
	}
	around := raw.envOf(ep).specval &^ 3
	if around < uint64(raw.ValuesAt) || around >= uint64(raw.End) {
		return true
	}
	for j := i + 1; j < len(raw.Frames)/fs; j++ {
		if j-i > maxBlockDepth || raw.Cut > 0 && j >= raw.Cut {
			return true
		}
		if view.U64(frame(j)[FrameEP:]) == around {
			return attach.Address(view.U64(frame(j)[FrameISeq:])) == parent
		}
	}
	return false
}

// calls reports whether the instruction at the place in l may call the method in l. If the instruction names no method,
// calls returns true, because many such instructions can call methods. Examples are a splat and an access to a
// constant.
func (d *Decoder) calls(l *link) (bool, error) {
	if l.pos == 0 {
		return false, nil // no instruction has run yet
	}
	words, err := d.view.Bytes(attach.Address(l.code.encoded+8*uint64(l.pos-1)), 16)
	if err != nil {
		return true, err
	}
	named := false
	var missing error
	for ; len(words) > 0; words = words[8:] {
		at := attach.Address(view.U64(words))
		if at&7 != 0 || at < 1<<16 {
			continue
		}
		id, super, err := d.calledID(at)
		name := ""
		if err == nil && id != 0 {
			name, err = d.Objects.IDName(id)
		}
		if err == view.ErrMissing {
			missing = err
			continue
		}
		if err != nil || name == "" {
			continue // there is no data of a call, or it is the data of a yield
		}
		named = true
		if super || forwarding[name] || id == l.method.called || id == l.method.original {
			return true, nil
		}
		if ok, err := d.cached(at, l.method); ok {
			return true, nil
		} else if err == view.ErrMissing {
			missing = err
		}
	}
	if missing != nil || !named || implicit[l.method.name] {
		return missing == nil, missing
	}
	name, err := d.Objects.IDName(l.method.called)
	return implicit[name], err
}

// calledID returns the ID of the method that is named in the data of a call. It is zero for a yield. super is true for
// a call of super. The data of such a call can name the method of an earlier call.
func (d *Decoder) calledID(data attach.Address) (id uint64, super bool, err error) {
	if !d.target.Release.AtLeast(3, 0) {
		id, err = d.view.Word(data + call27)
		return id, false, err
	}
	info, err := d.view.Word(data)
	switch {
	case err != nil:
		return 0, false, err
	case info&callTag != 0:
		bit := callSuper
		if !d.target.Release.AtLeast(3, 3) {
			bit = callSuper30
		}
		return info >> callShift, info>>callFlags&bit != 0, nil
	case !d.Objects.IsObject(info):
		return 0, false, nil
	}
	id, err = d.view.Word(attach.Address(info) + infoMethod)
	return id, false, err
}

// cached reports whether the cache of a call refers to the method h, or to an alias or a refinement that leads to h. It
// also returns true if the cache is empty, because the collector can empty it (rb_iseq_mark_and_move of iseq.c).
func (d *Decoder) cached(data attach.Address, h *methodEntry) (bool, error) {
	at := data + cacheMethod27
	if d.target.Release.AtLeast(3, 0) {
		cache, err := d.view.Word(data + dataCache)
		if err != nil {
			return false, err
		}
		at = attach.Address(cache) + cacheMethod
	}
	entry, err := d.view.Word(at)
	for range maxAliases {
		if err != nil || entry == 0 {
			return err == nil, err
		}
		var definition uint64
		if definition, err = d.view.Word(attach.Address(entry) + meDef); err != nil {
			return false, err
		}
		if entry == h.addr || attach.Address(definition) == h.read[1].at {
			return true, nil
		}
		def, err := d.view.Bytes(attach.Address(definition), defSize)
		if err != nil {
			return false, err
		}
		if kind := view.U32(def[defType:]) & 15; kind != methodAlias && kind != methodRefined {
			return kind == methodOptimized || kind == methodBlock, nil
		}
		entry = view.U64(def[defBody:])
	}
	return false, nil
}
