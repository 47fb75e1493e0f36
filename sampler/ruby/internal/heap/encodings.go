package heap

import (
	_ "embed" // the table of Japanese characters
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These encoding indexes are the same in every Ruby from 2.5 to head (encindex.h). The indexes of other encodings
// depend on the release and on the order in which the encodings are loaded.
const (
	encBinary, encUTF8, encUSASCII = 0, 1, 2
	encUTF16BE, encUTF16LE         = 3, 4
	encUTF32BE, encUTF32LE         = 5, 6
	encUTF16, encUTF32             = 7, 8
	encUTF8Mac                     = 9
	encEUCJP, encWindows31J        = 10, 11
	encodingShift                  = 22
	encodingMask                   = 127
)

// wide reports whether an encoding uses more than one byte for each character, even for ASCII characters.
func wide(encoding int) bool { return encoding >= encUTF16BE && encoding <= encUTF32 }

// The table japanese has three sections. These constants are the starts and sizes of the sections, in characters. The
// first two have the characters of JIS X 0208 and JIS X 0212, by row and column as in EUC-JP. The third has the
// two-byte characters of Windows-31J, by lead byte (81 to 9F, E0 to FC) and trail byte (40 to FC).
const (
	jisRows       = 94
	jisX0208At    = 0
	jisX0212At    = jisX0208At + jisRows*jisRows
	windows31JAt  = jisX0212At + jisRows*jisRows
	windows31JRow = 0xfc - 0x40 + 1
	japaneseSize  = 2 * (windows31JAt + (0x9f-0x81+1+0xfc-0xe0+1)*windows31JRow)
	halfKatakana  = 0xff61 // the character of byte A1, which is a single byte in Windows-31J and follows 8E in EUC-JP
)

// japanese maps two bytes to their character, as UTF-16 in big endian. The character is zero if there is none. The
// table equals the results of Ruby's own String#encode (TestJapaneseTable makes it and compares it with Ruby).
//
//go:embed encodings/japanese.utf16
var japanese string

func japaneseAt(i int) rune { return rune(japanese[2*i])<<8 | rune(japanese[2*i+1]) }

// decodeText turns bytes in one of Ruby's encodings into valid UTF-8. A byte that cannot be decoded becomes \xNN, as
// Ruby's own inspect prints it.
func decodeText(b []byte, encoding int) string {
	next := decodeByte
	switch encoding {
	case encUTF8, encUTF8Mac, encBinary, encUSASCII:
		// Most file names that are marked as binary are really UTF-8. So a binary String that is valid UTF-8 is used as
		// it is.
		if utf8.Valid(b) {
			return string(b)
		}
		next = utf8.DecodeRune
	case encUTF16BE, encUTF16LE:
		return decodeUTF16(b, encoding == encUTF16BE)
	case encUTF32BE, encUTF32LE:
		return decodeUTF32(b, encoding == encUTF32BE)
	case encEUCJP:
		next = decodeEUCJP
	case encWindows31J:
		next = decodeWindows31J
	}
	// In every other encoding that a name can have, ASCII characters are unchanged.
	s := make([]byte, 0, len(b)+len(b)/2)
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			s = append(s, b[0])
			b = b[1:]
			continue
		}
		r, n := next(b)
		if r == utf8.RuneError && n <= 1 {
			const hex = "0123456789ABCDEF"
			s = append(s, '\\', 'x', hex[b[0]>>4], hex[b[0]&15])
			b = b[1:]
			continue
		}
		s = utf8.AppendRune(s, r)
		b = b[n:]
	}
	return string(s)
}

// decodeByte, decodeEUCJP and decodeWindows31J decode the first character of b, which is not ASCII, and return its
// length in bytes. If the character is invalid, they return utf8.RuneError and 1, as utf8.DecodeRune does.
func decodeByte([]byte) (rune, int) { return utf8.RuneError, 1 }

func decodeEUCJP(b []byte) (rune, int) {
	in := func(i int) bool { return i < len(b) && b[i] >= 0xa1 && b[i] <= 0xfe }
	at, n := 0, 2
	switch {
	case b[0] == 0x8e && in(1) && b[1] <= 0xdf:
		return halfKatakana + rune(b[1]-0xa1), 2
	case b[0] == 0x8f && in(1) && in(2):
		at, n = jisX0212At+int(b[1]-0xa1)*jisRows+int(b[2]-0xa1), 3
	case in(0) && in(1):
		at = jisX0208At + int(b[0]-0xa1)*jisRows + int(b[1]-0xa1)
	default:
		return utf8.RuneError, 1
	}
	if r := japaneseAt(at); r != 0 {
		return r, n
	}
	return utf8.RuneError, 1
}

func decodeWindows31J(b []byte) (rune, int) {
	lead := b[0]
	switch {
	case lead >= 0xa1 && lead <= 0xdf:
		return halfKatakana + rune(lead-0xa1), 1
	case lead == 0x80 || lead == 0xa0 || lead > 0xfc || len(b) < 2 || b[1] < 0x40 || b[1] > 0xfc:
		return utf8.RuneError, 1
	case lead >= 0xe0:
		lead -= 0xe0 - 0xa0
	}
	if r := japaneseAt(windows31JAt + int(lead-0x81)*windows31JRow + int(b[1]-0x40)); r != 0 {
		return r, 2
	}
	return utf8.RuneError, 1
}

func decodeUTF16(b []byte, bigEndian bool) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		hi, lo := b[2*i+1], b[2*i]
		if bigEndian {
			hi, lo = lo, hi
		}
		units[i] = uint16(hi)<<8 | uint16(lo)
	}
	return string(utf16.Decode(units))
}

// decodeUTF32 decodes UTF-32. It replaces invalid characters by utf8.RuneError. It drops an incomplete character at
// the end, as decodeUTF16 does.
func decodeUTF32(b []byte, bigEndian bool) string {
	var s []byte
	for ; len(b) >= 4; b = b[4:] {
		c := view.U32(b)
		if bigEndian {
			c = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		}
		r := rune(utf8.RuneError)
		if c <= utf8.MaxRune {
			r = rune(c)
		}
		s = utf8.AppendRune(s, r)
	}
	return string(s)
}
