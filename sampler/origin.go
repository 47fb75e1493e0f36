package sampler

import (
	"cmp"
	"path"
	"strings"
)

// Origin says where a frame's code comes from. Recordings keep its numbers: they never change.
type Origin uint8

const (
	// OriginUnknown: not known. Frames of a recording made before origins were kept have it.
	OriginUnknown Origin = iota
	// OriginApp is the program itself: what is nothing of the others.
	OriginApp
	// OriginGem is code of a gem; Frame.Gem says of which.
	OriginGem
	// OriginStdlib is Ruby's standard library, RubyGems and Bundler included.
	OriginStdlib
	// OriginCore is a C function, of Ruby or of an extension, or Ruby's own code in Ruby (<internal:…>).
	OriginCore
	// OriginEval is code that was made at run time, of which Ruby does not say which file evaluates it.
	OriginEval
	// NumOrigins is the number of origins.
	NumOrigins
)

// String returns the word of dumps and legends: app, gem, stdlib, core, eval; unknown.
func (o Origin) String() string {
	return wordOf(o, "unknown", "unknown", "app", "gem", "stdlib", "core", "eval")
}

// From returns where a frame's code comes from. If its Origin is not known (code that was evaluated, or a recording of
// an earlier version), From decides by the path. It knows the layouts of RubyGems (…/gems/NAME-VERSION/), Bundler
// (…/bundler/gems/) and Ruby's own installers (…/lib/ruby/VERSION/). A C function has the path of its caller, which
// says nothing about the function. From never returns OriginUnknown.
func (f *Frame) From() Origin {
	switch file, evaluated := EvalFile(f.Path); {
	case evaluated && (f.Origin == OriginEval || f.Origin == OriginUnknown):
		return originOfPath(file)
	case f.Origin != OriginUnknown:
		return f.Origin
	case f.C:
		return OriginCore
	}
	return originOfPath(f.File())
}

func originOfPath(file string) Origin {
	switch {
	case strings.HasPrefix(file, "<internal:"):
		return OriginCore
	case strings.Contains(file, "/gems/"), strings.Contains(file, "/rubygems-integration/"):
		return OriginGem
	case strings.Contains(file, "/lib/ruby/"), strings.Contains(file, "/usr/share/ruby-"):
		return OriginStdlib
	}
	return OriginApp
}

// EvalFile returns the file that evaluates code which names none itself: Ruby 3.3 and later call that "(eval at
// FILE:LINE)", also where FILE is such a name again. ok is false for any other path.
func EvalFile(path string) (file string, ok bool) {
	const before = "(eval at "
	for strings.HasPrefix(path, before) {
		rest := strings.TrimSuffix(path[len(before):], ")")
		i := strings.LastIndexByte(rest, ':')
		if i < 0 {
			return "", false
		}
		path, ok = rest[:i], true
	}
	return path, ok
}

// Own reports whether a frame is the program's own code, which its developer can change. Code that was read from a
// file and evaluated under a relative name is own code: templates and a server's config.ru are. Libraries use absolute
// paths, or names with brackets.
func (f *Frame) Own() bool {
	switch f.From() {
	case OriginApp:
		return true
	case OriginEval:
		return path.Ext(f.Path) != "" && f.Path[0] != '('
	}
	return false
}

// File is the absolute path of the code, or the path as Ruby says it if there is none.
func (f *Frame) File() string { return cmp.Or(f.AbsolutePath, f.Path) }

// Library names what a frame is of that is not the program's own: a gem without its version, the library within the
// standard one ("net", "json"), "ruby" for the core.
func (f *Frame) Library() string {
	switch f.From() {
	case OriginGem:
		if name, _, _ := strings.Cut(f.Gem, " "); name != "" {
			return name
		}
		return "gem"
	case OriginStdlib:
		file := f.File()
		if _, rest, ok := strings.Cut(file, "/ruby/"); ok {
			file = rest
		}
		for part := range strings.SplitSeq(file, "/") {
			if name := strings.TrimSuffix(part, ".rb"); name != "" && (name[0] < '0' || name[0] > '9') {
				return name
			}
		}
		return "stdlib"
	}
	return "ruby"
}
