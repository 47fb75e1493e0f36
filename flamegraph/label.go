package flamegraph

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// ellipsis marks a cut label.
const ellipsis = "…"

// Printable returns s with U+FFFD in place of the characters that must not reach a terminal. These are control and
// format characters. For example, an escape sequence could control the terminal, or a character could change the
// direction of the text. Names come from the target and can contain anything.
func Printable(s string) string {
	if isPlain(s) {
		return s
	}
	if strings.IndexFunc(s, Unprintable) < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(func(r rune) rune {
		if Unprintable(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// isPlain reports whether s is printable ASCII. It saves time, because nearly every label is.
func isPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// columns returns the width of printable text in a terminal.
func columns(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return ansi.StringWidth(s)
		}
	}
	return len(s) // each byte is a column: Printable has replaced control characters
}

// Unprintable reports whether Printable replaces a character: control and format characters, line separators, private
// use and surrogates.
func Unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs)
}

const (
	// leastClass is the smallest number of characters to which a class name is shortened. A shorter beginning would not
	// help the reader.
	leastClass = 3
	// leastBoth is the smallest width at which the beginnings of both a class and a long method name are shown.
	leastBoth = 20
)

// LabelFit shortens a label to width columns and keeps the method's name longest: Foo::Barber#baz, Barber#baz,
// Bar…#baz, #baz, ba…. If even the method's name is too long, and the width is at least leastBoth, the beginnings of
// class and method remain: Bar…#bazinga_and…. A prefix ("block in Foo#baz") is removed before the class. If there is no
// class, a part of the prefix remains (block <main>). The result is Printable and never wider than width.
func LabelFit(label string, width int) string {
	if width <= 0 {
		return ""
	}
	s := Printable(label)
	if columns(s) <= width {
		return s
	}
	// Drop one part of the label at a time, until only the method's name is left.
	deco, rest := splitDecoration(s)
	if deco != "" && separator(rest) < 0 { // without its prefix, such a block would look like the method or the file
		if short := deco[:strings.IndexByte(deco, ' ')+1] + rest; columns(short) <= width {
			return short
		}
		return cut(s, width)
	}
	s = rest
	if columns(s) <= width {
		return s
	}
	if sep := separator(s); sep >= 0 {
		class, method := s[:sep], s[sep:]
		for i := strings.Index(class, "::"); i >= 0; i = strings.Index(class, "::") {
			class = class[i+2:]
			if columns(class)+columns(method) <= width {
				return class + method
			}
		}
		if room := width - columns(method); room > leastClass {
			return cut(class, room) + method
		}
		if width >= leastBoth {
			class = cut(class, leastClass+1)
			return class + cut(method, width-columns(class))
		}
		if columns(method) <= width {
			return method
		}
		s = method[1:]
		if columns(s) <= width {
			return s
		}
	}
	return cut(s, width)
}

// cut shortens a text to width columns.
func cut(s string, width int) string {
	if width <= 1 {
		return ansi.Truncate(s, max(width, 0), "")
	}
	return ansi.Truncate(s, width, ellipsis)
}

// splitDecoration splits off the prefix that Ruby puts before a method's label: "block in ", "block (2 levels) in ".
func splitDecoration(s string) (deco, rest string) {
	for _, word := range []string{"block ", "rescue ", "ensure ", "eval "} {
		if strings.HasPrefix(s, word) {
			if i := strings.Index(s, "in "); i >= 0 && i+3 < len(s) {
				return s[:i+3], s[i+3:]
			}
		}
	}
	return "", s
}

// separator returns the index of the # or . between class and method in a qualified label, or -1. The text before the
// separator must be the name of a constant. This rule excludes operators such as #.. and file names such as "a.b".
func separator(s string) int {
	if s == "" || !unicode.IsUpper(rune(s[0])) && s[0] < 0x80 {
		return -1
	}
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '#' || s[i] == '.' {
			return i
		}
		if !(s[i] == ':' || s[i] == '_' || s[i] >= 0x80 || s[i] >= '0' && s[i] <= '9' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= 'a' && s[i] <= 'z') {
			return -1
		}
	}
	return -1
}

// moreText returns the text of a cellMore in w columns: the number of nodes that the cell represents.
func moreText(count, w int) string {
	n := strconv.Itoa(count)
	for _, s := range []string{ellipsis + n + " more", ellipsis + n} {
		if ansi.StringWidth(s) <= w {
			return s
		}
	}
	return ellipsis
}
