package processcontext

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/mapped"
)

const (
	// headerSize is the size in bytes of the header of the mapping OTEL_CTX. mappingVersion is the supported version of
	// the mapping.
	headerSize, mappingVersion = 32, 2
	// maxPayload bounds the size of the mapping's payload, in bytes. Datadog's gem writes at most this much.
	maxPayload = 1 << 20
	// readTries bounds how often ddtop tries to read a payload that changes while it is read. maxMapped bounds how many
	// of the mappings named OTEL_CTX are read.
	readTries, maxMapped = 5, 4
)

// signature is the first 8 bytes of the mapping, and part of its name.
const signature = "OTEL_CTX"

type header struct {
	publishedNS uint64
	payload     mapped.Address
	size        uint32
}

// isMapped reports whether a mapping has the name of a process context. The process gives the name with
// memfd_create(2), or with prctl(2) if the mapping has no file.
func isMapped(m *mapped.Mapping) bool {
	switch strings.TrimSuffix(m.Path, " (deleted)") {
	case "/memfd:" + signature, "[anon:" + signature + "]", "[anon_shmem:" + signature + "]":
		return m.Read && m.End-m.Start >= headerSize
	}
	return false
}

// ReadMapped reads only OpenTelemetry's process context, which is in one of the process's mappings. It returns the
// zero Context if there is none. Its errors are the same as for Read.
func ReadMapped(mem mapped.Memory, mappings []mapped.Mapping) (Context, error) {
	looked := 0
	for i := range mappings {
		if !isMapped(&mappings[i]) {
			continue
		}
		if looked++; looked > maxMapped {
			break
		}
		c, err := readAt(mem, mappings[i].Start)
		if err == nil || errors.Is(err, attach.ErrGone) || errors.Is(err, attach.ErrPermission) {
			return c, err
		}
	}
	return Context{}, nil
}

// readAt reads the process context at an address. The program may write to it during the reading. So the result is
// valid only if the header is the same before and after the payload is read.
func readAt(mem mapped.Memory, at mapped.Address) (Context, error) {
	var before, after [headerSize]byte
	for range readTries {
		if err := mem.Read(at, before[:]); err != nil {
			return Context{}, err
		}
		h, err := parseHeader(before[:])
		if err != nil {
			return Context{}, err
		}
		if h.publishedNS == 0 {
			continue // the context is being written
		}
		payload := make([]byte, h.size)
		if err := mem.Read(h.payload, payload); err != nil && !errors.Is(err, attach.ErrUnmapped) {
			return Context{}, err
		} else if err != nil {
			continue // the context was freed, and perhaps replaced
		}
		if err := mem.Read(at, after[:]); err != nil {
			return Context{}, err
		}
		if before != after {
			continue
		}
		c, err := parseProcessContext(payload)
		c.PublishedNS = h.publishedNS
		return c, err
	}
	return Context{}, errNot
}

func parseHeader(b []byte) (h header, err error) {
	le := binary.LittleEndian
	h = header{publishedNS: le.Uint64(b[16:]), payload: mapped.Address(le.Uint64(b[24:])), size: le.Uint32(b[12:])}
	if string(b[:8]) != signature || le.Uint32(b[8:]) != mappingVersion || h.size > maxPayload || h.payload+mapped.Address(h.size) < h.payload {
		return header{}, errNot
	}
	return h, nil
}

// These are field numbers in OpenTelemetry's protocol buffers: ProcessContext, Resource, and KeyValue, AnyValue and
// ArrayValue of common.proto.
const (
	contextResource, contextAttribute = 1, 2
	resourceAttribute                 = 1
	pairKey, pairValue                = 1, 2
	valueString, valueArray           = 1, 5
	arrayValue                        = 1
)

// parseProcessContext decodes the payload of a process context. It skips unknown fields. An error means that the bytes
// are not a valid message.
func parseProcessContext(payload []byte) (Context, error) {
	c := Context{Source: OpenTelemetry}
	err := eachField(payload, func(number int, message []byte) error {
		switch number {
		case contextResource:
			return eachField(message, func(number int, pair []byte) error {
				if number != resourceAttribute {
					return nil
				}
				return c.pair(pair)
			})
		case contextAttribute:
			return c.pair(message)
		}
		return nil
	})
	if err != nil {
		return Context{}, err
	}
	return c, nil
}

// pair decodes a KeyValue and adds it as an attribute.
func (c *Context) pair(message []byte) error {
	var key string
	var value []byte
	err := eachField(message, func(number int, b []byte) error {
		switch number {
		case pairKey:
			key = string(b[:min(len(b), maxText+1)])
		case pairValue:
			value = b
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachField(value, func(number int, b []byte) error {
		switch {
		case number == valueString:
			c.set(key, string(b))
		case number == valueArray && key == keyThreadNames:
			var err error
			c.Threads.Keys, err = texts(b)
			return err
		}
		return nil
	})
}

// texts decodes an ArrayValue of names. If a value is not text, the result has "" in its place, so that the other names
// keep their indexes.
func texts(array []byte) (out []string, err error) {
	err = eachField(array, func(number int, value []byte) error {
		if number != arrayValue || len(out) >= maxKeys {
			return nil
		}
		text := ""
		err := eachField(value, func(number int, b []byte) error {
			if number == valueString {
				text = clean(string(b[:min(len(b), maxText+1)]))
			}
			return nil
		})
		out = append(out, text)
		return err
	})
	return out, err
}

// eachField calls f for each field of a message whose value is bytes, and skips other fields. If f returns an error,
// eachField stops and returns this error.
func eachField(message []byte, f func(number int, value []byte) error) error {
	const varint, eight, bytes, four = 0, 1, 2, 5 // wire types (protobuf.dev/programming-guides/encoding)
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return errNot
		}
		message = message[n:]
		size := uint64(0)
		switch tag & 7 {
		case varint:
			if _, n = binary.Uvarint(message); n <= 0 {
				return errNot
			}
			message = message[n:]
			continue
		case eight:
			size = 8
		case four:
			size = 4
		case bytes:
			if size, n = binary.Uvarint(message); n <= 0 {
				return errNot
			}
			message = message[n:]
		default:
			return errNot
		}
		if size > uint64(len(message)) {
			return errNot
		}
		if tag&7 == bytes {
			if err := f(int(tag>>3), message[:size]); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
