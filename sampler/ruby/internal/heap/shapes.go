package heap

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxShapes limits how many shapes are followed from one object. An object has a chain of shapes, with one shape
	// for each instance variable.
	maxShapes = 1 << 14
	// maxKeptShapes bounds how many shapes are cached.
	maxKeptShapes = 1 << 14
	// shapeIvar is the type of a shape that adds an instance variable. shapeRoot is the type of the first shape, which
	// adds no variable.
	shapeRoot, shapeIvar = 0, 1
	// noShape is the number that the first shape has in place of its parent's number (INVALID_SHAPE_ID). In releases
	// that use fewer bits for a shape's index, only these bits are compared (Places.noParent).
	noShape = 0xffffffff
)

// errNoShapes means that the shapes were not found because the library is stripped.
var errNoShapes = errors.New("the shapes of this Ruby were not found")

// shape describes one of Ruby's shapes. A shape adds one instance variable to the variables of its parent shape
// (docs/internals/objects.md#shapes).
type shape struct {
	typ    uint64
	edge   uint64 // the ID of the variable
	slots  int    // number of slots that an object of this shape uses
	parent uint32
	// capacity is the number of slots that an object of this shape has room for.
	capacity int
}

// shapeAt returns a shape. A cached shape stays valid, because shapes are never freed, changed or renumbered.
func (o *classes) shapeAt(id uint32) (shape, error) {
	if s, ok := o.shapes[id]; ok {
		return s, nil
	}
	list := o.VM + attach.Address(o.places.vmShapes)
	if o.places.vmShapes < 0 {
		if o.Shapes == 0 {
			return shape{}, errNoShapes
		}
		list = o.Shapes + attach.Address(o.places.treeShapes)
	}
	first, err := o.View.Word(list)
	if err != nil {
		return shape{}, err
	}
	s, err := o.readShape(attach.Address(first) + attach.Address(id)*attach.Address(o.places.shapeSize))
	if err != nil {
		return shape{}, err
	}
	if len(o.shapes) >= maxKeptShapes {
		clear(o.shapes)
	}
	o.shapes[id] = s
	return s, nil
}

func (o *classes) readShape(at attach.Address) (shape, error) {
	b, err := o.View.Bytes(at, o.places.shapeSize)
	if err != nil {
		return shape{}, err
	}
	s := shape{
		typ:    o.places.shapeType.In(b),
		edge:   view.U64(b[o.places.shapeEdge:]),
		slots:  int(o.places.shapeNext.In(b)),
		parent: uint32(o.places.shapeParent.In(b)),
	}
	// The capacity is a field after the number of slots, with the same size (rb_shape.capacity, shape.h of 3.2 to
	// 4.0).
	capacity := o.places.shapeNext
	capacity.Offset += capacity.Size
	if capacity.Offset+capacity.Size <= len(b) {
		s.capacity = int(capacity.In(b))
	}
	return s, nil
}

// eachShape calls f with a shape's variables and their slots, the last one first, until f returns done = true.
func (o *classes) eachShape(id uint32, f func(edge uint64, slot int) (done bool, err error)) error {
	for range maxShapes {
		if id == noShape || id&o.places.shapeMask == o.places.noParent {
			return nil
		}
		s, err := o.shapeAt(id & o.places.shapeMask)
		if err != nil {
			return err
		}
		switch s.typ {
		case shapeRoot:
			return nil
		case shapeIvar:
			if s.slots == 0 || s.slots > maxIvars {
				return fmt.Errorf("shape %d has %d slots", id, s.slots)
			}
			if done, err := f(s.edge, s.slots-1); err != nil || done {
				return err
			}
		}
		id = s.parent
	}
	return fmt.Errorf("shape %d has more than %d variables", id, maxShapes)
}

// HasShapeTree reports whether the release has its shapes in an rb_shape_tree_t. If it has, the field Shapes must be
// the address of this struct.
func (o *classes) HasShapeTree() bool { return o.places.treeShapes >= 0 }

// FindShapes returns the first of the candidates that is the address of an rb_shape_tree_t of 3.3 or 3.4, or zero.
// Such a struct has a list of shapes that begins with the root shape, which has no parent. The error means that the
// target cannot be read.
func (o *classes) FindShapes(candidates []attach.Address) (attach.Address, error) {
	const leastShapes, mostShapes = 5, 1 << 20
	if o.places.treeRoot < 0 || o.places.treeNextID < 0 {
		return 0, nil
	}
	var found attach.Address
	err := o.Read(func() error {
		var missing error
		for _, c := range candidates {
			b, err := o.View.Bytes(c, max(o.places.treeShapes, o.places.treeRoot, o.places.treeNextID)+8)
			if err == nil {
				first, n := view.U64(b[o.places.treeShapes:]), view.U32(b[o.places.treeNextID:])
				if first == 0 || first != view.U64(b[o.places.treeRoot:]) || n < leastShapes || n > mostShapes {
					continue
				}
				var s shape
				if s, err = o.readShape(attach.Address(first)); err == nil && s.typ == shapeRoot && s.parent == noShape {
					found = c
					return nil
				}
			}
			if err == view.ErrMissing {
				missing = err
			}
		}
		return missing
	})
	return found, err
}
