package flamegraph

import "github.com/ddtop/ddtop/sampler"

// provenance says where a node's code comes from.
type provenance uint8

const (
	// fromApp is the program itself: what is nothing of the others.
	fromApp provenance = iota
	// fromGem is code of a gem.
	fromGem
	// fromStdlib is Ruby's standard library.
	fromStdlib
	// fromCore is a C function or one that Ruby itself brings in Ruby (<internal:…>).
	fromCore
	// fromEval is code made at run time that names no file.
	fromEval
	// fromNone are nodes that are not frames.
	fromNone
	// numProvenances is the number of kinds.
	numProvenances
)

// String returns the word of the legend.
func (p provenance) String() string {
	switch p {
	case fromApp:
		return "app"
	case fromGem:
		return "gem"
	case fromStdlib:
		return "stdlib"
	case fromCore:
		return "core, C"
	case fromEval:
		return "eval"
	}
	return "other"
}

// provenanceOf returns the provenance of a frame.
func provenanceOf(f *sampler.Frame) provenance {
	switch f.From() {
	case sampler.OriginGem:
		return fromGem
	case sampler.OriginStdlib:
		return fromStdlib
	case sampler.OriginCore:
		return fromCore
	case sampler.OriginEval:
		return fromEval
	}
	return fromApp
}

// provenance returns where a node's code comes from.
func (n *Node) provenance() provenance {
	if !n.IsFrame() {
		return fromNone
	}
	return n.from
}
