package processcontext

import (
	"encoding/binary"
	"slices"
)

// tracerInfoKeys maps keys in the file of Datadog's tracers to OpenTelemetry attributes. It is never changed.
var tracerInfoKeys = map[string]string{
	"service_name": keyService, "service_env": keyEnv, "service_version": keyVersion, "runtime_id": keyRuntimeID, "hostname": keyHost,
	"container_id": keyContainer, "tracer_version": keyTracerVer, "tracer_language": keyTracerLang, "process_tags": keyTags,
}

// parseTracerInfo decodes the file that Datadog's tracers write: a MessagePack map. It skips unknown entries. It
// returns an error if the bytes are not a MessagePack map.
func parseTracerInfo(b []byte) (Context, error) {
	p := packed{b}
	n, ok := p.mapSize()
	if !ok {
		return Context{}, errNot
	}
	c := Context{Source: Datadog}
	for range n {
		key, isText, ok := p.text()
		if !ok || !isText {
			return Context{}, errNot
		}
		value, isText, ok := p.text()
		if !ok {
			return Context{}, errNot
		}
		if isText && tracerInfoKeys[key] != "" {
			c.set(tracerInfoKeys[key], value)
		}
	}
	if !slices.ContainsFunc(c.Attributes, func(a Attribute) bool { return a.Key == keyTracerLang || a.Key == keyService || a.Key == keyRuntimeID }) {
		return Context{}, errNot // a map with other contents
	}
	return c, nil
}

// packed is MessagePack that is not decoded yet (msgpack.org, specification).
type packed struct{ b []byte }

func (p *packed) take(n uint64) (b []byte, ok bool) {
	if n > uint64(len(p.b)) {
		return nil, false
	}
	b, p.b = p.b[:n], p.b[n:]
	return b, true
}

// number reads the next n bytes as a number. n is 1, 2, 4 or 8.
func (p *packed) number(n uint64) (v uint64, ok bool) {
	b, ok := p.take(n)
	if !ok {
		return 0, false
	}
	switch n {
	case 1:
		return uint64(b[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), true
	}
	return binary.BigEndian.Uint64(b), true
}

// mapSize reads the head of a MessagePack map and returns its number of pairs. It refuses more pairs than the remaining
// bytes can hold.
func (p *packed) mapSize() (n uint64, ok bool) {
	kind, ok := p.number(1)
	switch {
	case !ok:
		return 0, false
	case kind&0xf0 == 0x80:
		n = kind & 0x0f
	case kind == 0xde:
		n, ok = p.number(2)
	case kind == 0xdf:
		n, ok = p.number(4)
	default:
		return 0, false
	}
	return n, ok && n <= uint64(len(p.b))/2
}

// text reads the next value of any kind. If the value is a text, it returns the text and sets isText. Otherwise it
// skips the value with everything inside it. ok is false if the bytes end too early.
func (p *packed) text() (text string, isText, ok bool) {
	if len(p.b) > 0 {
		size, is := uint64(0), true
		q := packed{p.b[1:]}
		switch kind := p.b[0]; {
		case kind&0xe0 == 0xa0:
			size, ok = uint64(kind&0x1f), true
		case kind == 0xd9:
			size, ok = q.number(1)
		case kind == 0xda:
			size, ok = q.number(2)
		case kind == 0xdb:
			size, ok = q.number(4)
		default:
			is = false
		}
		if is {
			b, whole := q.take(size)
			p.b = q.b
			return string(b), true, ok && whole
		}
	}
	return "", false, p.skip()
}

// skip skips one value with everything inside it. In MessagePack, the members of a map or an array are the values that
// follow it. So skip counts how many values it still has to skip.
func (p *packed) skip() bool {
	for left := uint64(1); left > 0; left-- {
		kind, ok := p.number(1)
		if !ok {
			return false
		}
		// more is the number of values inside this value. size is the number of bytes of this value without the values
		// inside it.
		more, size := uint64(0), uint64(0)
		length := func(bytes uint64) (n uint64) { n, ok = p.number(bytes); return n }
		switch {
		case kind < 0x80, kind >= 0xe0, kind == 0xc0, kind == 0xc2, kind == 0xc3: // small numbers, nil, false, true
		case kind&0xf0 == 0x80:
			more = 2 * (kind & 0x0f)
		case kind&0xf0 == 0x90:
			more = kind & 0x0f
		case kind&0xe0 == 0xa0:
			size = kind & 0x1f
		case kind >= 0xc4 && kind <= 0xc6:
			size = length(1 << (kind - 0xc4))
		case kind >= 0xc7 && kind <= 0xc9:
			size = length(1<<(kind-0xc7)) + 1
		case kind == 0xca, kind == 0xcb:
			size = 4 << (kind - 0xca)
		case kind >= 0xcc && kind <= 0xd3: // unsigned and signed numbers
			size = 1 << (kind & 3)
		case kind >= 0xd4 && kind <= 0xd8:
			size = 1<<(kind-0xd4) + 1
		case kind >= 0xd9 && kind <= 0xdb:
			size = length(1 << (kind - 0xd9))
		case kind == 0xdc, kind == 0xdd:
			more = length(2 << (kind - 0xdc))
		case kind == 0xde, kind == 0xdf:
			more = 2 * length(2<<(kind-0xde))
		default:
			return false // 0xc1 is not used
		}
		if _, whole := p.take(size); !ok || !whole || more > uint64(len(p.b)) {
			return false
		}
		if left += more; left > uint64(len(p.b))+1 {
			return false
		}
	}
	return true
}
