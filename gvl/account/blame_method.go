package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// culpritShare is the part of a thread's charges under a method from which on the method is named.
	culpritShare = .7
	// innerShare is the same for one C function.
	innerShare = .5
	// maxCulpritStacks bounds the stacks that count, the most charged ones.
	maxCulpritStacks = 256
)

// Method names the code for which a thread is charged within the last windowNS, or in the whole run if windowNS is 0:
// "Reports#build → JSON.generate". It has the innermost method that is on the stack for most of the charge. It also
// has the C function in which most of it is spent. This says more than one stack if a method does many things in turn.
// The program's own methods are preferred to a library's. It is empty if no stack is known.
func (b *Blame) Method(thread sampler.ThreadID, windowNS int64) string {
	if b.dict == nil {
		return ""
	}
	type sum struct {
		ns, depth int64 // depth is weighted with ns
		in        int   // the stack it was last counted for
		own       bool  // of the program itself
	}
	methods := make(map[string]*sum)
	inner := make(map[string]int64)
	var total int64
	var frames []sampler.FrameID
	stacks := 0
	for _, e := range b.stacksOf(thread, windowNS) {
		stacks++
		total += e.NS
		frames = b.dict.Frames(e.Stack, frames[:0])
		for i, id := range frames {
			f := b.dict.Frame(id)
			label := code.Method(f.Label)
			if f.C {
				if i == 0 {
					inner[label] += e.NS
				}
				continue
			}
			m := methods[label]
			if m == nil {
				m = new(sum)
				methods[label] = m
			}
			m.own = m.own || code.IsOwn(&f, label)
			if m.in != stacks {
				m.in = stacks
				m.ns += e.NS
				m.depth += e.NS * int64(len(frames)-i)
			}
		}
	}
	best, depth := "", -1.0
	own, ownDepth := "", -1.0
	for label, m := range methods {
		if float64(m.ns) < culpritShare*float64(total) {
			continue
		}
		d := float64(m.depth) / float64(max(m.ns, 1))
		if d > depth || d == depth && label < best {
			best, depth = label, d
		}
		if m.own && (d > ownDepth || d == ownDepth && label < own) {
			own, ownDepth = label, d
		}
	}
	c, ns := gvl.TopKey(inner)
	if float64(ns) < innerShare*float64(total) {
		c = ""
	}
	if own == best {
		best = "" // no library's method in between is worth naming
	}
	return code.Join(own, best, c)
}

// stacksOf returns a thread's charges by stack and kind, the largest first.
func (b *Blame) stacksOf(thread sampler.ThreadID, windowNS int64) []BlameEntry {
	var out []BlameEntry
	for k, s := range b.sumsOf(windowNS).sums {
		if k.thread == thread && k.stack != 0 {
			out = append(out, BlameEntry{Thread: thread, Stack: k.stack, Kind: k.kind, NS: s.ns})
		}
	}
	sorting.By(out, compareCharges)
	return out[:min(len(out), maxCulpritStacks)]
}
