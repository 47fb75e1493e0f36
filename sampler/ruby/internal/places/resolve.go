package places

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/ddtop/ddtop/attach/layout"
)

// layoutTag is the key of the tags that say how a struct's field is filled from a layout table. The tags use Ruby's
// own names and have these forms:
//
//	rb_thread_struct.ec                     a field: an int is its offset in bytes, a layout.Field its whole place
//	sizeof rb_shape                         the size of a struct in bytes, of type int
//	tLAST_OP_ID                             a constant, of type uint64
//	rb_thread_struct.lt_node|vmlt_node      the first of these fields that the release has, or of these structs
//	rb_vm_struct.ractor.set,from=3.0        only of that release and later ones
//	rb_vm_struct.gvl,before=3.0             only of earlier ones
//	rb_thread_struct.nt,optional            a release may lack it
//
// An offset or size that a release does not have is -1.
const layoutTag = "layout"

// Place is a parsed tag. It says where Ruby keeps one value.
type Place struct {
	Tag string
	// Structs and Fields are names. Each name in Structs is combined with each name in Fields, until the table has the
	// combination. If Fields is empty, Structs has the name of a size or a constant.
	Structs, Fields []string
	size, optional  bool
	// from is the first release that has the field. before is the first later release that lacks the field. nil means
	// that there is no such release.
	from, before *Release
}

// Parse parses a tag. The error says what is wrong with the tag.
func Parse(tag string) (Place, error) {
	p := Place{Tag: tag}
	name, options, _ := strings.Cut(tag, ",")
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		var err error
		switch key {
		case "":
		case "optional":
			p.optional = true
		case "from":
			p.from, err = parseSeries(value)
		case "before":
			p.before, err = parseSeries(value)
		default:
			err = fmt.Errorf("unknown option %q", key)
		}
		if err != nil {
			return p, fmt.Errorf("layout tag %q: %w", tag, err)
		}
	}
	name, p.size = strings.CutPrefix(name, "sizeof ")
	structs, fields, isField := strings.Cut(name, ".")
	p.Structs = strings.Split(structs, "|")
	if isField {
		p.Fields = strings.Split(fields, "|")
	}
	if name == "" || p.size && isField {
		return p, fmt.Errorf("layout tag %q names nothing", tag)
	}
	return p, nil
}

// parseSeries parses major.minor.
func parseSeries(s string) (*Release, error) {
	r, err := ParseRelease(s + ".0")
	return &r, err
}

// Of reports whether a release can have the place, because the release is within the limits of the tag.
func (p *Place) Of(r Release) bool {
	return (p.from == nil || r.AtLeast(p.from.Major, p.from.Minor)) &&
		(p.before == nil || !r.AtLeast(p.before.Major, p.before.Minor))
}

// names calls f with each name that the place can have in a table, until f returns true.
func (p *Place) names(f func(name string) bool) bool {
	for _, s := range p.Structs {
		if p.Fields == nil && f(s) {
			return true
		}
		for _, field := range p.Fields {
			if f(s + "." + field) {
				return true
			}
		}
	}
	return false
}

// Field finds the place in a table. The Offset of the result is -1 if the table lacks the field, or if the release
// cannot have it.
func (p *Place) Field(t *layout.Table, rel Release) layout.Field {
	found := layout.Field{Offset: -1}
	if p.Of(rel) {
		p.names(func(name string) bool {
			f, ok := t.Field(name)
			if ok {
				found = f
			}
			return ok
		})
	}
	return found
}

// Resolve sets all fields with a layout tag in the structs that into points to, from a release's table. Its error
// names the table, the release and everything that the table lacks.
func Resolve(t *layout.Table, rel Release, into ...any) error {
	var lacks []string
	for v, tag := range Tagged(into...) {
		p, err := Parse(tag)
		if err != nil {
			return err
		}
		found := false
		// Use reflect.NewAt, because otherwise reflect cannot set private fields.
		switch to := reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Interface().(type) {
		case *int:
			*to = -1
			if p.size && p.Of(rel) {
				found = p.names(func(name string) bool { *to = t.Size(name); return *to > 0 })
			} else if !p.size {
				*to = p.Field(t, rel).Offset
				found = *to >= 0
			}
		case *layout.Field:
			*to = p.Field(t, rel)
			found = to.Known()
		case *uint64:
			if c, ok := t.Constant(p.Structs[0]); ok && p.Of(rel) {
				*to, found = uint64(c), true
			}
		default:
			return fmt.Errorf("layout tag %q: nothing can be resolved into a field of type %s", tag, v.Type())
		}
		if !found && !p.optional && p.Of(rel) {
			name, _, _ := strings.Cut(tag, ",")
			lacks = append(lacks, strings.ReplaceAll(name, "|", " or "))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the layout %q of Ruby %s lacks %s", t.Name, rel, strings.Join(lacks, ", "))
	}
	return nil
}

// Tagged yields each field that has a layout tag, together with the tag. into points to the structs with these fields.
// Embedded structs are included.
func Tagged(into ...any) func(yield func(reflect.Value, string) bool) {
	return func(yield func(reflect.Value, string) bool) {
		for _, to := range into {
			s := reflect.ValueOf(to).Elem()
			for _, f := range reflect.VisibleFields(s.Type()) {
				if tag, ok := f.Tag.Lookup(layoutTag); ok && !yield(s.FieldByIndex(f.Index), tag) {
					return
				}
			}
		}
	}
}
