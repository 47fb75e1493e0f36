package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// Bare returns a Process without names of persons, machines or directories: without command line, user, host, and the
// path in LayoutNote except for its last name.
func Bare(p sampler.Process) sampler.Process {
	p.CommandLine, p.User, p.Host = nil, "", ""
	// It holds one path at most, which may have any characters. A relative one begins where "in " ends.
	if before, path, ok := strings.Cut(p.LayoutNote, " information in "); ok {
		p.LayoutNote = before + " information in " + path[strings.LastIndexByte(path, '/')+1:]
	} else if first, last := strings.IndexByte(p.LayoutNote, '/'), strings.LastIndexByte(p.LayoutNote, '/'); first >= 0 {
		p.LayoutNote = p.LayoutNote[:first] + p.LayoutNote[last+1:]
	}
	return p
}

// rootedPath matches an absolute path in a sentence, up to its last slash. A path with blanks is matched completely.
var rootedPath = regexp.MustCompile(`(^|[\s"'(=:])/(?:[^/:;,"'()\n][^:;,"'()\n]*/)?([^\s/])`)

// BareText removes the directories from the file names in a sentence. It finds absolute paths, and the given paths
// whatever characters they have. A given path that ends with a slash disappears. If one clause has two paths, the text
// between them is lost.
func BareText(text string, paths ...string) string {
	paths = slices.Clone(paths)
	// longer paths first, because a path can contain another one
	slices.SortFunc(paths, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	for _, p := range paths {
		if strings.Contains(strings.Trim(p, "/"), "/") || len(p) > 1 && p[0] == '/' || strings.Contains(p, " ") {
			// A path below a given folder is not given itself. It becomes an absolute path, which rootedPath finds.
			text = strings.ReplaceAll(text, strings.TrimRight(p, "/")+"/", "/")
			text = strings.ReplaceAll(text, p, withoutDirectories(p))
		}
	}
	return rootedPath.ReplaceAllString(text, "$1$2")
}

// withoutDirectories returns the file's name in a path as Ruby writes it: also in "<internal:/usr/lib/…/x.rb>" and
// "(eval at /srv/app/x.rb:3)", however deeply they are nested.
func withoutDirectories(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return path
	}
	for _, prefix := range []string{"<internal:", "(eval at "} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return prefix + withoutDirectories(rest)
		}
	}
	return path[i+1:]
}

// HideDirectories makes a view of a Dictionary (see its View) return file names without their directories. Directories
// can name a person, a customer or a machine. It also leaves out the values of requests, statements and exceptions.
// With false the view returns everything again. Files with one name in several directories look the same meanwhile.
func HideDirectories(d *sampler.Dictionary, hide bool) {
	if hide {
		d.Hide(&bare)
	} else {
		d.Hide(nil)
	}
}

type directories struct{}

var bare sampler.Filter = directories{}

func (directories) Frame(f sampler.Frame) sampler.Frame {
	f.Path, f.AbsolutePath = withoutDirectories(f.Path), withoutDirectories(f.AbsolutePath)
	return f
}

func (directories) Peer(p sampler.Peer) sampler.Peer {
	p.Path, p.Remote, p.Local = withoutDirectories(p.Path), withoutDirectories(p.Remote), withoutDirectories(p.Local)
	return p
}

func (directories) Thread(t sampler.ThreadInfo) sampler.ThreadInfo { return t }

func (directories) Work(w sampler.Work) sampler.Work {
	w.Values = ""
	return w
}

func (directories) Statement(s string) string { return withoutLiterals(s) }

func (directories) Exception(s string) string { return withoutMessage(s) }
