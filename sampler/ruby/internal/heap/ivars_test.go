package heap

import (
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// lockable is a memory with one page that can be made unreadable for a time.
type lockable struct {
	*memtest.Pages
	locked attach.Address // the page, or 0 if there is none
}

func (m *lockable) Read(addr attach.Address, buf []byte) error {
	r := []attach.Range{{Addr: addr, Buf: buf}}
	if _, err := m.ReadBatch(r); err != nil || !r[0].Failed {
		return err
	}
	return attach.ErrUnmapped
}

func (m *lockable) ReadBatch(ranges []attach.Range) (calls int, err error) {
	calls, err = m.Pages.ReadBatch(ranges)
	for i := range ranges {
		if m.locked != 0 && ranges[i].Addr&^4095 == m.locked {
			ranges[i].Failed = true
		}
	}
	return calls, err
}

// namedID returns an ID with a readable name, the address of the name's String, and the name.
func namedID(o *Objects) (id, text uint64, name string) {
	for serial := uint64(1); serial < 1<<14; serial++ {
		err := o.Read(func() error {
			var errText error
			id = serial
			if id > o.places.lastOpID {
				id <<= 4
			}
			text, errText = o.idString(id)
			if errText == nil {
				name, errText = o.IDName(id)
			}
			return errText
		})
		if err == nil && name != "" {
			return id, text, name
		}
	}
	return 0, 0, ""
}

// TestLockedNameIsNoOther makes the name of a variable unreadable for a time, as a compaction does. The lookup must
// fail with an error. ddtop must not conclude, and must not cache, that the objects lack this variable.
func TestLockedNameIsNoOther(t *testing.T) {
	const kind = 7
	tried := 0
	for _, g := range memtest.Load[memtest.Golden](t, "../code/testdata/golden") {
		o := open(t, &g.Process)
		if o.places.objectCount >= 0 {
			continue // this release has no shapes
		}
		tried++
		memory := &lockable{Pages: g.Pages}
		o.View = view.New(memory)
		id, text, name := namedID(o)
		if name == "" {
			t.Errorf("%s: no ID has a name", g.Version)
			continue
		}
		o.Forget()
		o.shapes[kind] = shape{typ: shapeIvar, edge: id, slots: 1, parent: noShape}
		memory.locked = attach.Address(text) &^ 4095
		slotOf := func(name string) (slot int, err error) {
			err = o.Read(func() error {
				var err error
				slot, err = o.slotOf(kind, name)
				return err
			})
			return slot, err
		}
		if slot, err := slotOf(name); !view.IsUnreadable(err) {
			t.Errorf("%s: locked: %d %v", g.Version, slot, err)
		}
		memory.locked = 0
		if slot, err := slotOf(name); slot != 0 || err != nil {
			t.Errorf("%s: %d %v", g.Version, slot, err)
		}
		if slot, err := slotOf("@another"); slot != noSlot || err != nil {
			t.Errorf("%s: another: %d %v", g.Version, slot, err)
		}
	}
	if tried == 0 {
		t.Error("no captured process has shapes")
	}
}
