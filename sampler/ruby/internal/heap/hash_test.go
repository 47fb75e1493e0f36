package heap

import (
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
)

// TestGrownHashIsKept reads pairs of a Hash. If the Hash then gets another pair, the pairs that were read must stay
// valid, but count as incomplete. If a pair is deleted, they must not stay valid, although the deleted key and value
// are still in memory.
func TestGrownHashIsKept(t *testing.T) {
	const hash, table, entries = 0x7000000000, 0x7000001000, 0x7000002000
	tried := 0
	for _, g := range memtest.Load[memtest.Golden](t, "../code/testdata/golden") {
		o := open(t, &g.Process)
		id, _, name := namedID(o)
		if name == "" || o.places.hashTable < 0 && o.places.hashSize < 0 {
			continue
		}
		tried++
		at := attach.Address(table)
		for _, page := range []attach.Address{hash, table, entries} {
			g.Pages.Set(page, make([]byte, watchPage))
		}
		g.Pages.SetWord(hash, TypeHash|flagLarge)
		if o.places.hashTable >= 0 {
			g.Pages.SetWord(hash+attach.Address(o.places.hashTable), table)
		} else {
			at = hash + attach.Address(o.places.hashSize)
		}
		g.Pages.SetWord(at+attach.Address(o.places.tableStart), 0)
		g.Pages.SetWord(at+attach.Address(o.places.tableBound), 1)
		g.Pages.SetWord(at+attach.Address(o.places.tableEntries), entries)
		for i, w := range []uint64{77, id<<symbolShift | symbolTag, 5} {
			g.Pages.SetWord(entries+attach.Address(8*i), w)
		}
		var notes []Witness
		var values [1]uint64
		err := o.Read(func() error {
			notes = notes[:0]
			o.Record(&notes)
			defer o.Record(nil)
			return o.Lookup(hash, []string{name}, values[:])
		})
		if err != nil || values[0] != 5 {
			t.Errorf("%s: %v %v", g.Version, values, err)
			continue
		}
		var w Watch
		w.Set(notes)
		check := func(what string, same, kept bool) {
			t.Helper()
			if got, _, err := w.Confirm(o, g.Pages, nil, nil); got != same || err != nil {
				t.Errorf("%s: %s: the same: %v %v", g.Version, what, got, err)
			}
			if got, _, err := w.ConfirmKept(o, g.Pages, nil, nil); got != kept || err != nil {
				t.Errorf("%s: %s: kept: %v %v", g.Version, what, got, err)
			}
		}
		check("unchanged", true, true)
		g.Pages.SetWord(at+attach.Address(o.places.tableBound), 2)
		check("a pair more", false, true)
		g.Pages.SetWord(at+attach.Address(o.places.tableBound), 0)
		check("none left", false, false)
		g.Pages.SetWord(at+attach.Address(o.places.tableBound), 1)
		g.Pages.SetWord(entries, deletedEntry)
		check("a pair deleted", false, false)
	}
	if tried == 0 {
		t.Error("no captured process has Hashes that are read")
	}
}
