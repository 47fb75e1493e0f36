package protobuf

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	var b []byte
	b = AppendInt(b, 1, -5)
	b = AppendInt(b, 2, 0) // AppendInt leaves out a zero
	b = AppendFixed64(b, 3, 1<<63)
	b = AppendBytes(b, 4, "text")
	b = AppendBytes(b, 5, []byte{})
	b = AppendInts(b, 600, []int32{1, -1, 300})
	var got []string
	if err := Each(b, func(f Field, n uint64, data []byte) { got = append(got, fmt.Sprintf("%d:%d:%x", f, int64(n), data)) }); err != nil {
		t.Fatal(err)
	}
	want := "1:-5: 3:-9223372036854775808: 4:0:74657874 5:0: 600:0:01ffffffffffffffffff01ac02"
	if strings.Join(got, " ") != want {
		t.Errorf("read %s, want %s", strings.Join(got, " "), want)
	}
	for n := range b {
		whole := 0
		err := Each(b[:n], func(Field, uint64, []byte) { whole++ })
		if err != nil && !errors.Is(err, ErrMessage) || err == nil && whole > 5 {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func FuzzEach(f *testing.F) {
	f.Add(AppendBytes(AppendInt(nil, 1, 5), 2, "x"))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = Each(b, func(Field, uint64, []byte) {}) // Each must end, and must not read past the end
	})
}
