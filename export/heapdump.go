package export

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
)

// These limits apply when a heap dump file is read.
const (
	// maxDumpLine limits the length of a line of the file, in bytes. A reference takes 22 bytes of it, so an Array can
	// have three million elements.
	maxDumpLine = 64 << 20
	// maxSuperclasses limits how many singleton classes (hidden classes of single objects) may lie between an object
	// and a class with a name.
	maxSuperclasses = 64
	// dumpNodeBytes and dumpReferenceBytes are the bytes that an object and a reference take in ddtop's memory.
	dumpNodeBytes, dumpReferenceBytes = 200, 32
)

// dumpLine is a line of a heap dump file as ObjectSpace.dump_all writes it (ext/objspace/objspace_dump.c). It has no
// field for an object's value.
type dumpLine struct {
	Address    string          `json:"address,omitempty"`
	Type       string          `json:"type"`
	Root       string          `json:"root,omitempty"`
	SlotSize   uint32          `json:"slot_size,omitempty"`
	Class      string          `json:"class,omitempty"`
	Name       string          `json:"name,omitempty"`
	Singleton  bool            `json:"singleton,omitempty"`
	Superclass string          `json:"superclass,omitempty"`
	Frozen     bool            `json:"frozen,omitempty"`
	Embedded   bool            `json:"embedded,omitempty"`
	ByteSize   *uint64         `json:"bytesize,omitempty"`
	Length     *uint64         `json:"length,omitempty"`
	Size       *uint64         `json:"size,omitempty"`
	References []string        `json:"references,omitempty"`
	MemSize    uint64          `json:"memsize,omitempty"`
	Flags      map[string]bool `json:"flags,omitempty"`
}

func addressText(addr uint64) string { return "0x" + strconv.FormatUint(addr, 16) }

func addressOf(text string) (addr uint64, ok bool) {
	digits, ok := strings.CutPrefix(text, "0x")
	addr, err := strconv.ParseUint(digits, 16, 64)
	return addr, ok && err == nil && addr != 0
}

// lengthOf returns a pointer to the field of l with the length of an object of type typ. It returns nil for types
// without a length.
func (l *dumpLine) lengthOf(typ string) **uint64 {
	switch typ {
	case heapgraph.TypeString:
		return &l.ByteSize
	case heapgraph.TypeArray:
		return &l.Length
	case heapgraph.TypeHash:
		return &l.Size
	}
	return nil
}

// WriteHeapDump writes a heap as ObjectSpace.dump_all does: first lines for the roots, then a line of JSON for each
// object. g.Facts must be filled, because the lines contain these facts.
func WriteHeapDump(w io.Writer, g *heapgraph.Graph) error {
	out := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for i := 0; i < len(g.Roots); {
		l := dumpLine{Type: "ROOT", Root: g.Roots[i].Name}
		if l.Root == "" {
			l.Root = "constants"
		}
		for name := g.Roots[i].Name; i < len(g.Roots) && g.Roots[i].Name == name; i++ {
			l.References = append(l.References, addressText(g.Nodes[g.Roots[i].Node].Addr))
		}
		if err := enc.Encode(&l); err != nil {
			return err
		}
	}
	supers := superclasses(g)
	for i := range g.Nodes {
		n, typ := &g.Nodes[i], g.Type(uint32(i))
		if n.Type == 0 {
			continue
		}
		f := &g.Facts[i]
		l := dumpLine{Address: addressText(n.Addr), Type: strings.TrimPrefix(typ, "T_"), SlotSize: f.SlotSize,
			Frozen: f.Frozen, Embedded: f.Embedded, MemSize: n.Size}
		if f.Class != 0 {
			l.Class = addressText(f.Class)
		}
		if f.Old {
			l.Flags = map[string]bool{"old": true}
		}
		if to := l.lengthOf(typ); to != nil {
			*to = &n.Length
		}
		if typ == heapgraph.TypeClass || typ == heapgraph.TypeModule {
			switch name := g.ClassName(uint32(i)); {
			case strings.HasPrefix(name, "#<Class:"):
				l.Singleton = true
			case !strings.HasPrefix(name, "("):
				l.Name = name
			}
			if s := supers[n.Addr]; s != 0 {
				l.Singleton, l.Superclass = true, addressText(s)
			}
		}
		to, _ := g.References(uint32(i))
		for _, t := range to {
			if addr := g.Nodes[t].Addr; addr != f.Class {
				l.References = append(l.References, addressText(addr))
			}
		}
		if err := enc.Encode(&l); err != nil {
			return err
		}
	}
	return out.Flush()
}

