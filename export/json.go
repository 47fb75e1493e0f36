package export

import (
	"encoding/json"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ddtop/ddtop/flamegraph"
)

// WriteJSON writes v as indented JSON that cannot control a terminal. Characters that flamegraph.Printable would
// replace become \u escapes, so a reader of the JSON gets every name exactly. encoding/json alone does not escape DEL
// and the characters that change the direction of text. It also does not escape control characters from U+0080 on,
// which some terminals interpret as escape sequences.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(asciiControls{w})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteCompactJSON is like WriteJSON, for files that programs read. It writes one line and escapes HTML.
func WriteCompactJSON(w io.Writer, v any) error {
	return json.NewEncoder(asciiControls{w}).Encode(v)
}

// ASCIIControls returns a writer that escapes the characters of JSON that are unsafe for a terminal. Each call of
// Write must pass one or more complete JSON values, as json.Encoder does.
func ASCIIControls(w io.Writer) io.Writer { return asciiControls{w} }

// asciiControls escapes the characters of JSON that are unsafe for a terminal. Each call of Write must pass complete
// JSON values. Characters below U+0020 are not escaped, because encoding/json has already escaped such characters in
// strings.
type asciiControls struct{ w io.Writer }

func (a asciiControls) Write(p []byte) (int, error) {
	from := 0
	for i := 0; i < len(p); {
		if p[i] < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		if !flamegraph.Unprintable(r) {
			i += n
			continue
		}
		if _, err := a.w.Write(p[from:i]); err != nil {
			return from, err
		}
		if _, err := a.w.Write(jsonEscape(r)); err != nil {
			return i, err
		}
		i += n
		from = i
	}
	if _, err := a.w.Write(p[from:]); err != nil {
		return from, err
	}
	return len(p), nil
}

// jsonEscape returns a character as one \u escape, or as two \u escapes (surrogates) if it is beyond U+FFFF.
func jsonEscape(r rune) []byte {
	const digits = "0123456789abcdef"
	var out []byte
	for _, u := range utf16.Encode([]rune{r}) {
		out = append(out, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return out
}
