package export

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Meaning says to a flamegraph.Collector what gvl's states are to its accounts, when its tags are gvl.States (see
// Seen), and when gvl calls the time between samples of p unknown.
func Meaning(p sampler.Process) flamegraph.Meaning {
	reach := gvl.ReachOf(p)
	return flamegraph.Meaning{
		Waiting: flamegraph.Tags(uint8(gvl.Waiting)),
		Held:    flamegraph.Tags(uint8(gvl.Running), uint8(gvl.Stalled), uint8(gvl.GC)),
		OnCPU:   flamegraph.Tags(uint8(gvl.Running), uint8(gvl.GC), uint8(gvl.Native)),
		GapNS:   reach.GapNS, SlowGapNS: reach.SlowGapNS, BackNS: reach.BackNS, GapTag: uint8(gvl.Unknown),
	}
}

// Seen appends the states in the form that a flamegraph.Collector takes to buf, which may be nil.
func Seen(states []gvl.ThreadState, buf []flamegraph.Seen) []flamegraph.Seen {
	for i := range states {
		ts := &states[i]
		buf = append(buf, flamegraph.Seen{Tag: uint8(ts.State), SinceNS: ts.SinceNS, Open: ts.Open()})
	}
	return buf
}

// StateName names a tag that is a gvl.State, for flamegraph.SVGOptions.
func StateName(tag uint8) string { return gvl.State(tag).String() }