// superclasses maps the address of each singleton class (the hidden class of a single object) to the address of the
// object's real class.
func superclasses(g *heapgraph.Graph) map[uint64]uint64 {
	named, names := make(map[uint32]uint64), make(map[uint64]uint32)
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Type != 0 && g.Type(uint32(i)) == heapgraph.TypeClass {
			named[n.Class], names[n.Addr] = n.Addr, n.Class
		}
	}
	out := make(map[uint64]uint64)
	for i := range g.Nodes {
		n, typ := &g.Nodes[i], g.Type(uint32(i))
		if n.Type == 0 || typ == heapgraph.TypeClass || typ == heapgraph.TypeModule || typ == heapgraph.TypeImemo ||
			typ == heapgraph.TypeIClass {
			continue
		}
		class := g.Facts[i].Class
		if own, ok := names[class]; ok && own != n.Class && named[n.Class] != 0 {
			out[class] = named[n.Class]
		}
	}
	return out
}

// dumpReader reads a heap dump file.
type dumpReader struct {
	g          *heapgraph.Graph
	byAddress  map[uint64]uint32
	from       []uint32
	to         []uint64
	roots      []dumpRoot
	superclass map[uint64]uint64
	names      map[uint64]string
	left       uint64
}

type dumpRoot struct {
	name string
	to   uint64
}

// ReadHeapDump reads a file that WriteHeapDump or ObjectSpace.dump_all wrote. Errors contain the file's name (name) and
// the number of the line. o.MaxObjects limits the number of objects, and o.MaxBytes the memory that ddtop uses for
// them.
func ReadHeapDump(r io.Reader, name string, o sampler.HolderOptions) (*heapgraph.Graph, error) {
	d := &dumpReader{g: heapgraph.New(), byAddress: make(map[uint64]uint32), superclass: make(map[uint64]uint64),
		names: make(map[uint64]string), left: o.MaxBytes}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxDumpLine)
	at := 0
	for lines.Scan() {
		at++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := d.line(lines.Bytes(), o.MaxObjects); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, at, err)
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("it has more than %d MB", maxDumpLine>>20)
		}
		return nil, fmt.Errorf("%s, line %d: %w", name, at+1, err)
	}
	if len(d.g.Nodes) == 0 {
		return nil, fmt.Errorf("%s has no objects. ddtop reads files of ddtop heap -o and of ObjectSpace.dump_all", name)
	}
	d.finish()
	return d.g, nil
}

