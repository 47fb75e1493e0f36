package sampler

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// HideDirectories makes Frame and Peer of this view (see View) give file names without their directories, which can name a
// person, a customer or a machine, from now on, and Work, Statement and Exception nothing of values; with false, all of them
// again. Files of one name in several directories can't be distinguished then.
func (d *Dictionary) HideDirectories(hide bool) { d.hide.Store(hide) }

// HidesDirectories reports whether directories are hidden.
func (d *Dictionary) HidesDirectories() bool { return d.names != nil || d.hide.Load() }

// View returns a Dictionary of the same entries that hides what this one hides now, and goes on to when this one is told
// something else: what a file is to name is decided once, when it is begun.
func (d *Dictionary) View() *Dictionary {
	v := &Dictionary{entries: d.entries, names: d.names, own: d.own, marks: d.marks}
	v.hide.Store(d.hide.Load())
	return v
}

// Redacted returns a Dictionary of the same entries whose Frame, Peer and Thread give what a Redactor leaves of them; d itself
// when r is nil. What is interned is kept as it is.
func (d *Dictionary) Redacted(r *Redactor) *Dictionary {
	if r == nil {
		return d
	}
	return &Dictionary{entries: d.entries, names: r, own: d.own, marks: d.marks}
}

// Bare returns a Process without what can name a person, a machine or a directory: command line, user, host, and the path in
// LayoutNote except for its last name.
func Bare(p Process) Process {
	p.CommandLine, p.User, p.Host = nil, "", ""
	// It holds one path at most, which may have any characters. A relative one begins where "in " ends.
	if before, path, ok := strings.Cut(p.LayoutNote, " information in "); ok {
		p.LayoutNote = before + " information in " + path[strings.LastIndexByte(path, '/')+1:]
	} else if first, last := strings.IndexByte(p.LayoutNote, '/'), strings.LastIndexByte(p.LayoutNote, '/'); first >= 0 {
		p.LayoutNote = p.LayoutNote[:first] + p.LayoutNote[last+1:]
	}
	return p
}

// rootedPath is a path that begins at the root, up to its last slash, in a sentence: it ends where no path is thought to go on,
// so that one with blanks is taken whole.
var rootedPath = regexp.MustCompile(`(^|[\s"'(=:])/(?:[^/:;,"'()\n][^:;,"'()\n]*/)?([^\s/])`)

// BareText returns a sentence in which files have no directories: the paths that are given, whatever characters they have
// (of one that ends with a slash nothing stays), and those that begin at the root. Of two paths in one clause what is
// between them is lost.
func BareText(text string, paths ...string) string {
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(x, y string) int { return cmp.Compare(len(y), len(x)) }) // none is cut short by a part of it
	for _, p := range paths {
		if strings.Contains(strings.Trim(p, "/"), "/") || len(p) > 1 && p[0] == '/' || strings.Contains(p, " ") {
			// Below a folder that is known begins a path that is not: it is taken for a rooted one.
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
