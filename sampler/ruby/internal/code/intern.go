package code

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// outerFrames describes a frame and all frames outward of it. To intern a frame, the Decoder needs the outerFrames of
// the frame's caller.
type outerFrames struct {
	// shown is the number of these frames that a backtrace shows. stack is the ID of the stack that they form.
	shown int32
	stack sampler.StackID
	// The field at is the nearest Ruby frame, from which C functions get their path and line. hidden is true while C
	// functions and internal frames are left out. It stays true until the next ordinary Ruby frame (4.0). cut is true
	// if the nearest Ruby frame is in the middle of a deep stack that was cut out. Then C functions have no path and
	// line.
	at          sampler.FrameID
	hidden, cut bool
	// old and final have the same meaning as in Proof, but for these frames only. unnamed is true if the innermost
	// frame lacks a name.
	old, final, unnamed bool
	// handlers is the number of frames that run the code of a rescue or an ensure.
	handlers int32
}

// frameKey has everything from which a Frame is made. It is the key of the frame cache.
type frameKey struct {
	code      *iseq
	method    *methodEntry
	pos       uint32
	at        sampler.FrameID // for code that is shown like a C function: the frame from which it gets path and line
	kind      frameKind
	uncertain bool
	line      bool // only the line is uncertain
}

// hideCallersOfRescue marks the frame directly around each frame of a rescue or ensure, so that a backtrace leaves it
// out. This is the next Ruby frame outward, even if it is left out for another reason, too (a rescue within a rescue).
func (d *Decoder) hideCallersOfRescue(cut int) {
	hide := false
	for i := range d.work {
		w := &d.work[i]
		if cut > 0 && i == cut {
			hide = false // the frames between this frame and the last frame are missing
		}
		if w.code == nil || w.kind == frameSkipped {
			continue
		}
		w.left = hide
		hide = w.code.typ.handler()
	}
}

// internFrames adds the frames that classify found to the Dictionary, by the rules of the Ruby release. At the
// beginning, the parameter all describes the frames outward of them. At the end, it also describes the added frames.
func (d *Decoder) internFrames(raw *Stack, all *outerFrames) error {
	if d.rules.rescueHidesCaller {
		d.hideCallersOfRescue(raw.Cut)
	}
	d.made = slices.Grow(d.made[:0], len(d.work))[:len(d.work)]
	d.info.FailedNames, d.info.Placeless = 0, 0
	for i := len(d.work) - 1; i >= 0; i-- {
		if raw.Cut > 0 && i == raw.Cut-1 {
			all.at, all.hidden, all.cut = 0, false, true
		}
		if err := d.internFrame(raw, i, all); err != nil {
			return err
		}
		d.made[i] = *all
	}
	return nil
}

func (d *Decoder) internFrame(raw *Stack, i int, all *outerFrames) error {
	w := &d.work[i]
	all.old = all.old && !w.young && (w.code == nil || d.old(&w.code.validity)) && (w.method == nil || d.old(&w.method.validity))
	all.unnamed = false
	if w.code != nil && w.code.typ.handler() {
		all.handlers++
	}
	switch {
	case w.kind == frameSkipped || w.left, w.kind != frameRuby && all.hidden:
		all.final = all.final && (w.method == nil || w.method.final)
		return nil
	case w.kind != frameRuby && all.cut:
		all.final = all.final && (w.method == nil || w.method.final)
		d.info.Placeless++
		return nil
	case w.kind == frameRuby:
		all.hidden, all.cut = false, false
	}
	w.uncertain = w.uncertain || i == 0 && d.info.UncertainTop
	key := frameKey{code: w.code, method: w.method, pos: w.pos, kind: w.kind, uncertain: w.uncertain}
	key.line = w.uncertain && !(i == 0 && d.halfWritten(raw))
	if w.kind != frameRuby {
		key.at, key.pos = all.at, 0
		if all.at == 0 && w.kind == frameLikeC {
			key.pos = w.pos // without a Ruby caller, the frame has its own line
		}
	}
	failed := d.info.FailedNames
	id, err := d.frameID(key, w.failed)
	if err != nil {
		return err
	}
	all.unnamed = d.info.FailedNames > failed
	all.final = all.final && !all.unnamed && (w.method == nil || w.method.final)
	all.stack, all.shown = d.internStack(all.stack, id), all.shown+1
	switch {
	case w.kind == frameRuby:
		all.at = id
	case w.kind == frameLikeC && d.rules.internalAsC:
		all.hidden = true
	}
	return nil
}

