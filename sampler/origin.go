package sampler

import (
	"cmp"
	"path"
	"strings"
)

// Origin says where a frame's code comes from. Recordings store an Origin as its number, so a number must never change
// its meaning.
type Origin uint8

const (
	// OriginUnknown means that the origin is not known. All frames in old recordings have it, because these recordings
	// store no origins.
	OriginUnknown Origin = iota
	// OriginApp means that the code belongs to the program itself. All code that has none of the other origins gets it.
	OriginApp
	// OriginGem is code of the gem that Frame.Gem names.
	OriginGem
	// OriginStdlib is Ruby's standard library, RubyGems and Bundler included.
	OriginStdlib
	// OriginCore is code of Ruby itself: a C function, or the part of Ruby's core that is written in Ruby
	// (<internal:…>). C functions of extensions have this origin, too.
	OriginCore
	// OriginEval is code made at run time by eval, if Ruby does not report which file called eval.
	OriginEval
	// NumOrigins is the number of origins.
	NumOrigins
)

// String returns the word for the origin in dumps and legends: app, gem, stdlib, core, eval, or unknown.
func (o Origin) String() string {
	return wordOf(o, "unknown", "unknown", "app", "gem", "stdlib", "core", "eval")
}

// From returns where a frame's code comes from. If Origin is not known, From derives it from the frame's path. Origin
// is not known for evaluated code, and in recordings of an earlier version. From knows the directories of RubyGems
// (…/gems/NAME-VERSION/), Bundler (…/bundler/gems/) and Ruby's own installers (…/lib/ruby/VERSION/). For a C function,
// Ruby reports the path of the caller, so this path does not show where the function comes from. From never returns
// OriginUnknown.
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

// EvalFile returns the file that called eval, if the parameter path is the path of code that was evaluated without a
// file name. Ruby 3.3 and later give such code the path "(eval at FILE:LINE)". If the code that called eval was itself
// evaluated, FILE is such a path again. ok is false for any other path.
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

// Own reports whether a frame is the program's own code, which its developer can change. This includes code that the
// program reads from a file and evaluates under a relative file name, such as templates and config.ru. Code that
// libraries evaluate is not included, because they use absolute paths, or names with brackets.
func (f *Frame) Own() bool {
	switch f.From() {
	case OriginApp:
		return true
	case OriginEval:
		return path.Ext(f.Path) != "" && f.Path[0] != '('
	}
	return false
}

// File returns the absolute path of the frame's code. If there is none, it returns the path that Ruby reports.
func (f *Frame) File() string { return cmp.Or(f.AbsolutePath, f.Path) }

// Library returns the library that a frame belongs to, for code that is not the program's own. It is a gem without its
// version, a part of the standard library ("net", "json"), or "ruby" for Ruby's core.
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
