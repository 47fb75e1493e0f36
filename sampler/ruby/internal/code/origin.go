package code

import (
	"path"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// origins finds out where code comes from, by the path of its file. It knows prefixes from the target's $LOAD_PATH,
// and from the layout of gem folders in the path itself. The longest prefix decides:
//
//	…/gems/NAME-VERSION[-PLATFORM]/    a gem (RubyGems, Bundler's vendor/bundle, Debian's rubygems-integration)
//	…/bundler/gems/NAME-REVISION/      a gem that Bundler has checked out of git
//	…/vendor/cache/NAME-REVISION/      the same, packed with the program (bundle cache)
//	…/vendor/gems/NAME/                a gem that was copied into the program
//	rubylibdir and rubyarchdir         the standard library
//	site_ruby and vendor_ruby          libraries installed beside it: Debian's packages of gems, without a version
//	any other entry                    the program's own
type origins struct {
	prefixes []originPrefix // longest first
	stdlib   bool           // prefixes include the standard library
}

type originPrefix struct {
	dir    string // without a slash at its end
	origin sampler.Origin
	gem    string
	site   bool // the library's name is the first name in the path after dir
}

// newOrigins makes the prefixes from a $LOAD_PATH. api is the beginning of the release's RbConfig "ruby_version", at
// least up to its second dot ("3.4.").
func newOrigins(loadPath []string, api string) origins {
	var o origins
	seen := make(map[string]bool)
	lastSite := -1
	for i, entry := range loadPath {
		if !path.IsAbs(entry) {
			continue // the meaning of a relative path depends on the program's working folder
		}
		dir := path.Clean(entry)
		p := originPrefix{dir: dir, origin: sampler.OriginApp}
		switch gemDir, gem := gemOf(dir + "/"); {
		case gem != "":
			p.dir, p.origin, p.gem = gemDir, sampler.OriginGem, gem
		case isSite(dir):
			p.site, p.origin = true, sampler.OriginGem
			lastSite = i
		case strings.HasPrefix(path.Base(dir), api) && isVersion(path.Base(dir)):
			p.origin, o.stdlib = sampler.OriginStdlib, true
		}
		if !seen[p.dir] && p.dir != "/" {
			seen[p.dir] = true
			o.prefixes = append(o.prefixes, p)
		}
	}
	if !o.stdlib && lastSite >= 0 {
		// Fedora's folders of the standard library have no version in their names. But they always come directly after
		// the folders for sites and vendors: two entries (ruby_init_loadpath in ruby.c).
		for _, entry := range loadPath[lastSite+1 : min(lastSite+3, len(loadPath))] {
			for i := range o.prefixes {
				if p := &o.prefixes[i]; p.dir == path.Clean(entry) && p.origin == sampler.OriginApp {
					p.origin, o.stdlib = sampler.OriginStdlib, true
				}
			}
		}
	}
	sorting.StableBy(o.prefixes, func(a, b originPrefix) int { return len(b.dir) - len(a.dir) })
	return o
}

// of returns the origin of Ruby code, and the name of its gem. name is the code's path, and abs its absolute path.
func (o *origins) of(name, abs string) (sampler.Origin, string) {
	switch {
	case strings.HasPrefix(name, internalPrefix):
		return sampler.OriginCore, ""
	case strings.HasPrefix(name, "(eval"):
		return o.ofEval(name, abs)
	case abs != "":
		// If an entry of $LOAD_PATH goes through a symbolic link, only the path begins with this entry. The absolute
		// path does not.
		origin, gem := o.byFile(abs)
		if origin == sampler.OriginApp && path.IsAbs(name) && name != abs {
			return o.byFile(name)
		}
		return origin, gem
	case path.IsAbs(name):
		return o.byFile(name) // the code was evaluated, with a file name that the program gave it
	case name == "-e" || name == "-":
		return sampler.OriginApp, "" // code on the command line or on standard input
	}
	return sampler.OriginEval, ""
}

// ofEval returns the origin of evaluated code (eval) that names no file. It is the origin of the file that called eval,
// if Ruby names this file. From 3.3 on, the file is in the code's path. In 2.7, the file is the absolute path.
func (o *origins) ofEval(name, abs string) (sampler.Origin, string) {
	file, ok := sampler.EvalFile(name)
	switch {
	case ok && file != "" && file[0] != '(':
		origin, gem := o.of(file, "")
		if origin == sampler.OriginEval && path.Ext(file) != "" {
			origin = sampler.OriginApp // a main script that was started with a relative path
		}
		return origin, gem
	case abs != "":
		return o.byFile(abs)
	}
	return sampler.OriginEval, ""
}

func (o *origins) byFile(file string) (sampler.Origin, string) {
	gemDir, gem := gemOf(file)
	for _, p := range o.prefixes {
		if len(p.dir) < len(gemDir) {
			break
		}
		if rest, ok := strings.CutPrefix(file, p.dir); ok && strings.HasPrefix(rest, "/") {
			if p.site {
				return siteOrigin(rest)
			}
			return p.origin, p.gem
		}
	}
	if gem != "" {
		return sampler.OriginGem, gem
	}
	if !o.stdlib {
		return o.byLayout(file)
	}
	return sampler.OriginApp, ""
}

// byLayout guesses the origin by the usual layout of an installation, if the load path could not be read.
func (o *origins) byLayout(file string) (sampler.Origin, string) {
	if isSite(file) {
		for _, mark := range siteMarks {
			if _, rest, ok := strings.Cut(file, mark); ok {
				return siteOrigin(rest)
			}
		}
	}
	if _, rest, ok := strings.Cut(file, "/ruby/"); ok {
		if version, _, ok := strings.Cut(rest, "/"); ok && isVersion(version) {
			return sampler.OriginStdlib, ""
		}
	}
	return sampler.OriginApp, ""
}

var siteMarks = [...]string{"/site_ruby/", "/vendor_ruby/"}

func isSite(dir string) bool {
	return slices.ContainsFunc(siteMarks[:], func(mark string) bool { return strings.Contains(dir+"/", mark) })
}

// siteOrigin returns the origin of code below site_ruby or vendor_ruby. The code there belongs to gems, except RubyGems
// and Bundler. These two count as part of Ruby, although distributions and "gem update --system" install them there.
func siteOrigin(rest string) (sampler.Origin, string) {
	name := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		if name = strings.TrimSuffix(part, ".rb"); !isVersion(name) {
			break
		}
	}
	switch name {
	case "rubygems", "bundler":
		return sampler.OriginStdlib, ""
	}
	return sampler.OriginGem, name
}

