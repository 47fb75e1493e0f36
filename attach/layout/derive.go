package layout

import (
	"context"
	"debug/dwarf"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// ErrIncomplete is returned if the debug information lacks a struct that every CRuby has.
var ErrIncomplete = errors.New("the debug information does not belong to a Ruby VM")

// rubySources are the C source files whose structs a table needs. They include other files, such as vm_insnhelper.c,
// thread_pthread.c and thread_sync.c, whose structs belong to the same translation unit. Derive reads the units of
// other source files only if a struct is still missing after it has read these.
var rubySources = fileSet(`vm.c thread.c cont.c ractor.c gc.c default.c symbol.c iseq.c class.c shape.c variable.c proc.c
	io.c hash.c st.c encoding.c string.c object.c struct.c imemo.c id_table.c set.c concurrent_set.c box.c namespace.c
	process.c vm_backtrace.c eval.c array.c`)

// elsewhere are structs that are not in the debug information of Ruby's library. One is the struct of monitor.so, which
// is another library. The others are the allocator's caches, which ddtop's developers have described by hand. Derive
// copies all of them from the table of the nearest known release.
var elsewhere = []string{"rb_monitor", "ractor_newobj_cache", "ractor_newobj_heap_cache"}

// essential are the structs without which ddtop cannot read a process. If one is missing, Derive fails.
var essential = []string{"rb_vm_struct", "rb_thread_struct", "rb_execution_context_struct", "rb_control_frame_struct",
	"rb_iseq_constant_body", "RClass"}

// DeriveOptions describe the target of a derived table.
type DeriveOptions struct {
	// Release is the text of ruby_version, for example "4.1.0". Machine is "x86_64" or "aarch64".
	Release, Machine string
	// Base is the table of the known release that is nearest to Release (see Nearest). It supplies what the debug
	// information does not have: macros, and structs of other files. If Base is nil or for another machine, the result
	// lacks these macros and structs.
	Base *Table
	// Progress is called now and then with the number of units that are done. It may be nil.
	Progress func(done, total int)
}

// Derived is a table made from debug information.
type Derived struct {
	Table *Table
	// Borrowed lists the names of the constants and structs that were copied from Base, sorted. A copied value is wrong
	// if the target's release of Ruby has another value.
	Borrowed []string
	// Units is the number of translation units that were read. Total is the number in the file.
	Units, Total int
}

// Derive makes a table from the debug information of a libruby or a static ruby. The error is ErrIncomplete if
// essential structs are missing. If the context ends first, Derive returns the context's error.
func Derive(ctx context.Context, info *DebugInfo, o DeriveOptions) (*Derived, error) {
	known, err := knownNames()
	if err != nil {
		return nil, err
	}
	return derive(ctx, info, known, o)
}

func derive(ctx context.Context, info *DebugInfo, known *names, o DeriveOptions) (*Derived, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDebugTime, errTooLong)
	defer cancel()
	s := &scan{ctx: ctx, known: known, reader: info.data.Reader(), types: make(map[dwarf.Offset]typeInfo),
		structs: make(map[string]dwarf.Offset), aliases: make(map[string]dwarf.Offset), constants: make(map[string]int64)}
	units, err := s.units(info.units)
	if err != nil {
		return nil, err
	}
	d := &Derived{Total: len(units)}
	if err := s.visit(units, d, o); err != nil {
		return nil, err
	}
	t := &Table{Name: strings.TrimSpace(o.Release+" "+o.Machine) + ", from debug information", AppliesTo: []string{o.Release},
		Machine: o.Machine, fields: make(map[string]Field, 200), sizes: make(map[string]int, 40), constants: s.constants}
	for name, at := range s.aliases {
		to := sameAs[name]
		if _, both := s.structs[to]; !both {
			s.structs[to] = at
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.structs)) {
		if err := s.addStruct(t, name, s.structs[name]); err != nil {
			return nil, fmt.Errorf("struct %s: %w", name, err)
		}
	}
	var missing []string
	for _, name := range essential {
		if !t.hasStruct(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: it lacks %s", ErrIncomplete, strings.Join(missing, ", "))
	}
	// The size of this field shows how this Ruby saves registers. The jmp_buf of a C library has 25 or more words. A
	// smaller field belongs to __builtin_setjmp, which needs only five.
	buf, ok := t.Field(jmpBufField)
	t.JmpBuf = ok && buf.Size > 5*8
	d.Table = t
	d.borrow(o.Base)
	return d, nil
}

// borrow copies from base what the debug information lacks: constants, and the structs in elsewhere. It does nothing
// if base is for another machine.
func (d *Derived) borrow(base *Table) {
	if base == nil || base.Machine != d.Table.Machine {
		return
	}
	for name, v := range base.constants {
		if _, ok := d.Table.constants[name]; !ok {
			d.Table.constants[name] = v
			d.Borrowed = append(d.Borrowed, name)
		}
	}
	for _, name := range elsewhere {
		size, ok := base.sizes[name]
		if !ok || d.Table.hasStruct(name) {
			continue
		}
		d.Table.sizes[name] = size
		for path, f := range base.fields {
			if strings.HasPrefix(path, name+".") {
				d.Table.fields[path] = f
			}
		}
		d.Borrowed = append(d.Borrowed, name)
	}
	slices.Sort(d.Borrowed)
}

// unit is one translation unit. name is empty if the unit is not in rubySources.
type unit struct {
	at   dwarf.Offset
	name string
}

// scan reads the debug information of one file.
type scan struct {
	ctx    context.Context
	known  *names
	reader *dwarf.Reader
	// entries is the number of entries read so far, limited by maxDebugEntries. lookedAt is the number of struct
	// members examined so far, limited by maxLookedAt.
	entries, lookedAt int
	types             map[dwarf.Offset]typeInfo
	// structs maps the tag or typedef of each struct definition to its offset in the debug information. aliases has the
	// same for structs that tables list under another name (see sameAs).
	structs, aliases map[string]dwarf.Offset
	constants        map[string]int64
}

// next reads the next entry and counts it. It fails if there are more than maxDebugEntries. This limit also bounds the
// memory, because an entry has at most maxAttributes attributes. An attribute whose value is outside the unit, such as
// a long string, has at most maxDebugString bytes.
func (s *scan) next() (*dwarf.Entry, error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if s.entries++; s.entries > maxDebugEntries {
		return nil, fmt.Errorf("%w: more than %d entries", errNoDebugInfo, maxDebugEntries)
	}
	e, err := s.reader.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDebugInfo, err)
	}
	return e, nil
}

