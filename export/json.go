package export

import (
	"encoding/json"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ddtop/ddtop/flamegraph"
)

// WriteJSON writes v as indented JSON that is safe for a terminal. What flamegraph.Printable would replace is in its
// strings as \u escapes, so a reader gets every name exactly. encoding/json alone lets through DEL, the control
// characters from U+0080 on, which some terminals take for escape sequences, and changes of direction.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(asciiControls{w})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteCompactJSON is WriteJSON for files that programs read: in one line, with HTML escaped.
func WriteCompactJSON(w io.Writer, v any) error {
	return json.NewEncoder(asciiControls{w}).Encode(v)
}

// ASCIIControls returns a writer that escapes unsafe characters for a terminal in JSON. A value must come in one
// call, as json.Encoder writes it.
func ASCIIControls(w io.Writer) io.Writer { return asciiControls{w} }

// asciiControls escapes unsafe characters for a terminal in JSON, and passes it on. A value must come in one call, as
// json.Encoder writes it. Characters below U+0020 are JSON's own white space, because its strings have none.
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

// jsonEscape returns a character as \u escapes: two of them, surrogates, past U+FFFF.
func jsonEscape(r rune) []byte {
	const digits = "0123456789abcdef"
	var out []byte
	for _, u := range utf16.Encode([]rune{r}) {
		out = append(out, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return out
}