// gemOf returns the innermost gem folder of a file, and the gem's name. It looks only at the path. Both results are ""
// if the file is in no gem folder.
func gemOf(file string) (dir, gem string) {
	const mark, packed = "/gems/", "/vendor/cache/"
	if i := strings.LastIndex(file, packed); i >= 0 {
		full, _, inside := strings.Cut(file[i+len(packed):], "/")
		if name, revision := splitRevision(full); inside && revision != "" {
			return file[:i+len(packed)+len(full)], name + " " + revision
		}
	}
	for end := len(file); ; {
		i := strings.LastIndex(file[:end], mark)
		if i < 0 {
			return "", ""
		}
		full, _, inside := strings.Cut(file[i+len(mark):], "/")
		if inside {
			name, version := splitGem(full)
			if version == "" && strings.HasSuffix(file[:i], "/bundler") {
				name, version = splitRevision(full)
			}
			if version == "" && strings.HasSuffix(file[:i], "/vendor") {
				return file[:i+len(mark)+len(full)], full
			}
			if version != "" {
				return file[:i+len(mark)+len(full)], name + " " + version
			}
		}
		end = i + len(mark) - 1 // marks share their slashes: …/gems/gems/…
	}
}

// splitGem splits a gem's full name, NAME-VERSION or NAME-VERSION-PLATFORM (Gem::Specification#full_name). Names and
// platforms can both have hyphens and digits. The version is the first part that consists of digits and dots and comes
// at the end of the name or before a platform.
func splitGem(full string) (name, version string) {
	for i := 1; i < len(full)-1; i++ {
		if full[i] != '-' {
			continue
		}
		version, platform, more := strings.Cut(full[i+1:], "-")
		if isVersion(version) && (!more || isPlatform(platform)) {
			return full[:i], version
		}
	}
	return "", ""
}

// splitRevision splits the name of a folder of Bundler's git gems, NAME-REVISION.
func splitRevision(full string) (name, revision string) {
	const least = 7 // the least number of hexadecimal digits. Bundler uses 12.
	i := strings.LastIndexByte(full, '-')
	if i <= 0 || len(full)-i-1 < least || strings.Trim(full[i+1:], "0123456789abcdef") != "" {
		return "", ""
	}
	return full[:i], full[i+1:]
}

// isVersion reports whether a text is a version as RubyGems writes it (Gem::Version::VERSION_PATTERN). It begins with
// a number, and parts of digits and letters follow, each after a dot: 2.2.7, 1.0.0.rc1, 3.5.0+1 (a folder of an
// unreleased Ruby). A revision such as 1a2b3c4d5e6f is not a version.
func isVersion(s string) bool {
	first := s
	if i := strings.IndexAny(s, ".+"); i >= 0 {
		first = s[:i]
	}
	if first == "" || strings.Trim(first, "0123456789") != "" {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '+' {
			return false
		}
	}
	return true
}

// platforms are the beginnings of the names of Gem::Platform. Each is a CPU, or a system whose name comes without a
// CPU.
var platforms = [...]string{"x86", "x64", "i386", "i486", "i586", "i686", "arm", "aarch64", "universal", "java", "jruby", "ruby",
	"ppc", "powerpc", "s390", "riscv", "loongarch", "mips", "sparc", "mswin", "mingw", "wasm", "dalvik", "dotnet"}

func isPlatform(s string) bool {
	return slices.ContainsFunc(platforms[:], func(p string) bool { return strings.HasPrefix(s, p) })
}
