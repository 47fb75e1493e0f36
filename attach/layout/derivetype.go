package layout

import (
	"debug/dwarf"
	"fmt"
)

// These are limits on the nesting of one type. Ruby's structs are nested five deep, and its types have at most four
// qualifiers.
const (
	maxTypeDepth  = 64
	maxFieldDepth = 32
	maxMembers    = 4096
	// maxLookedAt limits the number of members that are read in total. Ruby has 3,000 members, but in a hostile file
	// structs may contain each other without end.
	maxLookedAt = 1 << 17
	// maxTypes limits the number of types that are remembered. Ruby has a few thousand.
	maxTypes = 1 << 18
	// maxTypedefs limits the number of typedefs that are remembered in one compilation unit. Only typedefs whose names
	// a layout table needs are remembered. Ruby has about ten of them.
	maxTypedefs = 1 << 12
	// maxDebugName is the length at which names are cut, in bytes.
	maxDebugName = 256
)

// typeInfo describes a type after its typedefs and qualifiers are removed.
type typeInfo struct {
	// size is in bytes. members is true if the type is a struct or union with known members. In this case the field at
	// is the offset, in the debug information, of the entry that defines the type.
	size    int
	members bool
	at      dwarf.Offset
}

type member struct {
	name string
	kind dwarf.Offset
	// offset is in bytes from the start of the struct. bits is the width of a bit field, or zero for other members.
	// bitAt is the lowest bit of a bit field, counted from the start of the struct.
	offset      int
	bits, bitAt int
}

// addStruct adds a struct with all its fields to a table.
func (s *scan) addStruct(t *Table, name string, at dwarf.Offset) error {
	info, err := s.typeAt(at, 0)
	if err != nil {
		return err
	}
	if !info.members {
		return nil
	}
	t.sizes[name] = info.size
	return s.addFields(t, name, "", info.at, 0, 0)
}

