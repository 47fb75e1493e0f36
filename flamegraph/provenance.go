package flamegraph

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// Provenance says where a node's code comes from.
type Provenance uint8

const (
	// FromApp is the program itself: what is nothing of the others.
	FromApp Provenance = iota
	// FromGem is code of a gem.
	FromGem
	// FromStdlib is Ruby's standard library.
	FromStdlib
	// FromCore is a C function or one that Ruby itself brings in Ruby (<internal:…>).
	FromCore
	// FromEval is code made at run time that names no file.
	FromEval
	// FromNone are nodes that are not frames.
	FromNone
	// NumProvenances is the number of kinds.
	NumProvenances
)

// String returns the word of the legend.
func (p Provenance) String() string {
	switch p {
	case FromApp:
		return "app"
	case FromGem:
		return "gem"
	case FromStdlib:
		return "stdlib"
	case FromCore:
		return "core, C"
	case FromEval:
		return "eval"
	}
	return "other"
}

// provenance returns a node's origin: what its frame says, and where that says nothing (a recording of an earlier version)
// what its path looks like, with the layouts of RubyGems (…/gems/NAME-VERSION/), Bundler
// (…/bundler/gems/) and Ruby's own installers (…/lib/ruby/VERSION/).
func (n *Node) provenance() Provenance {
	switch f := n.File; {
	case n.Kind != FrameNode:
		return FromNone
	case n.Origin == sampler.OriginApp:
		return FromApp
	case n.Origin == sampler.OriginGem:
		return FromGem
	case n.Origin == sampler.OriginStdlib:
		return FromStdlib
	case n.Origin == sampler.OriginCore:
		return FromCore
	case n.Origin == sampler.OriginEval:
		return FromEval
	case n.C, strings.HasPrefix(f, "<internal:"):
		return FromCore
	case strings.Contains(f, "/gems/"), strings.Contains(f, "/rubygems-integration/"):
		return FromGem
	case strings.Contains(f, "/lib/ruby/"):
		return FromStdlib
	}
	return FromApp
}
