// Package protobuf writes and reads the fields of Protocol Buffers messages in their binary form. It has only what the
// destinations of push need. Generated code is not used, because it would need ten megabytes of Go modules for only
// four messages.
package protobuf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// These are the wire types of Protocol Buffers. A wire type is in the lower three bits of a field's tag.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// Field is the number of a field in a Protocol Buffers message.
type Field int

func appendTag(b []byte, f Field, wire uint64) []byte {
	return binary.AppendUvarint(b, uint64(f)<<3|wire)
}

// AppendInt appends a field of type int32, int64, uint32, uint64 or bool. It appends nothing for 0, because a missing
// field is 0.
func AppendInt(b []byte, f Field, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(appendTag(b, f, wireVarint), uint64(v))
}

// AppendFixed64 appends a field of type fixed64. It appends nothing for 0.
func AppendFixed64(b []byte, f Field, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(appendTag(b, f, wireFixed64), v)
}

// AppendBytes appends a field of type bytes, string or message. Unlike the other functions, it also appends an empty
// value. In a list of values, an empty value must not be left out.
func AppendBytes[T []byte | string](b []byte, f Field, v T) []byte {
	b = binary.AppendUvarint(appendTag(b, f, wireBytes), uint64(len(v)))
	return append(b, v...)
}

// AppendInts appends a packed list of int32 or int64. It appends nothing for an empty list.
func AppendInts[T int32 | int64](b []byte, f Field, list []T) []byte {
	if len(list) == 0 {
		return b
	}
	var packed []byte
	for _, v := range list {
		packed = binary.AppendUvarint(packed, uint64(int64(v)))
	}
	return AppendBytes(b, f, packed)
}

// ErrMessage is returned for bytes that are not a message.
var ErrMessage = errors.New("this is no message of Protocol Buffers")

// Each calls the function do for each field of a message. number is the field's value if it is a number. data is the
// value if it is bytes, a string or a message.
func Each(b []byte, do func(f Field, number uint64, data []byte)) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("%w: a tag is cut off", ErrMessage)
		}
		b = b[n:]
		f := Field(tag >> 3)
		switch tag & 7 {
		case wireVarint:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return fmt.Errorf("%w: field %d is cut off", ErrMessage, f)
			}
			do(f, v, nil)
			b = b[n:]
		case wireBytes:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return fmt.Errorf("%w: field %d is cut off", ErrMessage, f)
			}
			do(f, 0, b[n:n+int(length)])
			b = b[n+int(length):]
		case wireFixed64, wireFixed32:
			size := 8
			if tag&7 == wireFixed32 {
				size = 4
			}
			var v [8]byte
			if copy(v[:size], b) < size {
				return fmt.Errorf("%w: field %d is cut off", ErrMessage, f)
			}
			do(f, binary.LittleEndian.Uint64(v[:]), nil)
			b = b[size:]
		default:
			return fmt.Errorf("%w: field %d has wire type %d", ErrMessage, f, tag&7)
		}
	}
	return nil
}
