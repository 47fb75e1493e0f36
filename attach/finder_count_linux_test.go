package attach

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestFinderReads: among thousands of known processes, a search reads the titles of all new processes, but the titles
// of only maxAgain known processes. Over many searches every known title is read again.
func TestFinderReads(t *testing.T) {
	const strangers, other = 4000, 1_000_000
	names := []string{"self", "meminfo", strconv.Itoa(other)}
	for i := range strangers {
		names = append(names, strconv.Itoa(100_000+i))
	}
	reads := make(map[int]int)
	f := NewFinder(func(title string) bool { return title == "wanted" })
	f.Only = func(pid int) bool { return pid != other }
	f.list = func() ([]string, error) { return names, nil }
	f.read = func(pid int) (string, time.Duration, error) {
		reads[pid]++
		if pid < 100_000 {
			return "wanted", 0, nil
		}
		return "another", 0, nil // the age is 0, so each search may read the title again
	}
	known := make(map[int]bool)
	find := func() (found []int, read int) {
		t.Helper()
		before := 0
		for _, n := range reads {
			before += n
		}
		found, err := f.Find(func(pid int) bool { return known[pid] })
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range reads {
			read += n
		}
		return found, read - before
	}
	for total := 0; total < strangers; { // a search ends after a second, so reading all titles can take several
		found, n := find()
		if total += n; len(found) != 0 || n == 0 {
			t.Fatalf("found %v, %d titles read", found, n)
		}
	}
	names = append(names, "4242")
	if found, n := find(); !slices.Equal(found, []int{4242}) || n > 1+maxAgain {
		t.Errorf("found %v, %d titles read", found, n)
	}
	known[4242] = true
	for range strangers/maxAgain + 1 {
		if _, n := find(); n > maxAgain {
			t.Fatalf("%d titles read in one look, want %d at most", n, maxAgain)
		}
	}
	for pid := range strangers {
		if reads[100_000+pid] < 2 {
			t.Fatalf("the title of process %d was read %d times", pid, reads[100_000+pid])
		}
	}
	if reads[other] != 0 {
		t.Errorf("the title of another user's process was read")
	}
}

// TestFinderRunsOutOfTime: if a search has no time to read all processes, Whole returns false. The next search reads
// the processes that are left.
func TestFinderRunsOutOfTime(t *testing.T) {
	f := NewFinder(func(title string) bool { return title == "5" })
	now := time.Unix(1e9, 0)
	f.now = func() time.Time { return now }
	f.list = func() ([]string, error) { return []string{"1", "2", "3", "4", "5"}, nil }
	f.read = func(pid int) (string, time.Duration, error) {
		now = now.Add(400 * time.Millisecond)
		return strconv.Itoa(pid), time.Hour, nil
	}
	for _, want := range []struct {
		found []int
		whole bool
	}{{nil, false}, {[]int{5}, true}} {
		found, err := f.Find(func(int) bool { return false })
		if err != nil || !slices.Equal(found, want.found) || f.Whole() != want.whole {
			t.Errorf("found %v, the whole: %v, %v", found, f.Whole(), err)
		}
	}
}
