package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// Bare returns p without the names of persons, machines and directories. It removes the command line, the user, the
// host, and all of the path in LayoutNote except the file's name.
func Bare(p sampler.Process) sampler.Process {
	p.CommandLine, p.User, p.Host = nil, "", ""
	// LayoutNote has one path at most. The path can contain any characters, so it is found by the words before it. A
	// relative path comes after "in ".
	if before, path, ok := strings.Cut(p.LayoutNote, " information in "); ok {
		p.LayoutNote = before + " information in " + path[strings.LastIndexByte(path, '/')+1:]
	} else if first, last := strings.IndexByte(p.LayoutNote, '/'), strings.LastIndexByte(p.LayoutNote, '/'); first >= 0 {
		p.LayoutNote = p.LayoutNote[:first] + p.LayoutNote[last+1:]
	}
	return p
}

// rootedPath matches an absolute path in a sentence, up to its last slash. It also matches paths with blanks.
var rootedPath = regexp.MustCompile(`(^|[\s"'(=:])/(?:[^/:;,"'()\n][^:;,"'()\n]*/)?([^\s/])`)

// BareText removes the directories from the file names in a sentence. It recognizes absolute paths. It also removes the
// directories of the parameter paths, which can contain any characters. If such a path ends with a slash, all of it is
// removed. If one clause has two paths, the text between them is lost.
func BareText(text string, paths ...string) string {
	paths = slices.Clone(paths)
	// Longer paths come first, because a path can contain another one.
	slices.SortFunc(paths, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	for _, p := range paths {
		if strings.Contains(strings.Trim(p, "/"), "/") || len(p) > 1 && p[0] == '/' || strings.Contains(p, " ") {
			// The parameter paths can have a folder, but not the files in it. So replace the folder with a slash. The
			// remainder is then an absolute path, which rootedPath finds.
			text = strings.ReplaceAll(text, strings.TrimRight(p, "/")+"/", "/")
			text = strings.ReplaceAll(text, p, withoutDirectories(p))
		}
	}
	return rootedPath.ReplaceAllString(text, "$1$2")
}

// withoutDirectories removes the directories from a path of Ruby code. It also handles "<internal:/usr/lib/…/x.rb>"
// and "(eval at /srv/app/x.rb:3)", nested to any depth.
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

// HideDirectories makes a view of a Dictionary (Dictionary.View) return file names without their directories, because
// directories can name a person, a customer or a machine. The view also omits the values of requests, statements and
// exceptions. With hide false, the view returns everything again. While directories are hidden, files with the same
// name in several directories cannot be distinguished.
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
