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

// TestSameHash: if two values have the same hash, both keep their IDs. Only the newer one is found. After its eviction
// the older one gets a new ID, and never the newer one's.
func TestSameHash(t *testing.T) {
	table := New[string, uint32](func(string) int64 { return 0 })
	table.hash = func(string) uint64 { return 7 }
	older, newer := table.Add("older", 1), table.Add("newer", 1)
	if *table.At(older) != "older" || *table.At(newer) != "newer" {
		t.Errorf("%q and %q", *table.At(older), *table.At(newer))
	}
	if table.Find("older", 2) != 0 || table.Find("newer", 1) != newer {
		t.Errorf("found as %d and %d, are %d and %d", table.Find("older", 2), table.Find("newer", 1), older, newer)
	}
	table.Use(newer, 2)
	if table.Evict(2, nil); table.At(older) != nil || table.Find("newer", 2) != newer {
		t.Error("the eviction of the older one has removed the newer one")
	}
	if again := table.Add("older", 3); again == newer || table.Find("older", 3) != again {
		t.Errorf("ID %d again", again)
	}
	if table.Evict(3, nil); len(table.ids) != 1 || table.Len() != 1 {
		t.Errorf("%d IDs of %d values", len(table.ids), table.Len())
	}
}

// BenchmarkFind measures Find in a Table with 16,384 values. Each value has the size of a frame.
func BenchmarkFind(b *testing.B) {
	type value struct {
		name, path string
		n          [12]int64
	}
	table := New[value, uint32](func(value) int64 { return 0 })
	values := make([]value, 1<<14)
	for i := range values {
		values[i] = value{name: "ActiveRecord::Relation#exec_queries", path: "/usr/share/rubygems/active_record/relation.rb", n: [12]int64{0: int64(i)}}
		table.Add(values[i], 1)
	}
	for i := 0; b.Loop(); i++ {
		if table.Find(values[i%len(values)], 1) == 0 {
			b.Fatal("not found")
		}
	}
}
