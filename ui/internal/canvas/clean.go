package canvas

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/mattn/go-runewidth"
)

// width measures how many columns a rune takes. It measures as terminals do outside East Asian legacy locales:
// ambiguous characters (│, █, ·) take one column. It ignores the environment variables. So a picture is the same on
// every machine.
var width = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

// maxCombining limits how many combining marks, such as accents, Clean keeps on one base character.
const maxCombining = 3

// RuneWidth returns how many columns of the terminal a rune takes after Clean: 0, 1 or 2.
func RuneWidth(r rune) int {
	if r >= 0x20 && r < 0x7f {
		return 1
	}
	return width.RuneWidth(r)
}

// Width returns how many columns of the terminal s takes after Clean.
func Width(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return slowWidth(Clean(s))
		}
		n++
	}
	return n
}

func slowWidth(s string) int {
	n := 0
	for _, r := range s {
		n += RuneWidth(r)
	}
	return n
}

// Clean makes any string, such as a thread's name, safe to draw. Control characters become their Unicode pictures (␛
// for ESC), and invalid UTF-8 becomes U+FFFD. Clean drops every character that reorders text, or whose width differs
// between terminals: format characters (bidi overrides, joiners, zero-width spaces), variation selectors, tags and skin
// tones. Regional indicators become letters. Combining marks stay, at most three on a base character.
//
// Some terminals measure text by runes, others by grapheme clusters (mode 2027). So both methods must give the same
// width. If they differ for a cluster, Clean keeps only the first rune of the cluster.
func Clean(s string) string {
	if isSimple(s) {
		return s
	}
	s = cleanRunes(s)
	var b strings.Builder
	for rest := s; rest != ""; {
		cluster, w := ansi.FirstGraphemeCluster(rest, ansi.GraphemeWidth)
		if cluster == "" {
			break
		}
		rest = rest[len(cluster):]
		if slowWidth(cluster) != w {
			cluster = firstThatAgrees(cluster)
		}
		b.WriteString(cluster)
	}
	if b.Len() == len(s) {
		return s
	}
	// dropping a character can join its neighbours into one cluster, so clean again; this ends, because the text gets
	// shorter
	return Clean(b.String())
}

// firstThatAgrees returns the first rune of a grapheme cluster. It returns "" if terminals do not agree even on the
// width of this rune.
func firstThatAgrees(cluster string) string {
	_, n := utf8.DecodeRuneInString(cluster)
	if first := cluster[:n]; n < len(cluster) && slowWidth(first) == ansi.StringWidth(first) {
		return first
	}
	return ""
}

func cleanRunes(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	marks, base := 0, false
	for _, r := range s {
		switch {
		case r == utf8.RuneError:
			r = '\uFFFD'
		case r < 0x20:
			r = '\u2400' + r
		case r == 0x7f:
			r = '\u2421'
		case r >= 0x80 && r < 0xa0: // C1: CSI and OSC in one byte
			r = '\uFFFD'
		case r == '\u2028' || r == '\u2029':
			r = '\u2424'
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Variation_Selector, r),
			r >= 0x1F3FB && r <= 0x1F3FF, r >= 0xE0000 && r <= 0xE0FFF:
			continue
		case r >= 0x1F1E6 && r <= 0x1F1FF:
			r = 'A' + r - 0x1F1E6
		}
		if RuneWidth(r) == 0 {
			if !base || marks >= maxCombining {
				continue
			}
			marks++
		} else {
			base, marks = true, 0
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isSimple reports whether all characters of s are one column wide and never join others, like the characters of the
// screen's own texts. Most texts are simple, and Clean returns them quickly.
func isSimple(s string) bool {
	for _, r := range s {
		switch {
		case r >= 0x20 && r < 0x7f, r >= 0xa1 && r < 0x300 && r != 0xad, // ASCII, Latin
			r >= 0x2190 && r < 0x2200 && r != 0x2194 && r != 0x2195, r >= 0x2200 && r < 0x2300, // arrows, mathematics
			r >= 0x2500 && r < 0x25aa, r >= 0x25b2 && r < 0x25b6, r == '▸', r == '▼', r == '▾', r == '●', // boxes, shapes
			r == '…', r == '–', r == '✓':
		default:
			return false
		}
	}
	return true
}

// Cut shortens s to at most w columns. If it cuts anything, the last column is an ellipsis (…).
func Cut(s string, w int) string {
	s = Clean(s)
	if w <= 0 {
		return ""
	}
	if slowWidth(s) <= w {
		return s
	}
	n := 0
	for i, r := range s {
		rw := RuneWidth(r)
		if n+rw > w-1 {
			return s[:i] + "…"
		}
		n += rw
	}
	return s
}

// CutLeft shortens s to at most w columns by cutting off its beginning. It is for paths, whose end matters most.
func CutLeft(s string, w int) string {
	s = Clean(s)
	if w <= 0 {
		return ""
	}
	total := slowWidth(s)
	if total <= w {
		return s
	}
	for i, r := range s {
		if total <= w-1 && RuneWidth(r) > 0 {
			return "…" + s[i:]
		}
		total -= RuneWidth(r)
	}
	return "…"
}

// CutName shortens the name of a thread or a process to at most w columns. It keeps a number at the end, because the
// names of threads in one pool differ only in this number. If there is room, it also keeps the word before the number:
// "puma…tp 003". In a name without any number it keeps the last word: "puma srv…reaper".
func CutName(s string, w int) string {
	s = Clean(s)
	switch {
	case w <= 0:
		return ""
	case slowWidth(s) <= w:
		return s
	}
	stem := strings.TrimRight(s, "0123456789)]")
	if !strings.ContainsAny(s[len(stem):], "0123456789") {
		at := strings.LastIndexByte(stem, ' ') + 1
		if tail := s[at:]; at > 0 && !strings.ContainsAny(s, "0123456789") && slowWidth(tail) <= w/2+1 {
			return cutBefore(s, tail, w)
		}
		return Cut(s, w)
	}
	last := strings.LastIndexByte(stem, ' ') + 1
	before := strings.LastIndexByte(strings.TrimRight(stem[:last], " "), ' ') + 1
	for _, at := range []int{before, last, len(stem)} {
		if tail := s[at:]; at > 0 && slowWidth(tail) <= w/2+1 {
			return cutBefore(s, tail, w)
		}
	}
	return CutLeft(s, w)
}

// cutBefore shortens s to w columns, but keeps its end, which is tail. It cuts the text before tail.
func cutBefore(s, tail string, w int) string {
	head := strings.TrimSuffix(Cut(s, w-slowWidth(tail)), "…")
	return strings.TrimRight(head, " ") + "…" + tail
}

// PadLeft makes s exactly w columns wide. It cuts a longer s, and puts spaces before a shorter one.
func PadLeft(s string, w int) string {
	s = Cut(s, w)
	if n := w - slowWidth(s); n > 0 {
		s = strings.Repeat(" ", n) + s
	}
	return s
}
