package intern

import "testing"

// TestEvict: Evict removes a value that was not used, and frees its memory. If the value is added again, it gets
// another ID.
func TestEvict(t *testing.T) {
	table := New[string, uint32](func(s string) int64 { return int64(len(s)) })
	var taken int64
	add := func(s string, now Generation) uint32 {
		taken += table.Needs(s)
		return table.Add(s, now)
	}
	const n = 3 * pageSize
	for i := range n {
		add(string(rune('a'+i%26))+string(rune(0x4e00+i)), 1)
	}
	kept := add("kept", 1)
	if id := table.Find("kept", 2); id != kept || table.Find("never", 2) != 0 {
		t.Errorf("found as %d, is %d", id, kept)
	}
	used := 0
	freed := table.Evict(2, func(v *string, generation Generation) {
		if used++; *v != "kept" || generation != 2 {
			t.Errorf("%q of generation %d stays", *v, generation)
		}
	})
	if left := taken - freed; left != table.pageBytes()+int64(len("kept")) {
		t.Errorf("%d bytes are left of one page with one value", left)
	}
	if used != 1 || table.Len() != 1 || len(table.ids) != 1 || table.Last() != kept || *table.At(kept) != "kept" || table.At(1) != nil {
		t.Errorf("%d used, %d values, %d IDs, last %d", used, table.Len(), len(table.ids), table.Last())
	}
	if table.Use(1, 3); table.At(1) != nil {
		t.Error("an evicted value is used")
	}
	table.Evict(3, nil)
	if again := table.Add("kept", 3); again <= kept || table.Find("kept", 3) != again {
		t.Errorf("ID %d was given again, after %d", again, kept)
	}
}