// frameID returns the ID of a frame. It takes the ID from the cache, or else interns the frame in the Dictionary.
func (d *Decoder) frameID(key frameKey, failed bool) (sampler.FrameID, error) {
	hash := key.hash()
	if !failed {
		slot := d.frameCache.At(hash)
		if slot.key == key && slot.id != 0 {
			return slot.id, nil
		}
		if id, ok := d.frameIDs[key]; ok {
			if slot.id != 0 {
				slot = d.frameCache.Lose(hash, frameCacheSize)
			}
			*slot = frameSlot{key, id}
			return id, nil
		}
	}
	f, complete, err := d.makeFrame(key)
	if err != nil {
		return 0, err
	}
	if failed || !complete {
		d.info.FailedNames++
		complete = false
	}
	id := d.dict.InternFrame(f)
	if complete {
		if len(d.frameIDs) >= maxFrameIDs {
			clear(d.frameIDs)
		}
		slot := d.frameCache.At(hash)
		if slot.id != 0 && slot.key != key {
			slot = d.frameCache.Lose(hash, frameCacheSize)
		}
		*slot = frameSlot{key, id}
		d.frameIDs[key] = id
	}
	return id, nil
}

// makeFrame makes the Frame of a key. complete is false if a name cannot be read. After an error the caller may try
// again.
func (d *Decoder) makeFrame(key frameKey) (f sampler.Frame, complete bool, err error) {
	complete = true
	q, h := key.code, key.method
	f.Uncertain, f.UncertainLine = key.uncertain, key.line
	f.C = key.kind != frameRuby
	if h != nil && (h.likeC || q == nil) {
		f.Label, f.Name = h.label, h.name
	} else if q != nil {
		f.Name = q.base
		label := q.label.base
		if q.label.qualify && h != nil {
			var missing bool
			label, err = d.qualify(h, label)
			if missing, err = d.tolerate(err); err != nil {
				return f, false, err
			}
			complete = !missing
		}
		f.Label = q.label.prefix + label
	}
	if h != nil && h.missingNames || q != nil && q.missingNames {
		complete = false
	}
	if key.kind != frameRuby && (key.at != 0 || q == nil) {
		outer := d.dict.Frame(key.at)
		f.Path, f.AbsolutePath, f.Line = outer.Path, outer.AbsolutePath, outer.Line
		if outer.Uncertain && !f.Uncertain { // the line comes from outer, so it is uncertain, too
			f.Uncertain, f.UncertainLine = true, true
		}
		f.Origin = sampler.OriginCore
		return f, complete, nil
	}
	f.Path, f.AbsolutePath, f.FirstLine = q.path, q.abs, q.first
	f.Origin, f.Gem = d.loadPath.origins.of(q.path, q.abs)
	if f.C {
		f.Origin, f.Gem = sampler.OriginCore, ""
	}
	if key.pos == posFirstLine {
		f.Line = q.first
	} else {
		f.Line = q.lines.line(key.pos)
	}
	return f, complete, nil
}

func (d *Decoder) internStack(outer sampler.StackID, f sampler.FrameID) sampler.StackID {
	hash := uint64(stackHash(outer, f))
	slot := d.stackCache.At(hash)
	if slot.id == 0 || slot.caller != outer || slot.frame != f {
		if slot.id != 0 {
			slot = d.stackCache.Lose(hash, stackCacheSize)
		}
		*slot = stackSlot{outer, f, d.dict.InternStack(outer, f)}
	}
	return slot.id
}
