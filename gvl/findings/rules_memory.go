package findings

import (
	"math"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/memory"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// growsMuch is a growth in bytes that is always large, even if it is a small part of the process's memory.
const growsMuch = 512 << 20

// Growing describes memory (RSS) that has grown without a break. If the memory has not grown in this way, all fields
// are zero.
type Growing struct {
	FromBytes, ToBytes, SpanNS int64
	// OfC is set if most of the growth is memory of C code. It is false if this is not known.
	OfC bool
}

// growingBytes is the least growth that Growing returns, in bytes. growingNS is the least duration of this growth, in
// ns. It is four intervals of memory.EveryNS, because in three intervals, a single leap can look like growth.
const growingBytes, growingNS = 8 << 20, 4 * memory.EveryNS

// Growing returns how the process's memory grows, even if the growth is too small for a finding.
func (f *Findings) Growing() Growing {
	g := &f.ev.growth
	now := g.Back(0)
	if now == nil || f.ev.lastNS-now.AtNS > 3*memory.EveryNS {
		return Growing{}
	}
	from := g.Since(f.ev.bootNS)
	if from == nil || now.RSS-from.RSS < growingBytes || now.AtNS-from.AtNS < growingNS {
		return Growing{}
	}
	ofC, _, _ := now.OfC(from)
	return Growing{FromBytes: from.RSS, ToBytes: now.RSS, SpanNS: now.AtNS - from.AtNS, OfC: ofC}
}

// evalMemoryGrows matches if the process's memory grows without a pause, although full collections have run.
func evalMemoryGrows(w *window) hit {
	g := &w.ev.growth
	now := g.Back(0)
	if now == nil || w.nowNS-now.AtNS > 3*memory.EveryNS {
		return hit{}
	}
	h := w.grown(g.Since(w.ev.bootNS), now)
	if h.score < 1 {
		h = w.grown(g.SinceLevel(w.ev.bootNS), now)
	}
	return h
}

// grown returns the hit for memory that has grown between two readings, the parameters from and now. If from is nil,
// the hit is empty.
func (w *window) grown(from, now *memory.Note) hit {
	if from == nil {
		return hit{}
	}
	more, span := now.RSS-from.RSS, now.AtNS-from.AtNS
	majors := now.GC.MajorCount - from.GC.MajorCount
	slots := int64(0)
	if from.Slots != sampler.GCUnknown && now.Slots != sampler.GCUnknown {
		slots = now.Slots - from.Slots
	}
	tried := float64(majors) / w.limits.growsMajors
	ofC, ruby, _ := now.OfC(from)
	if ofC { // minor collections count as well, because they free the C memory of young objects
		tried = max(tried, float64(now.GC.Count-from.GC.Count)/w.limits.growsMajors)
	}
	if now.GC.Count == from.GC.Count && slots == 0 {
		tried = 1 // no collection ran and no slots were added: it is memory of C code
	}
	h := hit{
		score:    least(max(gvl.Ratio(more, from.RSS)/w.limits.growsBy, float64(more)/growsMuch), float64(more>>20)/w.limits.growsMiB, float64(span)/w.limits.growsTime, tried),
		severity: SeverityWarn,
	}
	if h.score < 1 {
		return h
	}
	h.explains = w.withWaiters(w.gcNS) // the collector works more because of the growth
	h.title = "Memory " + tense("grows", "grew")
	h.text = units.Bytes(from.RSS) + " " + tense("have become", "became") + " " + units.Bytes(now.RSS) + " in " + tense("the last ", "") + units.ProseDuration(span) + " (" +
		units.Bytes(int64(float64(more)*1e9/float64(span))) + " per second)"
	h.next = "see in view 7 which class grows, and what holds it (h): a cache without a limit, a list that is only added to"
	switch {
	case ofC:
		h.text += ", most of it memory of C code, not of Ruby objects (Ruby's own memory grew by " + units.Bytes(ruby) + ")"
		h.next = "see in `ddtop heap -d 1m` which code asks the kernel for memory, whether arenas of malloc or mappings grow, and how " +
			"much of them is free. If much is, lower MALLOC_ARENA_MAX"
		return h
	case 2*slots >= more:
		h.text += ", most of it slots of objects"
	default:
		h.text += ", most of it outside of the objects' slots (malloc)"
		h.next = "see in view 7 which class grows, and what holds it (h): large strings and lists. If none grows, it is memory of C code"
	}
	if from.Marked > 0 && now.Marked > from.Marked {
		h.text += "; live objects " + units.Count(from.Marked) + " to " + units.Count(now.Marked) + " in " +
			units.Plural(int(majors), "full collection", "full collections")
	}
	if stack, made := w.maker(); stack != 0 {
		h.stack = stack
		h.text += "; " + made
	}
	if classes := account.AllocOf(from.Classes, now.Classes).Classes; len(classes) > 0 {
		h.text += ", most " + tenseAre + " " + classes[0].Name + " (" + units.RoundPercent(classes[0].Share) + ")"
	}
	return h
}

// allocs adds up, over several readings of a stack, how many objects were made just before each reading. objects is the
// sum of these numbers, and squares the sum of their squares.
type allocs struct{ objects, squares int64 }

// makerSigmas decides whether maker names the place that makes most objects. This place must lead the second place by
// this many standard errors of the difference. If both places make about the same number of objects, a lead of two
// errors names the wrong one in 2 % of windows. If there is no second place, four samples are enough. A window has four
// samples even if all CPUs are busy.
const makerSigmas = 2

// maker returns the stack that makes most new objects in the window, and a text about its place. The text is a line of
// the program, and what it calls if this is always the same. The stack is 0 if too few samples show it.
func (w *window) maker() (sampler.StackID, string) {
	type maker struct {
		allocs
		stacks map[sampler.StackID]int64
	}
	places := make(map[string]maker)
	all := int64(0)
	for stack, a := range w.allocs {
		at := w.place(code.OwnStack(w.dict, stack))
		m := places[at]
		if m.stacks == nil {
			m.stacks = make(map[sampler.StackID]int64)
		}
		m.objects, m.squares, m.stacks[stack] = m.objects+a.objects, m.squares+a.squares, a.objects
		places[at] = m
		all += a.objects
	}
	var first, second maker
	place := ""
	for at, m := range places {
		switch {
		case m.objects > first.objects || m.objects == first.objects && at < place:
			place, first, second = at, m, first
		case m.objects > second.objects:
			second = m
		}
	}
	if place == "" || float64(first.objects-second.objects) < makerSigmas*math.Sqrt(float64(first.squares+second.squares)) {
		return 0, ""
	}
	stack, _ := gvl.TopKey(first.stacks)
	called := w.place(stack)
	for other := range first.stacks {
		if w.place(other) != called {
			called = place
			break
		}
	}
	return stack, "most objects " + tenseAre + " made in " + called + " (" + units.RoundPercent(gvl.Ratio(first.objects, all)) + ")"
}
