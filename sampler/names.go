package sampler

import "unicode/utf8"

const (
	// MaxNameBytes is the length of the longest name, in bytes. The limit applies to names of threads, methods,
	// classes, files and peers, to titles of processes, and to labels made from such names. It is Linux's limit for a
	// path (PATH_MAX). Longer names are cut, and end with CutMark.
	MaxNameBytes = 4096
	// CutMark ends a name that was cut.
	CutMark = "…"
)

// CutName returns a name of at most MaxNameBytes. It cuts a longer name between two characters and ends it with
// CutMark. A cut name is a copy, so the longer name's memory can be freed.
func CutName(s string) string {
	if len(s) <= MaxNameBytes {
		return s
	}
	n := MaxNameBytes - len(CutMark)
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n] + CutMark
}

// wordOf returns words[n]. If words has no such element, it returns other.
func wordOf[T ~uint8](n T, other string, words ...string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return other
}
