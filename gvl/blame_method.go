package gvl

import (
	"github.com/ddtop/ddtop/sampler"
)

const (
	// culpritShare of a thread's charges must be under a method for it to be named.
	culpritShare = .7
	// innerShare of them must be in one C function for it to be named too.
	innerShare = .5
	// maxCulpritStacks bounds the stacks looked at, those charged most first.
	maxCulpritStacks = 256
)

// Method names the code for which a thread is charged within the last windowNS (0: the whole run): the innermost method
// that most of the charge is under, and the C function most of it is in, "Reports#build → JSON.generate"; "" when no
// stack is known. It says more than the one stack charged most where a method does many things in turn.
func (b *Blame) Method(thread sampler.ThreadID, windowNS int64) string {
	if b.dict == nil {
		return ""
	}
	type sum struct {
		ns, depth int64 // depth is weighted with ns
		in        int   // the stack it was last counted for
	}
	methods := make(map[string]*sum)
	inner := make(map[string]int64)
	var total int64
	var frames []sampler.FrameID
	stacks := 0
	for _, e := range b.Top(MaxBlameEntries, BlameByStack, windowNS).Entries {
		if e.Thread != thread || e.Stack == 0 {
			continue
		}
		if stacks++; stacks > maxCulpritStacks {
			break
		}
		total += e.NS
		frames = b.dict.Frames(e.Stack, frames[:0])
		for i, id := range frames {
			f := b.dict.Frame(id)
			label := method(f.Label)
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
			if m.in != stacks {
				m.in = stacks
				m.ns += e.NS
				m.depth += e.NS * int64(len(frames)-i)
			}
		}
	}
	best, depth := "", -1.0
	for label, m := range methods {
		d := float64(m.depth) / float64(max(m.ns, 1))
		if float64(m.ns) >= culpritShare*float64(total) && (d > depth || d == depth && label < best) {
			best, depth = label, d
		}
	}
	c, ns := topKey(inner)
	switch {
	case float64(ns) < innerShare*float64(total) || c == "":
		return best
	case best == "":
		return c
	}
	return best + " → " + c
}
