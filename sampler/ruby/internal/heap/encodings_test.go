package heap

import (
	hexadecimal "encoding/hex"
	"flag"
	"os"
	"testing"
	"unicode/utf8"

	"github.com/ddtop/ddtop/internal/rubytest"
)

var update = flag.Bool("update", false, "make the table of Japanese characters anew")

// japaneseProgram prints the character that Ruby has for each pair of bytes of the table, as UTF-16.
const japaneseProgram = `
def unit(encoding, *bytes)
  s = bytes.pack("C*").force_encoding(encoding).encode("UTF-8")
  s.length == 1 && s.ord < 0x10000 ? s.ord : 0
rescue EncodingError
  0
end
all = []
(0xa1..0xfe).each { |a| (0xa1..0xfe).each { |b| all << unit("EUC-JP", a, b) } }
(0xa1..0xfe).each { |a| (0xa1..0xfe).each { |b| all << unit("EUC-JP", 0x8f, a, b) } }
[*0x81..0x9f, *0xe0..0xfc].each { |a| (0x40..0xfc).each { |b| all << unit("Windows-31J", a, b) } }
puts all.pack("n*").unpack("H*")
# What is said without a table.
puts (0xa1..0xdf).map { |b| [unit("EUC-JP", 0x8e, b), unit("Windows-31J", b)] }.flatten.pack("n*").unpack("H*")
`

const japaneseFile = "encodings/japanese.utf16"

// TestJapaneseTable compares the table japanese with Ruby's own conversion of every character. With -update, the test
// makes the table.
func TestJapaneseTable(t *testing.T) {
	p := rubytest.One(t).Start(t, japaneseProgram, rubytest.Options{})
	table, err := hexadecimal.DecodeString(p.Line(t))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(japaneseFile, table, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(japanese) != japaneseSize || len(table) != japaneseSize {
		t.Fatalf("%d bytes, Ruby says %d, not %d", len(japanese), len(table), japaneseSize)
	}
	wrong, known := 0, 0
	for i := 0; i < len(table); i += 2 {
		if table[i]|table[i+1] != 0 {
			known++
		}
		if japanese[i:i+2] != string(table[i:i+2]) {
			wrong++
		}
	}
	if wrong > 0 || known < 20000 {
		t.Errorf("%d of %d characters are wrong", wrong, known)
	}
	kana, err := hexadecimal.DecodeString(p.Line(t))
	if err != nil {
		t.Fatal(err)
	}
	for b := byte(0xa1); b <= 0xdf; b++ {
		want := decodeUTF16(kana[4*(b-0xa1):][:4], true)
		if got := decodeText([]byte{0x8e, b}, encEUCJP) + decodeText([]byte{b}, encWindows31J); got != want {
			t.Errorf("%x is %q, Ruby says %q", b, got, want)
		}
	}
}

func TestDecodeText(t *testing.T) {
	for _, tt := range []struct {
		in       string
		encoding int
		want     string
	}{
		{"plain", encUSASCII, "plain"},
		{"größe", encUTF8, "größe"},
		{"größe", encBinary, "größe"},
		{"gr\xf6\xdfe", encUTF8, `gr\xF6\xDFe`},
		{"gr\xc3\xb6\xdfe", encUTF8, `grö\xDFe`},
		{"\xb4\xc1\xbb\xfa", encEUCJP, "漢字"},
		{"a\x8e\xb1\x8f\xb0\xa1", encEUCJP, "aｱ丂"},
		{"\xb4\xc1\xbb", encEUCJP, `漢\xBB`},
		{"\x8f\xb0\x8e\xb4", encEUCJP, `\x8F\xB0ｴ`},
		{"\xa9\xa1\xff", encEUCJP, `\xA9\xA1\xFF`}, // not a character
		{"\x8a\xbf\x8e\x9a\xb1", encWindows31J, "漢字ｱ"},
		{"\xfa\xb1\x8a", encWindows31J, `﨑\x8A`},
		{"\x80\xa0\xfd\x81", encWindows31J, `\x80\xA0\xFD\x81`},
		{"\xb4\xc1", 12, `\xB4\xC1`}, // an encoding that ddtop does not convert
		{"\x00\x01\xf6\x00", encUTF32BE, "😀"},
		{"\x00\xf6\x01\x00\x01", encUTF32LE, "😀"},
		{"\xff\xff\xff\xff", encUTF32LE, "\ufffd"},
		{"a\x00b", encUTF8, "a\x00b"},
		{"\xd8\x3d\xde\x00", encUTF16BE, "😀"},
		{"\x3d\xd8\x00\xde", encUTF16LE, "😀"},
		{"\x3d\xd8\x00", encUTF16LE, "\ufffd"},
		{"", encUTF8, ""},
	} {
		got := decodeText([]byte(tt.in), tt.encoding)
		if got != tt.want || !utf8.ValidString(got) {
			t.Errorf("%q in %d: got %q, want %q", tt.in, tt.encoding, got, tt.want)
		}
	}
}
