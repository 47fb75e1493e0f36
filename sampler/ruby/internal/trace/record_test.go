package trace

import (
	"encoding/binary"
	"testing"
)

// FuzzRecord passes any bytes as a record. At most maxAttributes bytes of attributes may be read, and an invalid record
// must yield no span.
func FuzzRecord(f *testing.F) {
	head := func(change func([]byte), attributes string) []byte {
		b := make([]byte, recordHead)
		b[3], b[recordSpan+7], b[recordValid] = 7, 66, 1
		binary.LittleEndian.PutUint16(b[recordSize:], uint16(len(attributes)))
		change(b)
		return append(b, attributes...)
	}
	same := func([]byte) {}
	f.Add(head(same, "\x01\x1000000000000000ff\x00\x01x"), 1)
	f.Add(head(same, "\x01\xff00"), 1)
	f.Add(head(same, "\x01"), 1)
	f.Add(head(same, "\x01\x00\x01\x1000000000000000ff"), -1)
	f.Add(head(func(b []byte) { b[recordValid] = 2 }, ""), 0)
	f.Add(head(func(b []byte) { b[recordSize+1] = 0xff }, "\x00\x00"), 0)
	f.Fuzz(func(t *testing.T, b []byte, root int) {
		if len(b) < recordHead {
			return
		}
		n := attributesSize(b)
		s := recordSpanOf(b[:min(len(b), recordHead+n)], root)
		if n < 0 || n > maxAttributes || b[recordValid] != 1 && (n != 0 || s != (Span{})) || s.ID == 0 && s != (Span{}) {
			t.Errorf("%d bytes of attributes, %+v", n, s)
		}
	})
}
