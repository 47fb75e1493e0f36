package view

import (
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
)

// counting is a fake memory that counts the batches and ranges that a view reads.
type counting struct {
	memtest.Pages
	batches, ranges int
}

func (c *counting) ReadBatch(r []attach.Range) (int, error) {
	c.batches++
	c.ranges += len(r)
	return c.Pages.ReadBatch(r)
}

func TestView(t *testing.T) {
	mem := new(counting)
	page := make([]byte, 8192)
	for i := range page {
		page[i] = byte(i * 7)
	}
	mem.Set(0x10000, page)
	v := New(mem)

	// The view must read pieces that do not depend on each other in one batch, and neighbours as one range.
	var a, b []byte
	err := v.Settle(func() error {
		var errA, errB, errC error
		a, errA = v.Bytes(0x10080, 600)
		b, errB = v.Bytes(0x11800, 8)
		_, errC = v.Bytes(0x10300, 8)
		return Worst(errA, errB, errC)
	})
	if err != nil || mem.batches != 1 || mem.ranges != 2 {
		t.Errorf("%v after %d batches of %d ranges", err, mem.batches, mem.ranges)
	}
	if !slices.Equal(a, page[0x80:0x80+600]) || !slices.Equal(b, page[0x1800:0x1808]) {
		t.Error("other bytes than those in memory")
	}
	// Memory that was read stays in the view until Reset.
	if _, err := v.Bytes(0x10080, 8); err != nil {
		t.Error(err)
	}
	v.Reset()
	if _, err := v.Bytes(0x10080, 8); err != ErrMissing {
		t.Errorf("got %v after reset", err)
	}
	for _, bad := range []struct {
		addr attach.Address
		n    int
	}{{0, 8}, {100, 8}, {1 << 60, 8}, {^attach.Address(0) - 3, 8}, {0x10000, maxRead + 1}, {0x10000, -1}, {0x12000, 8}, {0x11ff8, 16}} {
		err := v.Settle(func() error { _, err := v.Bytes(bad.addr, bad.n); return err })
		var unreadable *unreadableError
		if !errors.As(err, &unreadable) || unreadable.addr != bad.addr {
			t.Errorf("%d bytes at %s: got %v", bad.n, bad.addr, err)
		}
	}
	// If a reader asks for more and more memory, Settle must end with an error.
	if err := v.Settle(func() error { return ErrMissing }); err == nil {
		t.Error("a reader that always lacks memory ends without an error")
	}
	if err := v.Settle(func() error {
		for {
			if _, err := v.Bytes(0x10000, 4096); err != nil {
				return err
			}
		}
	}); err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("an endless reader: %v", err)
	}
}