func (d *dumpReader) line(text []byte, most uint64) error {
	var l dumpLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("this is no line of ObjectSpace.dump_all: %w", err)
	}
	if l.Type == "SHAPE" { // Ruby 3.3 and later also write a line for each shape
		return nil
	}
	cost := uint64(dumpNodeBytes + dumpReferenceBytes*len(l.References))
	if cost > d.left {
		return errors.New("the heap needs more memory. Give a higher limit with --max-memory")
	}
	d.left -= cost
	refs := make([]uint64, len(l.References))
	for i, text := range l.References {
		addr, ok := addressOf(text)
		if !ok {
			return fmt.Errorf("%.40q is no address", text)
		}
		refs[i] = addr
	}
	if l.Type == "ROOT" {
		for _, to := range refs {
			d.roots = append(d.roots, dumpRoot{l.Root, to})
		}
		return nil
	}
	addr, ok := addressOf(l.Address)
	switch _, twice := d.byAddress[addr]; {
	case !ok:
		return fmt.Errorf("%.40q is no address", l.Address)
	case twice:
		return fmt.Errorf("%s is there twice", l.Address)
	case uint64(len(d.g.Nodes)) >= most:
		return fmt.Errorf("the heap has more than %d objects. Give a higher limit with --max-objects", most)
	case l.Type == "" || len(l.Type) > 40 || l.MemSize > 1<<48:
		return fmt.Errorf("the object at %s has the type %.40q and %d bytes", l.Address, l.Type, l.MemSize)
	}
	typ := "T_" + l.Type
	if l.Type == sampler.AllocUnknown {
		typ = l.Type
	}
	node := heapgraph.Node{Addr: addr, Size: l.MemSize, Type: d.g.Name(typ)}
	if length := l.lengthOf(typ); length != nil && *length != nil {
		node.Length = **length
	}
	class, _ := addressOf(l.Class)
	if super, ok := addressOf(l.Superclass); ok && (l.Singleton || l.Name == "") {
		d.superclass[addr] = super
	}
	if l.Name != "" {
		d.names[addr] = sampler.CutName(l.Name)
	}
	n := uint32(len(d.g.Nodes))
	d.byAddress[addr] = n
	d.g.Nodes = append(d.g.Nodes, node)
	d.g.Facts = append(d.g.Facts, heapgraph.Fact{Class: class, SlotSize: l.SlotSize, Old: l.Flags["old"],
		Frozen: l.Frozen, Embedded: l.Embedded})
	for _, to := range refs {
		d.from, d.to = append(d.from, n), append(d.to, to)
	}
	if class != 0 && typ != heapgraph.TypeImemo {
		d.from, d.to = append(d.from, n), append(d.to, class)
	}
	return nil
}

// finish is called after the last line of the file. It names the classes of all objects, and turns addresses into
// references.
func (d *dumpReader) finish() {
	g := d.g
	known := make(map[uint64]uint32)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		addr := g.Facts[i].Class
		switch typ := g.Type(uint32(i)); {
		case typ == heapgraph.TypeClass || typ == heapgraph.TypeModule:
			addr = n.Addr
		case typ == heapgraph.TypeImemo || typ == heapgraph.TypeIClass || typ == "T_NODE":
			n.Class = g.Name(sampler.AllocInternal)
			continue
		case addr == 0:
			n.Class = g.Name(sampler.AllocHidden)
			continue
		}
		name, ok := known[addr]
		if !ok {
			name = g.Name(d.className(addr))
			known[addr] = name
		}
		n.Class = name
	}
	for i, to := range d.to {
		if n, ok := d.byAddress[to]; ok && n != d.from[i] {
			g.Edge(d.from[i], n, 0)
		}
	}
	for _, r := range d.roots {
		if n, ok := d.byAddress[r.to]; ok {
			g.Root(r.name, n)
		}
	}
	g.Finish()
}

// className returns the name of the class at addr. It follows singleton classes to the first class with a name.
func (d *dumpReader) className(addr uint64) string {
	for range maxSuperclasses {
		if name := d.names[addr]; name != "" {
			return name
		}
		if _, ok := d.byAddress[addr]; !ok {
			return sampler.AllocUnknown
		}
		super := d.superclass[addr]
		if super == 0 {
			break
		}
		addr = super
	}
	return sampler.AllocAnonymous
}

