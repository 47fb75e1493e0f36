package sampler

import "testing"

// TestTwinsHaveNumbers: threads that have the same name are numbered, and each thread keeps its number.
func TestTwinsHaveNumbers(t *testing.T) {
	d := NewDictionary()
	set := func(id ThreadID, name string, goneNS int64) {
		d.SetThread(ThreadInfo{ID: id, Name: name, HasName: name != "", GoneNS: goneNS})
	}
	want := func(id ThreadID, name string) {
		t.Helper()
		info, _ := d.Thread(id)
		if got := info.FullName(); got != name {
			t.Errorf("thread %d is %q, want %q", id, got, name)
		}
	}
	set(1, "processor", 0)
	set(2, "", 0)
	want(1, "processor")
	set(3, "processor", 0)
	set(4, "worker-1", 0)
	set(5, "worker-1", 0)
	set(2, "processor", 0)
	set(3, "processor", 0) // the same name as before, so nothing changes
	for id, name := range []string{1: "processor 1", 3: "processor 2", 2: "processor 3", 4: "worker-1 (1)", 5: "worker-1 (2)"} {
		want(ThreadID(id), name)
	}
	set(3, "processor", 7)
	d.evict(0, 8)
	want(3, "")
	set(6, "processor", 0)
	want(6, "processor 4")
	want(1, "processor 1")
	set(1, "other", 0)
	want(1, "other")
	for id := range ThreadID(7) {
		set(id, "", 7)
	}
	if d.evict(0, 8); len(d.twins) != 0 {
		t.Errorf("%d names are kept of no thread", len(d.twins))
	}
}
