package ui

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

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

// provenanceOf says where a frame's code comes from: what the reader found out by the target's load path or, for frames
// that nobody has told (a C function, an old recording), by the path with the layouts that RubyGems, Bundler and Ruby's own installers
// use: gems live in …/gems/NAME-VERSION/, git gems in …/bundler/gems/, the standard library in …/lib/ruby/VERSION/.
// A C function has the path of its caller, so it counts as Ruby's core: the path tells nothing of its own.
func provenanceOf(f sampler.Frame) provenance {
	switch f.Origin {
	case sampler.OriginApp:
		return fromApp
	case sampler.OriginGem:
		return fromGem
	case sampler.OriginStdlib:
		return fromStdlib
	case sampler.OriginCore:
		return fromCore
	}
	if f.C {
		return fromCore
	}
	path := f.AbsolutePath
	if path == "" {
		path = f.Path
	}
	switch {
	case strings.HasPrefix(path, "<internal:"):
		return fromCore
	case strings.Contains(path, "/gems/") || strings.Contains(path, "/bundler/gems/"):
		return fromGem
	case strings.Contains(path, "/lib/ruby/"), strings.Contains(path, "/usr/share/rubygems-integration/"),
		strings.Contains(path, "/usr/share/ruby-"):
		return fromStdlib
	}
	return fromApp
}
