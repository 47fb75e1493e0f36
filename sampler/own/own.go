// Package own decides which code is the program's own, by patterns that the user gives.
package own

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ddtop/ddtop/sampler"
)

// Code decides which code is the program's own, with the user's patterns. If no pattern matches, the path of the code's
// file decides. A nil Code has no patterns. Several goroutines may use it.
type Code struct {
	rules []rule

	mu    sync.Mutex
	known map[key]int8 // cached results of the rules; bounded by maxKnown
}

type rule struct {
	not, gem bool
	match    *regexp.Regexp
}

type key struct{ file, gem string }

// maxKnown limits the number of cached results.
const maxKnown = 1 << 16

// maxGlob limits the length of a pattern, in bytes.
const maxGlob = 1000

// New makes a Code from patterns. The last pattern that matches decides. New returns nil if there are no patterns. A
// pattern with a slash matches paths: * and ? match within a name, ** matches anything, and a folder's pattern matches
// everything below it. A pattern without a slash matches a gem's name. A ! before a pattern means that the code is not
// the program's own.
func New(globs []string) (*Code, error) {
	if len(globs) == 0 {
		return nil, nil
	}
	o := &Code{known: make(map[key]int8)}
	for _, glob := range globs {
		text, not := strings.CutPrefix(glob, "!")
		switch {
		case strings.Trim(text, "/") == "":
			return nil, fmt.Errorf("the pattern %q names nothing", glob)
		case len(text) > maxGlob || !utf8.ValidString(text):
			return nil, errors.New("the pattern is too long, or no UTF-8")
		}
		r := rule{not: not, gem: !strings.Contains(text, "/")}
		var b strings.Builder
		switch {
		case r.gem:
			b.WriteString("^")
		case text[0] == '/':
			b.WriteString("^")
		default:
			b.WriteString("(^|/)") // the folder can be at any depth
		}
		for rest := strings.TrimSuffix(text, "/"); rest != ""; {
			switch {
			case strings.HasPrefix(rest, "/**/"):
				b.WriteString("/(.*/)?")
				rest = rest[3:]
			case strings.HasPrefix(rest, "**"):
				b.WriteString(".*")
				rest = rest[1:]
			case rest[0] == '*':
				b.WriteString("[^/]*")
			case rest[0] == '?':
				b.WriteString("[^/]")
			default:
				_, n := utf8.DecodeRuneInString(rest)
				b.WriteString(regexp.QuoteMeta(rest[:n]))
				rest = rest[n-1:]
			}
			rest = rest[1:]
		}
		if !r.gem {
			b.WriteString("(/|$)")
		} else {
			b.WriteString("$")
		}
		var err error
		if r.match, err = regexp.Compile("(?s)" + b.String()); err != nil {
			return nil, fmt.Errorf("the pattern %q: %w", glob, err)
		}
		o.rules = append(o.rules, r)
	}
	return o, nil
}

// judge sets a frame's Origin by the rules. It does not change frames of C functions, because they have no file.
func (o *Code) judge(f sampler.Frame) sampler.Frame {
	if f.C {
		return f
	}
	file := f.File()
	if at, ok := sampler.EvalFile(file); ok {
		file = at
	}
	gem, _, _ := strings.Cut(f.Gem, " ")
	switch o.says(key{file, gem}) {
	case +1:
		f.Origin, f.Gem = sampler.OriginApp, ""
	case -1:
		if f.Own() {
			f.Origin = sampler.OriginGem
		}
	}
	return f
}

// says returns the decision of the rules: +1 for own code, -1 for other code, and 0 if no rule matches.
func (o *Code) says(k key) (verdict int8) {
	o.mu.Lock()
	defer o.mu.Unlock()
	verdict, ok := o.known[k]
	if ok {
		return verdict
	}
	for _, r := range o.rules {
		text := k.file
		if r.gem {
			text = k.gem
		}
		switch {
		case text == "" || !r.match.MatchString(text):
		case r.not:
			verdict = -1
		default:
			verdict = +1
		}
	}
	if len(o.known) >= maxKnown {
		clear(o.known)
	}
	o.known[k] = verdict
	return verdict
}

// View returns a Dictionary with the same entries as d, except that the Origin of frames is set by the rules. It
// returns d itself if o is nil.
func (o *Code) View(d *sampler.Dictionary) *sampler.Dictionary {
	if o == nil {
		return d
	}
	return d.Judged(o.judge)
}