// CountGraph counts the objects of a heap by type and class.
func CountGraph(g *heapgraph.Graph) *sampler.HeapCount {
	c := new(sampler.HeapCount)
	types, classes := make(map[string]*sampler.HeapKind), make(map[string]*sampler.HeapKind)
	add := func(to map[string]*sampler.HeapKind, name string, k *sampler.HeapKind) {
		if to[name] == nil {
			to[name] = &sampler.HeapKind{Name: name}
		}
		to[name].Add(k)
	}
	for i := range g.Nodes {
		n, f := &g.Nodes[i], &g.Facts[i]
		if n.Type == 0 {
			continue
		}
		c.Objects++
		slot := min(uint64(f.SlotSize), n.Size)
		k := sampler.HeapKind{Objects: 1, SlotBytes: slot, OtherBytes: n.Size - slot}
		if f.Old {
			k.Old = 1
		}
		typ, class := g.Type(uint32(i)), g.ClassName(uint32(i))
		switch typ {
		case heapgraph.TypeClass:
			class = "Class"
		case heapgraph.TypeModule:
			class = "Module"
		}
		add(types, typ, &k)
		add(classes, class, &k)
	}
	list := func(of map[string]*sampler.HeapKind) (out []sampler.HeapKind) {
		for _, k := range of {
			out = append(out, *k)
		}
		sampler.SortHeapKinds(out)
		return out
	}
	c.Types, c.Classes = list(types), list(classes)
	return c
}

// NewHeapOfFile makes a Heap from a heap dump file that ReadHeapDump has read.
func NewHeapOfFile(file string, g *heapgraph.Graph) *Heap {
	h := NewHeap(sampler.Process{}, CountGraph(g), nil)
	h.File, h.Time = &file, ""
	return h
}

// NewHeapGraphOfFile makes a HeapGraph from a heap dump file that ReadHeapDump has read.
func NewHeapGraphOfFile(file string, g *heapgraph.Graph) *HeapGraph {
	info := &sampler.HolderInfo{Objects: uint64(len(g.Nodes)), References: uint64(g.EdgeCount())}
	h := NewHeapGraph(sampler.Process{}, g, info)
	h.File, h.Time = &file, ""
	return h
}

// HeapDiff is the difference between two heap dump files. It can be written as text and as JSON.
type HeapDiff struct{ report.HeapDiff }

// NewHeapDiff compares two heaps by class. The class that grew most comes first.
func NewHeapDiff(from, to string, a, b *heapgraph.Graph) *HeapDiff {
	h := &HeapDiff{report.HeapDiff{From: from, To: to, Classes: []report.HeapChange{}}}
	changes := make(map[string]*report.HeapChange)
	of := func(name string) *report.HeapChange {
		if changes[name] == nil {
			changes[name] = &report.HeapChange{Name: name}
		}
		return changes[name]
	}
	for _, k := range CountGraph(a).Classes {
		c := of(k.Name)
		c.ObjectsBefore, c.BytesBefore = k.Objects, k.Bytes()
	}
	for _, k := range CountGraph(b).Classes {
		c := of(k.Name)
		c.Objects, c.Bytes = k.Objects, k.Bytes()
	}
	for _, c := range changes {
		h.Classes = append(h.Classes, *c)
	}
	sorting.By(h.Classes, func(x, y report.HeapChange) int {
		return cmp.Or(cmp.Compare(y.Grown(), x.Grown()), cmp.Compare(x.Name, y.Name))
	})
	return h
}

// WriteJSON writes the difference in the documented form (docs/reference/json.md).
func (h *HeapDiff) WriteJSON(w io.Writer) error { return WriteJSON(w, &h.HeapDiff) }

// WriteText writes which classes grew, for people. Control characters in names are replaced.
func (h *HeapDiff) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "What grew from %s to %s:\n", flamegraph.Printable(h.From), flamegraph.Printable(h.To))
	rows := [][]string{{"class", "before", "after", "grown"}}
	for _, c := range h.Classes {
		if c.Grown() <= 0 || len(rows) > maxHeapClasses {
			break
		}
		rows = append(rows, []string{flamegraph.Printable(c.Name), units.Count(int64(c.ObjectsBefore)), units.Count(int64(c.Objects)), units.FineBytes(c.Grown())})
	}
	if len(rows) == 1 {
		b.WriteString("No class has more bytes.\n")
	} else {
		writeTable(&b, rows)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
