package flamegraph

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

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

// provenance returns a node's origin: what its frame says, and where that says nothing (a recording of an earlier version)
// what its path looks like, with the layouts of RubyGems (…/gems/NAME-VERSION/), Bundler
// (…/bundler/gems/) and Ruby's own installers (…/lib/ruby/VERSION/).
func (n *Node) provenance() provenance {
	switch f := n.File; {
	case n.Kind != FrameNode:
		return fromNone
	case n.Origin == sampler.OriginApp:
		return fromApp
	case n.Origin == sampler.OriginGem:
		return fromGem
	case n.Origin == sampler.OriginStdlib:
		return fromStdlib
	case n.Origin == sampler.OriginCore:
		return fromCore
	case n.Origin == sampler.OriginEval:
		return fromEval
	case n.C, strings.HasPrefix(f, "<internal:"):
		return fromCore
	case strings.Contains(f, "/gems/"), strings.Contains(f, "/rubygems-integration/"):
		return fromGem
	case strings.Contains(f, "/lib/ruby/"):
		return fromStdlib
	}
	return fromApp
}
