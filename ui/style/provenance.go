package style

import (
	"github.com/ddtop/ddtop/sampler"
)

// Provenance says where a frame's code comes from.
type Provenance uint8

const (
	FromApp Provenance = iota
	FromGem
	fromStdlib
	FromCore
	// FromThread marks the rows that stand for threads and for everything.
	FromThread
	NumProvenances
)

func (p Provenance) String() string {
	switch p {
	case FromApp:
		return "app"
	case FromGem:
		return "gem"
	case fromStdlib:
		return "stdlib"
	case FromCore:
		return "core"
	}
	return ""
}

// ProvenanceOf says where a frame's code comes from. Code that was evaluated counts as the program's where nothing else
// is known.
func ProvenanceOf(f sampler.Frame) Provenance {
	switch f.From() {
	case sampler.OriginGem:
		return FromGem
	case sampler.OriginStdlib:
		return fromStdlib
	case sampler.OriginCore:
		return FromCore
	}
	return FromApp
}