// skip moves to the entry after the children of e. It replaces Reader.SkipChildren of debug/dwarf, whose recursion has
// no limit.
func (s *scan) skip(e *dwarf.Entry) error {
	if !e.Children {
		return nil
	}
	if next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset); ok && next > e.Offset {
		s.reader.Seek(next)
		return nil
	}
	for depth := 1; depth > 0; {
		e, err := s.next()
		switch {
		case err != nil:
			return err
		case e == nil:
			return nil
		case e.Tag == 0:
			depth--
		case e.Children:
			depth++
		}
	}
	return nil
}

// units returns the units that begin at the given offsets, with their names.
func (s *scan) units(at []dwarf.Offset) ([]unit, error) {
	out := make([]unit, 0, len(at))
	for _, first := range at {
		s.reader.Seek(first)
		e, err := s.next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag != dwarf.TagCompileUnit && e.Tag != dwarf.TagPartialUnit {
			continue
		}
		u := unit{at: e.Offset}
		name, _ := e.Val(dwarf.AttrName).(string)
		if name = path.Base(name); rubySources[name] {
			u.name = strings.Clone(name)
		}
		out = append(out, u)
	}
	return out, nil
}

// visit reads the units that define Ruby's structs (rubySources). It reads the other units only if a struct of the base
// table, or an essential struct, is still missing.
func (s *scan) visit(units []unit, d *Derived, o DeriveOptions) error {
	done := 0
	for _, first := range []bool{true, false} {
		if !first && s.complete(o.Base) {
			return nil
		}
		for _, u := range units {
			if (u.name != "") != first {
				continue
			}
			if err := s.unit(u.at); err != nil {
				return err
			}
			d.Units++
			if done++; o.Progress != nil {
				o.Progress(done, len(units))
			}
		}
	}
	return nil
}

// complete reports whether the scan has found the essential structs and the structs of the base table.
func (s *scan) complete(base *Table) bool {
	want := slices.Clone(essential)
	if base != nil {
		want = slices.AppendSeq(want, maps.Keys(base.sizes))
	}
	for _, name := range want {
		if _, ok := s.structs[name]; !ok && !slices.Contains(elsewhere, name) && !s.hasAlias(name) {
			return false
		}
	}
	return true
}

func (s *scan) hasAlias(name string) bool {
	for alias := range s.aliases {
		if sameAs[alias] == name {
			return true
		}
	}
	return false
}

// unit records the structs and constants with known names that one unit defines. It keeps the first definition of a
// name, because all C units of a program share the same definition.
func (s *scan) unit(at dwarf.Offset) error {
	s.reader.Seek(at)
	if _, err := s.next(); err != nil {
		return err
	}
	type named struct {
		name   string
		target dwarf.Offset
	}
	var typedefs []named
	for {
		e, err := s.next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag == 0 || e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagPartialUnit {
			break
		}
		name := nameOf(e)
		switch e.Tag {
		case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagClassType:
			if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); !declared {
				s.note(name, e.Offset)
			}
		case dwarf.TagTypedef:
			if _, ok := s.known.structName(name); ok {
				if target, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
					if len(typedefs) >= maxTypedefs {
						return fmt.Errorf("%w: more than %d typedefs of a unit", errNoDebugInfo, maxTypedefs)
					}
					typedefs = append(typedefs, named{name, target})
				}
			}
		case dwarf.TagEnumerationType:
			if e.Children {
				if err := s.enumerators(); err != nil {
					return err
				}
				continue
			}
		}
		if err := s.skip(e); err != nil {
			return err
		}
	}
	for _, n := range typedefs {
		info, err := s.typeAt(n.target, 0)
		if err != nil {
			return err
		}
		if info.members {
			s.note(n.name, info.at)
		}
	}
	return nil
}

func (s *scan) note(name string, at dwarf.Offset) {
	if _, ok := s.known.structName(name); !ok {
		return
	}
	into := s.structs
	if sameAs[name] != "" {
		into = s.aliases
	}
	if _, ok := into[name]; !ok {
		into[name] = at
	}
}

// enumerators reads the members of an enum up to the enum's end.
func (s *scan) enumerators() error {
	for {
		e, err := s.next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag == 0 {
			return nil
		}
		if name := nameOf(e); e.Tag == dwarf.TagEnumerator && s.known.constants[name] {
			if v, ok := e.Val(dwarf.AttrConstValue).(int64); ok {
				if _, known := s.constants[name]; !known {
					s.constants[name] = v
				}
			}
		}
		if err := s.skip(e); err != nil {
			return err
		}
	}
}

// nameOf returns an entry's name. It cuts names that are longer than any name in a table.
func nameOf(e *dwarf.Entry) string {
	name, _ := e.Val(dwarf.AttrName).(string)
	if len(name) > maxDebugName {
		name = strings.Clone(name[:maxDebugName])
	}
	return name
}

func fileSet(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}
