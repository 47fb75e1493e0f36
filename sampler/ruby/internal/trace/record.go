package trace

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// These are offsets in the record of a thread's context (docs/internals/context.md#a-threads-span). A record has ids, a
// flag, the size of the attributes, and the attributes.
const (
	recordSpan, recordValid, recordSize, recordHead = 16, 24, 26, 28
	// maxAttributes limits the size of a record's attributes, in bytes. If they are larger, ddtop does not read them.
	// OpenTelemetry recommends 640 bytes for the whole record.
	maxAttributes = 1 << 12
)

// rootAttribute is the attribute that holds the local root's id, in 16 digits of hexadecimal.
const rootAttribute = "datadog.local_root_span_id"

// recordSpanOf returns the span in a record. It returns the zero Span if the record is invalid. The record's attributes
// must have been read completely or not at all. root is the number by which the attributes refer to rootAttribute, or
// -1 if there is no such number.
func recordSpanOf(record []byte, root int) Span {
	if record[recordValid] != 1 || allZero(record[:recordSpan]) {
		return Span{}
	}
	s := Span{ID: binary.BigEndian.Uint64(record[recordSpan:])}
	if s.ID == 0 {
		return Span{}
	}
	copy(s.Trace[:], record)
	// If several attributes have this number, the last one is used. An attribute that is cut off at the end is ignored.
	for rest := record[recordHead:]; len(rest) >= 2 && len(rest) >= 2+int(rest[1]); rest = rest[2+int(rest[1]):] {
		if int(rest[0]) == root {
			s.Root = idOf(rest[2 : 2+int(rest[1])])
		}
	}
	return s
}

// idOf parses an id of 16 hexadecimal digits. It returns 0 for other text.
func idOf(text []byte) uint64 {
	var id [8]byte
	if len(text) != 2*len(id) {
		return 0
	}
	if _, err := hex.Decode(id[:], text); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(id[:])
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// attributesSize returns the size of the attributes that follow a record's head, in bytes.
func attributesSize(head []byte) int {
	n := int(binary.LittleEndian.Uint16(head[recordSize:]))
	if head[recordValid] != 1 || n > maxAttributes {
		return 0
	}
	return n
}
