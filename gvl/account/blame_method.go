package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// culpritShare is a share of the waiting time that was charged to a thread. A method is named as the cause only if
	// at least this share was charged to stacks that contain the method.
	culpritShare = .7
	// innerShare decides whether a C function is named together with the method. The C function must be the innermost
	// frame for at least this share of the waiting time charged to the stacks that contain the method.
	innerShare = .5
	// maxCulpritStacks limits how many stacks are examined. They are the stacks with the largest charges.
	maxCulpritStacks = 256
)

// Method names the code with which a thread makes others wait: "Reports#build → JSON.generate". The first part is the
// innermost method that is on the stack for most of the charged time. If possible, it is a method of the program
// itself. The last part is the C function that takes most of this time. Method looks at the last windowNS, or the whole
// run if windowNS is 0. It returns "" if no stack is known.
func (b *Blame) Method(thread sampler.ThreadID, windowNS int64) string {
	if b.dict == nil {
		return ""
	}
	type sum struct {
		ns, depth int64 // depth is the sum of the method's depths, each multiplied by its time
		in        int   // the number of the last stack in which this method was counted
		own       bool  // the program's own method
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
		best = "" // the innermost method is the program's own, so there is no library's method inside it to name
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
