package export

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// gapFactor, minGapNS and slowGapNS are the rule by which gvl calls time not sampled, and its state unknown: past so
	// many expected intervals, and at least so long. A test holds the two together.
	gapFactor = 10
	minGapNS  = 250e6
	slowGapNS = 5e9
)

// Meaning says to a flamegraph.Collector what gvl's states are to its accounts, when its tags are gvl.States (see
// StateTags), and from how long on an interval between two samples of p is a gap.
func Meaning(p sampler.Process) flamegraph.Meaning {
	gap := int64(minGapNS)
	if rate := max(p.LockRate, p.StackRate); rate > 0 {
		gap = max(gap, int64(gapFactor*1e9/rate))
	}
	return flamegraph.Meaning{
		Waiting: flamegraph.Tags(uint8(gvl.Waiting)),
		Held:    flamegraph.Tags(uint8(gvl.Running), uint8(gvl.Stalled), uint8(gvl.GC)),
		OnCPU:   flamegraph.Tags(uint8(gvl.Running), uint8(gvl.GC), uint8(gvl.Native)),
		GapNS:   gap, SlowGapNS: slowGapNS,
	}
}

// StateTags appends the states as tags to buf, which may be nil.
func StateTags(states []gvl.ThreadState, buf []uint8) []uint8 {
	for i := range states {
		buf = append(buf, uint8(states[i].State))
	}
	return buf
}

// StateName names a tag that is a gvl.State, for flamegraph.SVGOptions.
func StateName(tag uint8) string { return gvl.State(tag).String() }
