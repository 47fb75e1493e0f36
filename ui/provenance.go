package ui

import "github.com/ddtop/ddtop/sampler"

// provenance says where a frame's code comes from.
type provenance uint8

const (
	fromApp provenance = iota
	fromGem
	fromStdlib
	fromCore
	// fromThread marks the rows that stand for threads and for everything.
	fromThread
	numProvenances
)

func (p provenance) String() string {
	switch p {
	case fromApp:
		return "app"
	case fromGem:
		return "gem"
	case fromStdlib:
		return "stdlib"
	case fromCore:
		return "core"
	}
	return ""
}

// provenanceOf says where a frame's code comes from. Code that was evaluated counts as the program's where nothing else is known.
func provenanceOf(f sampler.Frame) provenance {
	switch f.From() {
	case sampler.OriginGem:
		return fromGem
	case sampler.OriginStdlib:
		return fromStdlib
	case sampler.OriginCore:
		return fromCore
	}
	return fromApp
}
