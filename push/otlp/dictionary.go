package otlp

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/push/protobuf"
)

// table is one of the lists in OTLP's ProfilesDictionary. Other messages refer to an entry of the list by its index.
// The index 0 stands for "no entry".
type table struct {
	list [][]byte
	ids  map[string]int32
}

func newTable(none []byte) *table {
	return &table{list: [][]byte{none}, ids: map[string]int32{string(none): 0}}
}

func (t *table) index(message []byte) int32 {
	if id, ok := t.ids[string(message)]; ok {
		return id
	}
	id := int32(len(t.list))
	t.list = append(t.list, message)
	t.ids[string(message)] = id
	return id
}

// dictionary collects the tables of a ProfilesDictionary.
type dictionary struct {
	mappings, locations, functions, links, strings, attributes, stacks *table

	// The maps location, function and mapping have the indexes of entries in the dictionary's tables. Their keys are
	// the IDs in the pprof profile.
	location map[uint64]int32
	function map[uint64]int32
	mapping  map[uint64]int32
	// rubyFrame is a list of attributes that every location gets. They say that the location is a frame of Ruby code.
	rubyFrame []int32
}

// These are numbers of fields in messages of opentelemetry.proto.profiles.v1development and common.v1. Each name
// consists of the message and the field.
const (
	dictMappings   protobuf.Field = 1
	dictLocations  protobuf.Field = 2
	dictFunctions  protobuf.Field = 3
	dictLinks      protobuf.Field = 4
	dictStrings    protobuf.Field = 5
	dictAttributes protobuf.Field = 6
	dictStacks     protobuf.Field = 7

	mappingFilename protobuf.Field = 4

	stackLocations protobuf.Field = 1

	locationMapping    protobuf.Field = 1
	locationLines      protobuf.Field = 3
	locationAttributes protobuf.Field = 4

	lineFunction protobuf.Field = 1
	lineLine     protobuf.Field = 2

	functionName       protobuf.Field = 1
	functionSystemName protobuf.Field = 2
	functionFilename   protobuf.Field = 3
	functionStartLine  protobuf.Field = 4

	linkTrace protobuf.Field = 1
	linkSpan  protobuf.Field = 2

	attributeKey   protobuf.Field = 1 // the value is a table index in a KeyValueAndUnit, and text in a KeyValue
	attributeValue protobuf.Field = 2
	anyString      protobuf.Field = 1
	anyInt         protobuf.Field = 3
)

func newDictionary() *dictionary {
	d := &dictionary{
		mappings: newTable(nil), locations: newTable(nil), functions: newTable(nil), strings: newTable(nil), attributes: newTable(nil), stacks: newTable(nil),
		links:    newTable(protobuf.AppendBytes(protobuf.AppendBytes(nil, linkTrace, make([]byte, 16)), linkSpan, make([]byte, 8))),
		location: make(map[uint64]int32), function: make(map[uint64]int32), mapping: make(map[uint64]int32),
	}
	d.rubyFrame = []int32{d.attribute("profile.frame.type", anyText("ruby"))}
	return d
}

// encode returns the encoded ProfilesDictionary.
func (d *dictionary) encode() []byte {
	var b []byte
	for _, t := range []struct {
		field protobuf.Field
		*table
	}{{dictMappings, d.mappings}, {dictLocations, d.locations}, {dictFunctions, d.functions}, {dictLinks, d.links}, {dictStrings, d.strings}, {dictAttributes, d.attributes}, {dictStacks, d.stacks}} {
		for _, message := range t.list {
			b = protobuf.AppendBytes(b, t.field, message)
		}
	}
	return b
}

func (d *dictionary) text(s string) int64 { return int64(d.strings.index([]byte(s))) }

// anyText and anyNumber return an encoded AnyValue.
func anyText(s string) []byte { return protobuf.AppendBytes(nil, anyString, s) }

func anyNumber(n int64) []byte {
	if n == 0 { // zero is written, too: an AnyValue holds one of several fields, and the written field shows which one
		return []byte{byte(anyInt) << 3, 0}
	}
	return protobuf.AppendInt(nil, anyInt, n)
}

func (d *dictionary) attribute(key string, value []byte) int32 {
	return d.attributes.index(protobuf.AppendBytes(protobuf.AppendInt(nil, attributeKey, d.text(key)), attributeValue, value))
}

func (d *dictionary) mappingOf(m *profile.Mapping) int32 {
	if m == nil {
		return 0
	}
	id, ok := d.mapping[m.ID]
	if !ok {
		id = d.mappings.index(protobuf.AppendInt(nil, mappingFilename, d.text(m.File)))
		d.mapping[m.ID] = id
	}
	return id
}

func (d *dictionary) functionOf(f *profile.Function) int32 {
	if f == nil {
		return 0
	}
	id, ok := d.function[f.ID]
	if !ok {
		b := protobuf.AppendInt(nil, functionName, d.text(f.Name))
		b = protobuf.AppendInt(b, functionSystemName, d.text(f.SystemName))
		b = protobuf.AppendInt(b, functionFilename, d.text(f.Filename))
		id = d.functions.index(protobuf.AppendInt(b, functionStartLine, f.StartLine))
		d.function[f.ID] = id
	}
	return id
}

func (d *dictionary) locationOf(l *profile.Location) int32 {
	id, ok := d.location[l.ID]
	if !ok {
		b := protobuf.AppendInt(nil, locationMapping, int64(d.mappingOf(l.Mapping)))
		for _, line := range l.Line {
			b = protobuf.AppendBytes(b, locationLines, protobuf.AppendInt(protobuf.AppendInt(nil, lineFunction, int64(d.functionOf(line.Function))), lineLine, line.Line))
		}
		id = d.locations.index(protobuf.AppendInts(b, locationAttributes, d.rubyFrame))
		d.location[l.ID] = id
	}
	return id
}

func (d *dictionary) stackOf(s *profile.Sample) int32 {
	list := make([]int32, len(s.Location))
	for i, l := range s.Location {
		list[i] = d.locationOf(l)
	}
	return d.stacks.index(protobuf.AppendInts(nil, stackLocations, list))
}

// linkOf returns the index of a sample's link in the dictionary. A link names the span of a distributed trace for which
// the sample's thread worked. The index is zero if there is no span or its trace is unknown.
func (d *dictionary) linkOf(s *profile.Sample) int32 {
	trace, err := hex.DecodeString(first(s.Label["trace id"]))
	span := s.NumLabel["span id"]
	if err != nil || len(trace) != 16 || len(span) == 0 || span[0] == 0 {
		return 0
	}
	id := binary.BigEndian.AppendUint64(nil, uint64(span[0]))
	return d.links.index(protobuf.AppendBytes(protobuf.AppendBytes(nil, linkTrace, trace), linkSpan, id))
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