// addFields adds the members of the struct at an offset of the debug information. If an unnamed member is itself a
// struct or union, its own members are added in its place. In C they belong to the outer struct.
func (s *scan) addFields(t *Table, structName, prefix string, at dwarf.Offset, base, depth int) error {
	if depth > maxFieldDepth {
		return fmt.Errorf("%w: structs nested deeper than %d", errNoDebugInfo, maxFieldDepth)
	}
	members, err := s.members(at)
	if err != nil {
		return err
	}
	for _, m := range members {
		if s.lookedAt++; s.lookedAt > maxLookedAt {
			return fmt.Errorf("%w: more than %d members", errNoDebugInfo, maxLookedAt)
		}
		info, err := s.typeAt(m.kind, 0)
		if err != nil {
			return err
		}
		path := prefix + m.name
		if m.name == "" {
			if info.members {
				if err := s.addFields(t, structName, prefix, info.at, base+m.offset, depth+1); err != nil {
					return err
				}
			}
			continue // an unnamed bit field is padding
		}
		full := structName + "." + path
		if !s.known.fields[full] && !s.known.inside[full] {
			continue
		}
		f, ok := placeField(m, info.size, base)
		if !ok || f.Offset > maxStruct || f.Size > maxStruct {
			return fmt.Errorf("%w: field %s has no possible place", errNoDebugInfo, path)
		}
		if len(t.fields) >= maxFields {
			return fmt.Errorf("%w: more than %d fields", errNoDebugInfo, maxFields)
		}
		if s.known.fields[full] {
			t.fields[full] = f
		}
		if info.members && s.known.inside[full] {
			if err := s.addFields(t, structName, path+".", info.at, base+m.offset, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeField places a member whose type has size bytes in a struct that begins at base. The place of a bit field is a
// word that holds all its bits. This word has the size of the field's type and is naturally aligned. A packed struct
// may have no such word. In this case the word begins with the bit field's first byte. The result is false if the
// numbers are impossible, or if no word holds all bits.
func placeField(m member, size, base int) (Field, bool) {
	if m.bits == 0 {
		return Field{Offset: base + m.offset, Size: size}, base+m.offset >= 0
	}
	width := size * 8
	if size <= 0 || size > 8 || m.bits < 0 || m.bits > width || m.bitAt < 0 {
		return Field{}, false
	}
	at, bit := m.bitAt/width*size, m.bitAt%width
	if bit+m.bits > width {
		at, bit = m.bitAt/8, m.bitAt%8
	}
	return Field{Offset: base + at, Size: size, BitOffset: bit, BitSize: m.bits}, bit+m.bits <= width
}

func (s *scan) members(at dwarf.Offset) ([]member, error) {
	s.reader.Seek(at)
	e, err := s.next()
	if err != nil {
		return nil, err
	}
	if e == nil || !e.Children {
		return nil, nil
	}
	var out []member
	for {
		e, err := s.next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag == 0 {
			break
		}
		if e.Tag == dwarf.TagMember {
			m, ok := readMember(e)
			if !ok {
				return nil, fmt.Errorf("%w: member %q has no place that is a number", errNoDebugInfo, m.name)
			}
			if len(out) >= maxMembers {
				return nil, fmt.Errorf("%w: more than %d members", errNoDebugInfo, maxMembers)
			}
			out = append(out, m)
		}
		if err := s.skip(e); err != nil {
			return nil, err
		}
	}
	// A negative bitAt means that the bit field's position is still counted from the top of a word, as in DWARF 2 and 3
	// (readMember). The entry did not give the size of this word, so use the size of the member's type.
	for i := range out {
		if out[i].bitAt >= 0 {
			continue
		}
		info, err := s.typeAt(out[i].kind, 0)
		if err != nil {
			return nil, err
		}
		out[i].fromTop(info.size)
	}
	return out, nil
}

// readMember reads the position of a struct member. In DWARF 2 and 3, DW_AT_bit_offset counts the position of a bit
// field from the most significant bit of its word. If the entry does not give the size of the word, bitAt is negative
// until fromTop corrects it.
func readMember(e *dwarf.Entry) (member, bool) {
	var m member
	m.name = nameOf(e)
	kind, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return m, false
	}
	m.kind = kind
	switch loc := e.Val(dwarf.AttrDataMemberLoc).(type) {
	case nil: // a member of a union, or a bit field, has no such attribute
	case int64:
		if loc < 0 || loc > maxStruct {
			return m, false
		}
		m.offset = int(loc)
	case []byte:
		if m.offset, ok = plusConst(loc); !ok {
			return m, false
		}
	default:
		return m, false
	}
	bits, ok := e.Val(dwarf.AttrBitSize).(int64)
	if !ok {
		return m, true
	}
	if bits < 0 || bits > 64 {
		return m, false
	}
	m.bits = int(bits)
	if at, ok := e.Val(dwarf.AttrDataBitOffset).(int64); ok {
		m.bitAt = int(at)
		return m, at >= 0 && at <= 8*maxStruct
	}
	top, ok := e.Val(dwarf.AttrBitOffset).(int64)
	if !ok {
		m.bitAt = 8 * m.offset
		return m, true
	}
	if top < 0 || top > 64 {
		return m, false
	}
	m.bitAt = -1 - int(top)
	if size, ok := e.Val(dwarf.AttrByteSize).(int64); ok && size > 0 && size <= 8 {
		m.fromTop(int(size))
		return m, m.bitAt >= 0
	}
	return m, true
}

// fromTop corrects a negative bitAt. As in DWARF 2 and 3, such a bitAt counts from the top of a word of size bytes.
// Afterwards bitAt counts from the start of the struct. The machine is little-endian.
func (m *member) fromTop(size int) {
	top := -1 - m.bitAt
	m.bitAt = max(0, 8*m.offset+8*size-top-m.bits)
}

// plusConst reads the place of a struct member from the DWARF expression DW_OP_plus_uconst N (0x23). Compilers write no
// other expression for a member's place.
func plusConst(b []byte) (int, bool) {
	const opPlusConst = 0x23
	if len(b) < 2 || b[0] != opPlusConst {
		return 0, false
	}
	n := 0
	for i, c := range b[1:] {
		if i >= 3 {
			return 0, false
		}
		n |= int(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return n, i == len(b)-2
		}
	}
	return 0, false
}

func (s *scan) typeAt(at dwarf.Offset, depth int) (typeInfo, error) {
	if info, ok := s.types[at]; ok {
		return info, nil
	}
	if depth > maxTypeDepth {
		return typeInfo{}, fmt.Errorf("%w: types that refer to each other without end", errNoDebugInfo)
	}
	s.reader.Seek(at)
	e, err := s.next()
	if err != nil {
		return typeInfo{}, err
	}
	if e == nil {
		return typeInfo{}, fmt.Errorf("%w: a type beyond its end", errNoDebugInfo)
	}
	info := typeInfo{at: at}
	if size, ok := e.Val(dwarf.AttrByteSize).(int64); ok {
		if size < 0 || size > maxStruct {
			return typeInfo{}, fmt.Errorf("%w: a type of %d bytes", errNoDebugInfo, size)
		}
		info.size = int(size)
	}
	inner, refers := e.Val(dwarf.AttrType).(dwarf.Offset)
	switch e.Tag {
	case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagClassType:
		declared, _ := e.Val(dwarf.AttrDeclaration).(bool)
		info.members = !declared
	case dwarf.TagPointerType, dwarf.TagReferenceType:
		if info.size == 0 {
			info.size = s.reader.AddressSize()
		}
	case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagAtomicType:
		if refers {
			if info, err = s.typeAt(inner, depth+1); err != nil {
				return typeInfo{}, err
			}
		}
	case dwarf.TagArrayType:
		count, err := s.arrayLength(e)
		if err != nil {
			return typeInfo{}, err
		}
		if !refers || info.size != 0 {
			break
		}
		element, err := s.typeAt(inner, depth+1)
		if err != nil {
			return typeInfo{}, err
		}
		if count > 0 && element.size > maxStruct/count {
			return typeInfo{}, fmt.Errorf("%w: an array of %d times %d bytes", errNoDebugInfo, count, element.size)
		}
		info.size = count * element.size
	}
	if len(s.types) >= maxTypes {
		return typeInfo{}, fmt.Errorf("%w: more than %d types", errNoDebugInfo, maxTypes)
	}
	s.types[at] = info
	return info, nil
}

// arrayLength multiplies the lengths of an array's dimensions. The caller has already read the array's own entry. The
// result is zero for an array without a length, such as "char x[]".
func (s *scan) arrayLength(array *dwarf.Entry) (int, error) {
	if !array.Children {
		return 0, nil
	}
	count := 1
	for range maxTypeDepth {
		e, err := s.next()
		if err != nil {
			return 0, err
		}
		if e == nil || e.Tag == 0 {
			return count, nil
		}
		n := int64(0)
		if v, ok := e.Val(dwarf.AttrCount).(int64); ok {
			n = v
		} else if v, ok := e.Val(dwarf.AttrUpperBound).(int64); ok {
			n = v + 1
		}
		if n < 0 || n > maxStruct {
			n = 0 // old compilers give "char x[]" the bound -1
		}
		if n > 0 && count > maxStruct/int(n) {
			return 0, fmt.Errorf("%w: an array of more than %d elements", errNoDebugInfo, maxStruct)
		}
		count *= int(n)
		if err := s.skip(e); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: an array of more than %d dimensions", errNoDebugInfo, maxTypeDepth)
}
